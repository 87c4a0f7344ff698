#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "sandbox/protocol/apply_journal.h"
#include "sandbox/protocol/init_client.h"
#include "sandbox/types.h"
#include "sandbox/workspace/protected.h"

struct box_packages;
struct buf;
struct box;
struct box_spec;

/* --- which protections are on: report/isolation.h --- */

/* Starts a real sandbox with spec, checks its protections and kills it. Blocks for some tens of
 * milliseconds: for doctor. */
void box_probe(const struct box_spec *spec, struct box_report *report);

/* Prints the plan of a sandbox with spec, one step per line. */
int box_plan_print(const struct box_spec *spec, struct buf *out, struct fail *ret_fail);

/* --- the sandbox --- */

/* Starts a sandbox. packages: NULL, or outlives the sandbox. 0: on_state will be called. -errno: it
 * could not begin, see ret_fail. BOX_READY means that each required protection was tested in this
 * sandbox. */
[[nodiscard]] int box_start(const struct box_spec *spec, struct box_packages *packages,
                            const struct box_owner *owner, struct box **ret_box,
                            struct fail *ret_fail);

/* Kills everything in the sandbox at once. Before it returns, sessions receive on_end, file
 * operations their result, and on_state BOX_DEAD. Takes milliseconds. */
void box_kill(struct box *box);

/* box may be NULL; kills a running sandbox first. */
void box_free(struct box *box);

enum box_state box_state(const struct box *box);
/* Bytes of the memory limit in use; above matters_bytes, without what the kernel could reclaim. 0:
 * unknown. */
uint64_t box_memory_used(struct box *box, uint64_t matters_bytes);
/* While more than from_bytes of the memory limit are in use, code that allocates waits, so that the
 * server has time to free some; 0: no longer. Only control groups of version 2 can do this. */
void box_memory_slow(struct box *box, uint64_t from_bytes);
/* Memory is short: the kernel shall kill processes of the session that fills it before others; or
 * no longer. */
void box_memory_rank(struct box *box, bool is_short);
/* Whether the kernel has killed a process for memory since the last call of this function, or since
 * the last session that ended for this reason. */
bool box_memory_killed(struct box *box);

/* Files, at the sandbox's paths and with the guest's rights. fn: called exactly once, later, with
 * init's response: file, token, path, and the open file as fds[0]. Of its errors, ECONNRESET: the
 * sandbox died; EMEDIUMTYPE: neither a regular file nor a directory, file.mode says what; EBADF,
 * EBADFD: the permissions of the file, or of its directory, do not let code write there. */

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

/* The changes of a copy-on-write workspace (box_spec.cow). Paths are relative to the workspace and
 * normal, and name a file or all that is in a directory; none: everything. They are shorter than
 * LIMIT_PATH_BYTES. */

enum box_changes_request {
    BOX_CHANGES_COUNT, /* lists them for nobody to see */
    BOX_CHANGES_LIST,
    BOX_CHANGES_PATCH,   /* lists them and writes the patch */
    BOX_CHANGES_DISCARD, /* makes the workspace what the user's directory is, and lists what was
                            to be discarded */
};

/* fn: called once, later, with what box_changes_read() reads, and as fds[1] maybe the whole patch;
 * with ECONNRESET when the sandbox dies. 0 or -errno. */
int box_changes_ask(struct box *box, enum box_changes_request what, struct path_list paths,
                    init_client_fn fn, void *arg);
/* Reads the records of that response, which are valid: none after an error. 0 or an errno value. */
int box_changes_read(const struct wire_reply *reply, const int fds[WIRE_FDS], struct buf *records);

/* How many processes run that code has started and not ended, also of earlier calls. fn: called
 * once, later; with ECONNRESET when the sandbox dies. 0 or -errno. */
int box_count_processes(struct box *box, init_client_fn fn, void *arg);

/* Whether the item may be applied: called for each, in their order. */
enum box_apply_choice {
    BOX_APPLY_LEAVE,  /* nobody has asked for it */
    BOX_APPLY_CACHE,  /* it lies in a cache: what is the same elsewhere waits for it */
    BOX_APPLY_REFUSE, /* others wait for it: it may have their content */
    BOX_APPLY_TAKE,
};
typedef enum box_apply_choice (*box_apply_choose_fn)(void *arg, const struct apply_item *item);

/* error: 0, or an errno value: not all chosen items have a status. journal: the chosen items with
 * what has become of them, borrowed; NULL: nothing was begun. */
typedef void (*box_applied_fn)(void *arg, int error, const struct apply_journal *journal);

/* Applies changes to the user's directory, in a process of its own. One after the other. First
 * finishes what an apply has left that was killed. paths: borrowed until done. done: called once,
 * later; with ECONNRESET when the sandbox dies. 0 or -errno. */
int box_changes_apply(struct box *box, struct path_list paths, box_apply_choose_fn choose,
                      box_applied_fn done, void *arg);

/* Finishes what another server was applying when it was killed, if the workspace has a store; not
 * what is applied only if named. */
void box_changes_resume(struct box *box);

/* Reads the user's directory. */
void box_changes_find_rules(const struct box_spec *spec, struct refused_rules *ret);

/* Ends an apply that runs, with ECONNRESET. Idempotent. */
void box_changes_stop(struct box *box);
