#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "sandbox/protocol/init_client.h"

/* Files, at the sandbox's paths and with the guest's rights. fn: called exactly once, later, with
 * init's response: file, token, path, and the open file as fds[0]. Of its errors, ECONNRESET: the
 * sandbox died; EMEDIUMTYPE: neither a regular file nor a directory, file.mode says what; EBADF,
 * EBADFD: the permissions of the file, or of its directory, do not let code write there. */

struct box;
struct buf;

/* path: relative to /work, or absolute in the sandbox; shorter than LIMIT_PATH_BYTES. Opens a
 * regular file or a directory for reading. 0 or -errno. */
int box_file_open(struct box *box, const char *path, init_client_fn fn, void *arg);

/* Finds the one path of the file that path leads to: through no symlink, and without "." and "..";
 * relative if it is in the workspace, else absolute. The file, and directories, may be missing. */
int box_file_resolve(struct box *box, const char *path, init_client_fn fn, void *arg);
/* Opens such a path for writing and makes missing directories; ELOOP: a symlink is there now. The
 * new content gets the name at commit, which the response's token stands for; an append changes the
 * file at once, and has no token. */
int box_file_write(struct box *box, const char *path, enum wire_write_mode mode, init_client_fn fn,
                   void *arg);
/* replaced: the file that it may replace; NULL: any. Else fn gets ESTALE. */
int box_file_commit(struct box *box, uint32_t token, const struct stat *replaced, init_client_fn fn,
                    void *arg);
void box_file_abort(struct box *box, uint32_t token);

/* Makes a file in the directory of overflow files, which code can read but not write. fn: fd is for
 * writing. 0 or -errno. */
int box_output_make(struct box *box, const char *name, init_client_fn fn, void *arg);
void box_output_remove(struct box *box, const char *name);

/* States of the workspace's files, which the sandbox's keeper stores (programs/keeper): what
 * `undo`, `restore` and `checkpoint` go back to together with the variables. The caller numbers
 * states from 1; owner: a number of its own for each session. */

/* Whether there is a keeper. */
bool box_states_exist(const struct box *box);
/* Whether it may not have checked the files yet, or not what is in those that calls have left open:
 * the next call must wait for it. */
bool box_states_are_fresh(const struct box *box);

/* Whether nothing has changed in the workspace since it last checked. */
bool box_states_are_quiet(const struct box *box);

/* Whether it checks nothing, because there are too many files in a directory of the user's. */
bool box_states_are_blind(const struct box *box);

/* What undo cannot do where the keeper is not notified of each program's writes; of the reason. */
#define BOX_UNSEEN_WRITES                                                                          \
    "undo takes back what Python code itself did to files, and not what programs and libraries "   \
    "in "                                                                                          \
    "other languages did: %s"
/* That reason, or NULL: it is notified of all, or the workspace is the sandbox's own. Static. */
const char *box_states_unseen(const struct box *box);

/* Whether undo takes edits back one by one (programs/keeper/edits.h): init reports what programs
 * do, or the session what its Python code does. */
bool box_states_are_edits(const struct box *box);

/* To be called with each response: box notes what it says of the keeper; NULL: it has died. text:
 * receives the items as WIRE_KEPT_BACK describes, each with a NUL. */
void box_states_read(struct box *box, const struct wire_reply *reply, const int fds[WIRE_FDS],
                     struct buf *text);
/* The item after at; NULL: the first. NULL at the end. */
const char *box_states_next(const struct buf *text, const char *at);

/* Requests. fn: called exactly once, later, with the response, of whose errors ENOENT says that a
 * state is unknown. 0 or -errno. */

/* A call begins that leads from one state to the next; from 0: nobody goes back over it. fn: NULL:
 * nothing but calls, of which each has ended, has changed files, or the workspace is quiet.
 * Otherwise no code may run before it is called: the keeper first checks what is there. */
int box_states_begin(struct box *box, uint32_t owner, const struct keep_switch *call,
                     init_client_fn fn, void *arg);

/* The call that leads to a state has ended. */
struct box_states_ended {
    uint32_t to;
    bool changed;       /* it may have changed files, whatever the kernel reports; else its result
                           goes out meanwhile: what changes later is not the call's */
    const char *claims; /* paths, relative to the workspace and with a newline between them, that */
    size_t size;        /* are its own rather than those of a call beside it */
};
int box_states_end(struct box *box, const struct box_states_ended *ended, init_client_fn fn,
                   void *arg);

/* Puts back what the calls between two states of one session have changed, in either direction. */
int box_states_switch(struct box *box, uint32_t from, uint32_t to, init_client_fn fn, void *arg);

/* The states that the session can still go back to; the others are dropped. */
void box_states_keep(struct box *box, const struct keep_states *states);

/* A file tool has written path, relative to the workspace: no call has. */
void box_states_note(struct box *box, const char *path);
