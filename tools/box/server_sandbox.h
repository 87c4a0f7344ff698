#pragma once
#include <stdbool.h>

#include "base/fail.h"
#include "sandbox/sandbox.h"

/* The sandbox of this server. Starts when it is first needed, and again after it has died. */

struct buf;
struct server_box;

/* Called once: box is ready, or NULL with the reason. */
typedef void (*server_box_fn)(void *arg, struct box *box, const struct fail *why);

struct server_box_waiter {
    struct server_box_waiter *next;
    struct server_box *server_box; /* NULL: not waiting */
    unsigned round;                /* of calls, in which it began to wait */
    server_box_fn fn;
    void *arg;
};

/* spec: borrowed. on_refused: called for each connection that the egress proxy refuses; may be
 * NULL. 0 or -ENOMEM. */
int server_box_new(struct loop *loop, const struct box_spec *spec, egress_event_fn on_refused,
                   void *arg, struct server_box **ret_server_box);
void server_box_free(struct server_box *server_box);
/* Whether server_box_free() is running: then a sandbox that exits is no failure. */
bool server_box_is_ending(const struct server_box *server_box);

/* Calls fn when the sandbox is ready, maybe before this returns; those that wait are called in the
 * order in which they began. */
void server_box_wait(struct server_box *server_box, struct server_box_waiter *waiter,
                     server_box_fn fn, void *arg);
void server_box_wait_cancel(struct server_box_waiter *waiter);

/* The sandbox, or NULL while none is ready. */
struct box *server_box_get(const struct server_box *server_box);

/* NULL where none can be installed. They outlive the sandbox, and installers that use them must end
 * before the sandbox does. */
struct box_packages *server_box_packages(const struct server_box *server_box);

const struct box_spec *server_box_spec(const struct server_box *server_box);

/* The protections in force, as far as they are known. */
const struct box_report *server_box_report(const struct server_box *server_box);

/* Which protected names of the user's directory were created, changed or removed since the last
 * call, as box_protected_news() names them; empty: none. */
void server_box_protected_news(struct server_box *server_box, char *text, size_t size);

/* For the first result only: appends what in the user's directory is not as --workspace promises,
 * or surprises code. */
void server_box_protection(struct server_box *server_box, struct buf *text);

/* Opens a file as box_file_open() does. fn is called once, maybe before this returns: also where
 * there is no sandbox. */
void server_box_open_file(struct server_box *server_box, const char *path, init_client_fn fn,
                          void *arg);
