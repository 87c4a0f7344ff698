#pragma once
#include <linux/limits.h>
#include <stdbool.h>

#include "base/fail.h"
#include "base/loop.h"
#include "sandbox/types.h"

struct box_program;
struct loop;
struct apply;

/* A program of the user's that runs outside of any sandbox, with the user's rights: a tool server
 * of --tools. It ends with all its descendants when the server does. */

struct box_program_request {
    const char *path;
    const char *const *argv; /* ends with NULL */
    const char *const *envp; /* the same */
    const char *directory;
    void (*on_end)(void *arg, const char *why);
    void *arg;
};

/* Finds what a command names, in PATH unless that is a path, and refuses what code could change:
 * the program, the directory, or a file among the arguments, which may be a script. 0 or -errno */
[[nodiscard]] int box_program_find(const struct box_spec *spec, const char *command,
                                   const char *directory, char path[PATH_MAX],
                                   struct fail *ret_fail);
[[nodiscard]] int box_program_check(const struct box_spec *spec, const char *directory,
                                    const char *const *argv, struct fail *ret_fail);

/* Entries of PATH that code cannot write to. */
void box_program_search_path(const struct box_spec *spec, char *out, size_t size);

/* Refuses a file that code can see or change. what, fix: as for trust_check(). 0 or -EPERM */
[[nodiscard]] int box_check_hidden(const struct box_spec *spec, const char *what, const char *path,
                                   const char *fix, struct fail *ret_fail);

/* fds: the server's ends of stdin, stdout and stderr, non-blocking, owned by the caller. on_end:
 * called once, from the loop, when the program has exited or could not be executed; why: a clause.
 * 0 or -errno */
[[nodiscard]] int box_program_start(struct loop *loop, const struct box_program_request *request,
                                    struct box_program **ret_program, int ret_fds[3],
                                    struct fail *ret_fail);

/* Requests its end, so that several end at the same time. program may be NULL. */
void box_program_stop(struct box_program *program);
/* Ends it without a call of on_end, waits a moment and frees program, which may be NULL. */
void box_program_end(struct box_program *program);

/* Applies the items of a journal (protocol/apply_journal.h) to a directory: starts the applying
 * process (programs/apply), which is confined to the two directories. */

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
