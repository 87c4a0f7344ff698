#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sandbox/programs/keeper/edits.h"

/* Before a way from one state to another is gone, it is tried: what would be at each path after
 * each edit. Of a path, or of paths that moves connect, all edits are carried out or none: where
 * one cannot be, because it is unsure, or the user has changed something, or no copy was kept,
 * the others stay too. */

/* Finds the fate of each edit of the outcome's way: PUT_BACK for those that can go. */
void edits_try(struct edits_outcome *outcome);
/* An edit could not be carried out although it seemed so: holds those that would come next at its
 * paths. */
void edits_give_up(struct edits_outcome *outcome, struct edit *edit, enum put put);

/* A repository is whole or it is none: what its files refer to lies in others of them. The record
 * of the git directory that the path is in, or NULL. */
struct record *edits_git_record(struct keeper *keeper, const char *path);

/* Whether something is to come to the name of a directory above path; held: but is held. */
bool edits_is_below_awaited(const struct keeper *keeper, const char *path, bool held);

/* A version that replaces another one at an edit's path. */
struct edits_putting {
    struct apply_facts facts; /* of what is there */
    unsigned links;           /* that it has */
    bool found;               /* it is there now, and not only after other edits */
    const struct version *there;
    const struct version *wanted;
};
/* Whether that would lose nothing: PUT_BACK, PUT_STAYS or PUT_MISSED. *ret_same: see below. */
enum put edits_may_put(const struct keeper *keeper, const struct edits_outcome *outcome,
                       const struct edit *edit, const struct edits_putting *putting,
                       bool *ret_same);
/* Whether the file at path has the version's content, in the very inode that had it: the edit has
 * changed its attributes. */
bool edits_is_same_file(const struct keeper *keeper, const struct edit *edit, const char *path,
                        const struct apply_facts *facts, const struct version *version);
/* Whether nothing but what is known has changed in a directory since. */
bool edits_is_as_known(const struct keeper *keeper, const char *path, int64_t since_ns);

/* The version of nothing. */
struct version *edits_none(void);
