/* Compares the records with the user's directory, with --cow. A file that is what the user has is
 * no change, even if the upper directory holds a copy of it: nothing is ever removed from there,
 * because changing a layer of a mounted overlay is undefined (filesystems/overlayfs.rst of
 * Linux). */
#include "sandbox/programs/keeper/survey.h"
#include "sandbox/programs/keeper/changes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/git.h"
#include "base/path.h"

/* lower: of the user's file as it is now. */
static void compare(struct keeper *keeper, struct record *record, const struct apply_facts *lower)
{
    if (!record->cow.compared || !apply_facts_alike(&record->cow.compared_to, lower)) {
        record->cow.compared = true;
        record->cow.compared_to = *lower;
        record->cow.differs =
            !place_same(keeper->upper_fd, &record->facts, keeper->lower_fd, lower, record->path);
        keeper->pending_known = false;
        if (!record->cow.differs && !apply_facts_alike(&record->cow.base, lower)) {
            record->cow.base = *lower; /* both are the same: a change from here on is a new one */
            base_note(keeper, record);
        }
    }
}

bool change_is_unread(const struct record *record)
{
    return S_ISDIR(record->facts.mode) && record->unread;
}

bool change_has_line(struct record *const *list, size_t count)
{
    const struct record *record = list[0];
    bool is_there = S_ISDIR(record->facts.mode);
    bool was_there = S_ISDIR(record->cow.compared_to.mode);
    if (!record->cow.differs || change_is_unread(record)) {
        return record->cow.differs;
    }
    if (!is_there && !(was_there && record->facts.mode == 0)) {
        return true;
    }
    if (is_there && record->cow.compared_to.mode != 0) {
        return true; /* other mode bits, or a file before */
    }
    if (is_there && record->facts.mode & (S_IWGRP | S_IWOTH)) {
        return true; /* which no file in it tells */
    }
    for (size_t i = 1; i < count && apply_path_is_below(list[i]->path, record->path); i++) {
        if (is_there ? list[i]->facts.mode != 0 : list[i]->cow.differs) {
            return false;
        }
    }
    return true;
}

static void compare_all(struct keeper *keeper, struct record *const *list, size_t count, bool look)
{
    for (size_t i = 0; i < count; i++) {
        struct apply_facts lower = list[i]->cow.compared_to;
        /* What code writes to a mapping that it has used before changes no facts. */
        list[i]->cow.compared = list[i]->cow.compared && !(look && S_ISREG(list[i]->facts.mode));
        if ((look || !list[i]->cow.compared) &&
            place_look(keeper->lower_fd, list[i]->path, &lower, NULL) < 0) {
            lower = (struct apply_facts){};
        }
        compare(keeper, list[i], &lower);
    }
}

unsigned changes_count(struct keeper *keeper)
{
    size_t count = 0;
    if (keeper->pending_known) {
        return keeper->pending;
    }
    struct record **list = records_sorted(keeper, &count);
    keeper->pending = 0;
    if (list) {
        compare_all(keeper, list, count, /* look= */ false);
    }
    for (size_t i = 0; list && i < count; i++) {
        keeper->pending += change_has_line(list + i, count - i);
    }
    free(list);
    keeper->pending_known = true;
    return keeper->pending;
}

/* Whether the user has something at path, or will have it after the changes, as the last scan has
 * found them. Both count: what is deleted stays in the user's directory where that deletion is not
 * carried out, for a conflict, or because code puts the file back meanwhile. */
static bool is_there(const struct keeper *keeper, const char *path)
{
    struct apply_facts facts;
    const struct record *record = record_find(keeper, path);
    return record ? record->facts.mode != 0 || record->cow.compared_to.mode != 0
                  : place_look(keeper->lower_fd, path, &facts, NULL) == 0 && facts.mode != 0;
}

struct inside {
    const struct keeper *keeper;
    const char *path; /* of a directory */
};

static bool is_inside(const void *arg, const char *name)
{
    const struct inside *inside = arg;
    char text[KEEPER_PATH_BYTES + 16];
    (void)snprintf(text, sizeof text, "%s%s%s", inside->path, *inside->path ? "/" : "", name);
    return is_there(inside->keeper, text);
}

static bool is_git_directory(const struct keeper *keeper, const char *path)
{
    return git_is_directory(is_inside, &(struct inside){keeper, path});
}

/* Finds what lies in a directory of the user's that is gone, or another one by now. Sorted. */
static void find_adrift(struct record *const *list, size_t count)
{
    const struct record *top = NULL;
    for (size_t i = 0; i < count; i++) {
        struct record *record = list[i];
        bool is_same = S_ISDIR(record->cow.compared_to.mode) &&
                       record->cow.compared_to.inode == record->cow.base.inode;
        record->cow.adrift = top && apply_path_is_below(record->path, top->path);
        if (!record->cow.adrift) {
            top = S_ISDIR(record->facts.mode) && S_ISDIR(record->cow.base.mode) && !is_same ? record
                                                                                            : NULL;
        }
    }
}

bool change_is_conflict(const struct record *record)
{
    return record->cow.adrift || !apply_facts_alike(&record->cow.base, &record->cow.compared_to);
}

/* Finds which records lie in a git repository without a .git, whose hooks and config git takes for
 * its own. Sorted: a directory comes before what is in it. */
static void find_bare(const struct keeper *keeper, struct record *const *list, size_t count)
{
    bool is_bare = is_git_directory(keeper, "");
    for (size_t i = 0; i < count; i++) {
        struct record *record = list[i];
        char path[KEEPER_PATH_BYTES];
        (void)snprintf(path, sizeof path, "%s", record->path);
        const struct record *parent = path_cut_last(path) ? record_find(keeper, path) : NULL;
        bool is_directory = S_ISDIR(record->facts.mode) || S_ISDIR(record->cow.compared_to.mode);
        record->cow.in_bare = parent ? parent->cow.in_bare || parent->cow.is_bare : is_bare;
        record->cow.is_bare = is_directory && is_git_directory(keeper, record->path);
    }
}

struct record **changes_survey(struct keeper *keeper, size_t *ret_count, int *ret_error)
{
    states_look(keeper);
    struct record **list = records_sorted(keeper, ret_count);
    if (!list || keeper->too_many) {
        *ret_error = list ? -E2BIG : -ENOMEM;
        *ret_count = 0;
        free(list);
        return NULL;
    }
    compare_all(keeper, list, *ret_count, /* look= */ true);
    find_adrift(list, *ret_count);
    find_bare(keeper, list, *ret_count);
    return list;
}
