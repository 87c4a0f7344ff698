#include "sandbox/plan/mount.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox/plan/binds.h"
#include "sandbox/sandbox.h"
#include "sandbox/trust/overlap.h"

/* Takes ":word" from the end of text. */
static bool take_word(char *text, const char *word)
{
    size_t size = strlen(text);
    size_t length = strlen(word);
    bool found = size > length + 1 && strcmp(text + size - length, word) == 0 &&
                 text[size - length - 1] == ':';
    if (found) {
        text[size - length - 1] = '\0';
    }
    return found;
}

/* The bytes that follow the first one of a character, by the Unicode Standard's table 3-7: how many,
 * and what the second one may be. */
static unsigned follow(unsigned char first, unsigned char *ret_least, unsigned char *ret_most)
{
    *ret_least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    *ret_most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    return first < 0x80 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
}

bool box_mount_is_text(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    while (*at) {
        unsigned char least = 0;
        unsigned char most = 0;
        unsigned more = follow(*at, &least, &most);
        if (*at < ' ' || *at == 0x7f || (*at >= 0x80 && *at < 0xc2) || *at > 0xf4) {
            return false;
        }
        for (at++; more > 0; more--, at++) {
            if (*at < least || *at > most) {
                return false;
            }
            least = 0x80;
            most = 0xbf;
        }
    }
    return true;
}

int box_mount_split(char *text, const char **ret_dir, const char **ret_name, bool *ret_writable,
                    struct fail *ret_fail)
{
    *ret_writable = take_word(text, "rw");
    if (!*ret_writable) {
        (void)take_word(text, "ro"); /* as it is anyway; so that a folder can be called rw */
    }
    char *colon = strrchr(text, ':');
    /* With a slash behind it, it belongs to the folder's own path. */
    *ret_name = colon && !strchr(colon, '/') ? colon + 1 : NULL;
    if (*ret_name) {
        *colon = '\0';
    }
    *ret_dir = text;
    const char *name = *ret_name;
    const char *why = NULL;
    if (!*text) {
        why = "no folder is named";
    } else if (name && (strspn(name, ".") == strlen(name) || strlen(name) > NAME_MAX)) {
        why = "that is no name";
    } else if (!box_mount_is_text(text) || (name && !box_mount_is_text(name))) {
        why = "what is no plain text cannot be told to a model";
    }
    if (why) {
        (void)fail_set(ret_fail, 0, "--mount takes DIR[:NAME][:rw]: %s", why);
    }
    return why ? -EINVAL : 0;
}

/* --- what is mounted below --- */

/* File systems that show the kernel and its processes, or hand out descriptors of them. */
static const char *const kernel_types[] = {
    "proc",      "sysfs",       "cgroup",  "cgroup2", "devtmpfs", "devpts",     "securityfs",
    "selinuxfs", "smackfs",     "debugfs", "tracefs", "bpf",      "configfs",   "efivarfs",
    "pstore",    "binfmt_misc", "fusectl", "mqueue",  "nsfs",     "rpc_pipefs", "nfsd",
};

static bool is_kernel_type(const char *type)
{
    for (unsigned i = 0; i < sizeof kernel_types / sizeof *kernel_types; i++) {
        if (strcmp(type, kernel_types[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Where a line's mount lies and of what type it is, or NULL; see proc_pid_mountinfo(5). */
static char *mount_point(char *line, const char **ret_type)
{
    enum { FIELD_POINT = 4 };
    char *state = NULL;
    char *point = NULL;
    char *word = strtok_r(line, " ", &state);
    for (unsigned field = 0; word && strcmp(word, "-") != 0; field++) {
        point = field == FIELD_POINT ? word : point;
        word = strtok_r(NULL, " ", &state);
    }
    *ret_type = word ? strtok_r(NULL, " ", &state) : NULL;
    return *ret_type ? point : NULL;
}

struct shown {
    const char *flag;
    const char *path;
    const char *around; /* type of the file system that it is in */
    size_t deepest;     /* length of that one's mount point */
};

static int refuse(struct fail *ret_fail, const struct shown *shown, const char *type,
                  const char *why)
{
    (void)fail_set(ret_fail, 0, "%s %s: %s%s", shown->flag, shown->path, why, type);
    return -EPERM;
}

static unsigned list_shown(const struct box_spec *spec, struct shown shown[BOX_MOUNTS + 1])
{
    unsigned count = 0;
    for (; count < spec->mount_count; count++) {
        shown[count] = (struct shown){.flag = "--mount", .path = spec->mounts[count].path};
    }
    if (spec->workspace) {
        shown[count++] = (struct shown){.flag = "--workspace", .path = spec->workspace};
    }
    return count;
}

/* Of all mounts that reach to a folder the last one is what is seen there. text is changed. */
static int judge_lines(const struct box_spec *spec, char *text, struct fail *ret_fail)
{
    struct shown shown[BOX_MOUNTS + 1];
    unsigned count = list_shown(spec, shown);
    char *state = NULL;
    char *line = strtok_r(text, "\n", &state);
    for (; line; line = strtok_r(NULL, "\n", &state)) {
        const char *type = NULL;
        char *point = mount_point(line, &type);
        if (!point) {
            continue;
        }
        bind_unescape(point);
        for (unsigned i = 0; i < count; i++) {
            size_t size = strlen(point);
            if (overlap_behind(shown[i].path, point) && size >= shown[i].deepest) {
                shown[i].deepest = size;
                shown[i].around = type;
            } else if (overlap_behind(point, shown[i].path) && is_kernel_type(type)) {
                return refuse(ret_fail, &shown[i], type,
                              "a file system of the kernel is mounted in it: ");
            }
        }
    }
    for (unsigned i = 0; i < count; i++) {
        if (shown[i].around && is_kernel_type(shown[i].around)) {
            return refuse(ret_fail, &shown[i], shown[i].around,
                          "that is a file system of the kernel: ");
        }
    }
    return 0;
}

int box_mounts_judge(const struct box_spec *spec, const char *mountinfo, struct fail *ret_fail)
{
    char *text = strdup(mountinfo);
    int r = text ? judge_lines(spec, text, ret_fail) : fail_set(ret_fail, ENOMEM, "--mount");
    free(text);
    return r;
}
