#pragma once
#include <stdbool.h>

#include "base/fail.h"

struct loop;

/* Applies the items of a journal (protocol/apply_journal.h) to a directory: starts the applying
 * process (programs/apply), which is confined to the two directories. */

struct apply;

struct apply_setup {
    int dir_fd;     /* where the changes go; O_RDONLY | O_DIRECTORY */
    int upper_fd;   /* where they are: the overlay's upper directory; also O_PATH */
    int journal_fd; /* read-write; nobody makes it shorter until done() */
    /* The process has exited, and the journal says what it has done. completed: each item has a
     * status; else another start continues. It may call apply_free(). Called from the loop. */
    void (*done)(void *arg, bool completed);
    void *arg;
};

/* The descriptors stay the caller's, and may be closed at once. The caller owns *ret_apply. 0 or
 * -errno. */
int apply_start(struct loop *loop, const struct apply_setup *setup, struct apply **ret_apply,
                struct fail *ret_fail);

/* Kills the process if it has not exited; then done() is not called. NULL: nothing. */
void apply_free(struct apply *apply);
