#pragma once
#include <stdbool.h>

#include "base/fail.h"
#include "sandbox/sandbox.h"

/* The one box of this server, started when it is first needed and again when it has died. */

struct workspace;

/* Called once: box is ready, or NULL with the reason. */
typedef void (*workspace_fn)(void *arg, struct box *box, const struct fail *why);

struct workspace_waiter {
    struct workspace_waiter *next;
    struct workspace *workspace; /* NULL: not waiting */
    workspace_fn fn;
    void *arg;
};

/* spec: borrowed. 0 or -ENOMEM. */
int workspace_new(struct loop *loop, const struct box_spec *spec, struct workspace **ret_workspace);
void workspace_free(struct workspace *workspace);

/* fn: told what the box was refused of the network. */
void workspace_watch_network(struct workspace *workspace, egress_event_fn fn, void *arg);

/* Starts the box if there is none; does not wait. */
void workspace_warm_up(struct workspace *workspace);

/* Calls fn when the box is ready, maybe before this returns. */
void workspace_wait(struct workspace *workspace, struct workspace_waiter *waiter, workspace_fn fn,
                    void *arg);
void workspace_wait_cancel(struct workspace_waiter *waiter);

/* The box, or NULL while there is none that is ready. */
struct box *workspace_box(const struct workspace *workspace);

/* NULL where none can be installed. They outlive the box, and errands that use them must end before
 * the workspace does. */
struct box_packages *workspace_packages(const struct workspace *workspace);

const struct box_spec *workspace_spec(const struct workspace *workspace);

/* What holds, as far as it is known by now. */
const struct box_grade *workspace_grade(const struct workspace *workspace);

/* Which protected names of the user's directory were created, changed or removed since this was asked last, as
 * box_protected_news() says it; empty: none. */
void workspace_protected_news(struct workspace *workspace, char *text, size_t size);

/* Once, when the first result is told: what in the user's directory is not as --workspace promises, or surprises
 * code; empty: nothing. */
void workspace_protection(struct workspace *workspace, char *text, size_t size);

bool workspace_is_host_folder(const struct workspace *workspace);
