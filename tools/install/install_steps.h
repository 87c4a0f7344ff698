#pragma once
#include "base/loop.h"
#include "tools/box/server_sandbox.h"
#include "tools/install/install.h"
#include "tools/install/install_log.h"

/* What the queue of installs and the steps of one share. Private to tools/install. */

struct installs {
    struct loop *loop;
    struct server_box *server_box;
    struct overflows *overflows;
    struct record *record;
    struct install_sources sources;
    struct egress_policy egress;
    struct install_op *current;
    struct install_op *queue;
    unsigned queued;
    struct loop_task task; /* begins the next one outside of the caller */

    /* of the current one: */
    uint64_t started_ns;
    enum install_step step;
    unsigned rounds; /* of building */
    struct box_installer *installer;
    struct box_installer *early; /* PLACE's, which loads pip while FETCH runs */
    struct box_installer_spec
        specs[2]; /* what the steps' sandboxes borrow; the second is PLACE's */
    char *request;
    json_t *reply;                   /* the last line that is not progress */
    json_t *built;                   /* by BUILD so far */
    char refused[EGRESS_TEXT_BYTES]; /* what the egress proxy has refused last */
    struct install_log log;
    struct overflow *overflow; /* the log while it is written to a file */
};

/* Starts a step of the current install. Later ones follow by themselves, and at the end, also of a
 * failure, installs_done(), maybe before this returns. */
void installs_run_step(struct installs *installs, enum install_step step);

/* Ends the current install. path: the file of its log, or NULL. An overflow_fn. */
void installs_done(void *arg, const char *path, uint64_t bytes);
