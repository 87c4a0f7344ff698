#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sandbox/protocol/apply_journal.h"
#include "sandbox/protocol/change_record.h"
#include "sandbox/protocol/init_client.h"
#include "sandbox/types.h"
#include "sandbox/workspace/refused.h"

/* The changes of a copy-on-write workspace (box_spec.cow). Paths are relative to the workspace and
 * normal, and name a file or all that is in a directory; none: everything. They are shorter than
 * LIMIT_PATH_BYTES. */

struct box;
struct box_spec;
struct buf;

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
