/* Finds directories that are mounted at several paths, by the table of mounts,
 * proc_pid_mountinfo(5): each mount has its file system's device and, in that file system, the
 * directory that is its root. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/path.h"
#include "sandbox/trust/trust.h"
#include "sandbox/types.h"

enum { MOUNTINFO_BYTES = 1 << 20 };

/* The mount that holds path: the deepest one, and of several the last. */
static const struct parsed_mount *find_enclosing(const struct parsed_mount *rows, size_t count,
                                                 const char *path)
{
    const struct parsed_mount *found = NULL;
    for (size_t i = 0; i < count; i++) {
        bool deeper = !found || strlen(rows[i].point) >= strlen(found->point);
        found = deeper && path_behind(path, rows[i].point) ? &rows[i] : found;
    }
    return found;
}

/* Whether row's root is part of directory dir, which the mount around holds. */
static bool is_part_of(const struct parsed_mount *row, const struct parsed_mount *around,
                       const char *dir)
{
    if (strcmp(row->device, around->device) != 0) {
        return false;
    }
    const char *below_root = path_behind(row->root, around->root);
    const char *below_point = path_behind(dir, around->point);
    return below_root && below_point &&
           (!*below_point || path_behind(below_root, below_point) != NULL);
}

static bool is_known(const struct box_spec *spec, const char *path)
{
    struct trust_place places[TRUST_PLACES];
    unsigned count = trust_places(spec, places);
    bool known = false;
    for (unsigned i = 0; i < count && !known; i++) {
        known = strcmp(places[i].path, path) == 0;
    }
    return known;
}

static int add(struct box_spec *spec, const char *path, struct fail *ret_fail)
{
    if (is_known(spec, path)) {
        return 0;
    }
    if (spec->aliases.count == BOX_ALIASES) {
        return fail_refuse(
            ret_fail, E2BIG,
            "more than %d directories are mounted in or from those that code may write "
            "to; name smaller ones with --workspace and --mount",
            BOX_ALIASES);
    }
    char *copy = strdup(path);
    if (!copy) {
        return fail_set(ret_fail, ENOMEM, "the mount table");
    }
    spec->aliases.at[spec->aliases.count++] = copy;
    return 0;
}

static int add_aliases_of(struct box_spec *spec, const char *dir, const struct parsed_mount *rows,
                          size_t count, struct fail *ret_fail)
{
    const struct parsed_mount *around = find_enclosing(rows, count, dir);
    int r = 0;
    for (size_t i = 0; around && i < count && r == 0; i++) {
        const char *below = path_behind(rows[i].point, dir);
        if ((below && *below) || (!below && is_part_of(&rows[i], around, dir))) {
            r = add(spec, rows[i].point, ret_fail);
        }
    }
    return r;
}

static int add_aliases(struct box_spec *spec, const struct parsed_mount *rows, size_t count,
                       struct fail *ret_fail)
{
    int r = spec->workspace ? add_aliases_of(spec, spec->workspace, rows, count, ret_fail) : 0;
    for (unsigned i = 0; r == 0 && i < spec->mount_count; i++) {
        if (spec->mounts[i].writable) {
            r = add_aliases_of(spec, spec->mounts[i].path, rows, count, ret_fail);
        }
    }
    /* An alias has its own mount, and parts of that have aliases too. */
    for (unsigned i = 0; r == 0 && i < spec->aliases.count; i++) {
        r = add_aliases_of(spec, spec->aliases.at[i], rows, count, ret_fail);
    }
    return r;
}

int trust_read_aliases(struct box_spec *spec, char *mountinfo, struct fail *ret_fail)
{
    size_t most = 1;
    for (const char *at = mountinfo; (at = strchr(at, '\n')); at++) {
        most++;
    }
    struct parsed_mount *rows = calloc(most, sizeof *rows);
    if (!rows) {
        return fail_set(ret_fail, ENOMEM, "the mount table");
    }
    size_t count = 0;
    while (parse_mount(&mountinfo, &rows[count])) {
        count++;
    }
    trust_forget_aliases(spec);
    int r = add_aliases(spec, rows, count, ret_fail);
    free(rows);
    return r;
}

int trust_read_mounts(char **ret_text, struct fail *ret_fail)
{
    defer_free char *text = malloc(MOUNTINFO_BYTES);
    int r =
        text ? fd_read_text_at(AT_FDCWD, "/proc/self/mountinfo", text, MOUNTINFO_BYTES) : -ENOMEM;
    if (r < 0) {
        return fail_set(ret_fail, -r, "the mount table");
    }
    *ret_text = take_ptr(text);
    return 0;
}

int trust_find_aliases(struct box_spec *spec, struct fail *ret_fail)
{
    struct trust_place places[TRUST_PLACES];
    if (trust_places(spec, places) == 0) {
        return 0;
    }
    defer_free char *text = NULL;
    int r = trust_read_mounts(&text, ret_fail);
    return text ? trust_read_aliases(spec, text, ret_fail) : r;
}

void trust_forget_aliases(struct box_spec *spec)
{
    for (unsigned i = 0; i < spec->aliases.count; i++) {
        free((void *)(uintptr_t)spec->aliases.at[i]);
    }
    spec->aliases.count = 0;
}
