/* A name in DIR that was exchanged with a temporary one, also by a process that was killed. */
#include <errno.h>
#include <stdio.h> /* RENAME_EXCHANGE */
#include <string.h>

#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "sandbox/programs/apply/apply.h"

int apply_finish_swap(const struct apply_item *item, int dir_fd, const char *temporary,
                      const char *name)
{
    struct apply_look look;
    int r = apply_facts_at(dir_fd, temporary, 0, &look);
    if (r == 0 && !apply_facts_equal_moved(&item->before, &look.facts)) {
        r = APPLY_CONFLICT;
    }
    if (r == 0 && fd_is_written_at(dir_fd, temporary, look.facts.mode) > 0) {
        r = APPLY_WRITTEN;
    }
    r = r ? r : apply_remove_temporary(dir_fd, temporary);
    if (r == 0) {
        return 0;
    }
    bool deletes = item->source.mode == 0;
    (void)apply_rename(dir_fd, temporary, name, deletes ? RENAME_NOREPLACE : RENAME_EXCHANGE);
    return r == -ENOTEMPTY || r == -EEXIST ? APPLY_FULL : r;
}

/* --- after a kill --- */

static bool is_temporary(const char *name)
{
    static const char before[] = ".sandpiper-";
    static const char after[] = ".tmp";
    const char *digits = name + sizeof before - 1;
    return strlen(name) == APPLY_TEMPORARY_NAME - 1 &&
           strncmp(name, before, sizeof before - 1) == 0 &&
           strspn(digits, "0123456789abcdef") == 16 && strcmp(digits + 16, after) == 0;
}

/* The item's name, if it is in the directory of the temporary one. */
static const char *name_beside(const struct apply_item *item, const struct apply_journal *journal,
                               const char *temporary)
{
    size_t parent = (size_t)(temporary - journal->temporary);
    const char *name = path_last(item->path);
    bool is_beside = (size_t)(name - item->path) == parent &&
                     strncmp(item->path, journal->temporary, parent) == 0;
    return is_beside ? name : NULL;
}

void apply_recover(struct apply_run *run)
{
    const struct apply_journal *journal = run->journal;
    const char *name = NULL;
    struct apply_look look;
    if (!journal->temporary[0]) {
        return;
    }
    defer_close int dir_fd =
        apply_open_parent(run->dir_fd, run->mount_id, journal->temporary, &name);
    const struct apply_item *item =
        journal->temporary_item ? run->items[journal->temporary_item - 1] : NULL;
    const char *of_item = item && dir_fd >= 0 ? name_beside(item, journal, name) : NULL;
    if (dir_fd >= 0 && is_temporary(name) && apply_facts_at(dir_fd, name, 0, &look) == 0 &&
        look.facts.mode) {
        if (!apply_is_ours(run, &look) && of_item) {
            (void)apply_finish_swap(item, dir_fd, name, of_item);
        }
        apply_discard_temporary(run, dir_fd, name);
    }
    apply_forget_temporary(run);
}
