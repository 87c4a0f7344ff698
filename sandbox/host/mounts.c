#include "sandbox/host/mounts.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "base/path.h"
#include "base/utf8.h"
#include "sandbox/types.h"

/* Removes ":word" from the end of text, if it is there. */
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

bool box_mount_is_text(const char *text)
{
    const char *end = text + strlen(text);
    while (text < end) {
        int size = utf8_size(text, (size_t)(end - text));
        if (size < 0 || (unsigned char)*text < ' ' || *text == 0x7f) {
            return false;
        }
        text += size;
    }
    return true;
}

/* Whoever means a mode would get a name, and no word of it. */
static const char *const misspelt[] = {"rx", "w", "wr", "rwx", "RO", "RW", NULL};

int box_mount_split(char *text, const char **ret_dir, const char **ret_name, bool *ret_writable,
                    struct fail *ret_fail)
{
    *ret_writable = take_word(text, "rw");
    if (!*ret_writable) {
        (void)take_word(text, "ro"); /* the default; with it a directory can have the name rw */
    }
    char *colon = strrchr(text, ':');
    /* A colon before a slash belongs to the directory's path. */
    *ret_name = colon && !strchr(colon, '/') ? colon + 1 : NULL;
    if (*ret_name) {
        *colon = '\0';
    }
    *ret_dir = text;
    const char *name = *ret_name;
    const char *why = NULL;
    if (!*text) {
        why = "the directory is missing";
    } else if (name && (strspn(name, ".") == strlen(name) || strlen(name) > NAME_MAX)) {
        why = "NAME is invalid";
    } else if (name && parse_is_among(name, misspelt)) {
        why = "NAME looks like a misspelt :rw";
    } else if (!box_mount_is_text(text) || (name && !box_mount_is_text(name))) {
        why = "path is not printable text";
    }
    return why ? fail_refuse(ret_fail, EINVAL, "--mount takes DIR[:NAME][:rw]: %s", why) : 0;
}

/* --- kernel file systems below --- */

/* File systems that show the kernel and its processes, or give access to their descriptors. */
static const char *const kernel_types[] = {
    "proc",       "sysfs",      "cgroup",  "cgroup2",     "devtmpfs", "devpts",
    "securityfs", "selinuxfs",  "smackfs", "debugfs",     "tracefs",  "bpf",
    "configfs",   "efivarfs",   "pstore",  "binfmt_misc", "fusectl",  "mqueue",
    "nsfs",       "rpc_pipefs", "nfsd",    NULL,
};

struct shown {
    const char *flag;
    const char *path;
    const char *around; /* type of the file system that holds it */
    size_t deepest;     /* length of that file system's mount point */
};

static int refuse(struct fail *ret_fail, const struct shown *shown, const char *type,
                  const char *why)
{
    return fail_refuse(ret_fail, EPERM, "%s %s: %s%s", shown->flag, shown->path, why, type);
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

/* The last of the mounts above a directory is the one that holds it. Changes text. */
static int check_lines(const struct box_spec *spec, char *text, struct fail *ret_fail)
{
    struct shown shown[BOX_MOUNTS + 1];
    unsigned count = list_shown(spec, shown);
    struct parsed_mount mount;
    while (parse_mount(&text, &mount)) {
        for (unsigned i = 0; i < count; i++) {
            size_t size = strlen(mount.point);
            if (path_behind(shown[i].path, mount.point) && size >= shown[i].deepest) {
                shown[i].deepest = size;
                shown[i].around = mount.type;
            } else if (path_behind(mount.point, shown[i].path) &&
                       parse_is_among(mount.type, kernel_types)) {
                return refuse(ret_fail, &shown[i], mount.type,
                              "it contains a kernel file system: ");
            }
        }
    }
    for (unsigned i = 0; i < count; i++) {
        if (shown[i].around && parse_is_among(shown[i].around, kernel_types)) {
            return refuse(ret_fail, &shown[i], shown[i].around, "it is a kernel file system: ");
        }
    }
    return 0;
}

const char *box_mounts_below(char **at, const char *dir)
{
    struct parsed_mount mount;
    while (parse_mount(at, &mount)) {
        const char *below = path_behind(mount.point, dir);
        if (below && *below) {
            return mount.point;
        }
    }
    return NULL;
}

int box_mounts_check(const struct box_spec *spec, const char *mountinfo, struct fail *ret_fail)
{
    char *text = strdup(mountinfo);
    int r = text ? check_lines(spec, text, ret_fail) : fail_set(ret_fail, ENOMEM, "--mount");
    free(text);
    return r;
}
