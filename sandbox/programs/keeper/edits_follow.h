#pragma once
/* Inside of edits*.c: the edits of calls that run, by what inotify reports of their names. */
#include "sandbox/programs/keeper/edits.h"

/* What is at path; mode 0: nothing. */
struct apply_facts edits_facts_at(const struct keeper *keeper, const char *path);
/* Watches the directory that path is in. Returns its number, -1: not watched, and its inode. */
int edits_watch(struct keeper *keeper, const char *path, uint64_t *ret_inode);
/* From here on events at the edit's name are about it; until it is resolved. */
void edit_activate(struct keeper *keeper, struct edit *edit);
void edit_deactivate(struct keeper *keeper, struct edit *edit);
/* The active edits at all names of a bucket, this among them: of each state. */
struct edit *edits_at(struct keeper *keeper, int watch, const char *name);
struct edit *edit_latest(struct keeper *keeper, const struct state *state, const char *path);
/* Whether what is still open has other content with the same facts: a mapping leaves times as they
 * are, mmap(2). Of what was too large to copy nobody knows. */
bool edit_is_rewritten(const struct keeper *keeper, const struct edit *edit,
                       const struct apply_facts *facts);
/* Whether nothing has changed at all: the call of the system failed. facts: at the edit's end. */
bool edit_is_void(const struct keeper *keeper, const struct edit *edit,
                  const struct apply_facts *facts);
/* The call has ended, or goes on with something else at the same name. */
void edit_resolve(struct keeper *keeper, struct edit *edit);
/* Removing one name of a file changes the times of the file, which has others: sees them again.
 * False: it has none at the edit's path. */
bool edit_see_shared(struct keeper *keeper, struct edit *edit);
/* Whether what was touched has not been done yet, as far as is reported; */
bool edit_is_awaited(const struct edit *edit);
/* and the thread may be about to do it. */
bool edit_is_coming(const struct keeper *keeper, const struct edit *edit);
/* Whether the thread may be about to do what it has been allowed. */
bool toucher_is_coming(const struct keeper *keeper, const struct toucher *toucher);
/* Whether somebody can write to it. */
bool edit_is_open(const struct keeper *keeper, const struct edit *edit);
/* Whether code has the file open, and nobody else: it can change it after its call. Then notes what
 * it is now. */
bool edit_goes_on_open(struct keeper *keeper, struct edit *edit);
/* A call has left the file open. shared: somebody else may write to it too. Returns whether there
 * was space. */
bool edits_hold(struct keeper *keeper, const char *path, uint32_t owner, bool shared);
/* No directory is watched any more, unless a call runs. */
void edits_forget_watches(struct keeper *keeper);
