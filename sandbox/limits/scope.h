#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "base/loop.h"
#include "sandbox/sandbox.h"

/* A transient scope of systemd for a box: where an ordinary user, or root, may not divide the control
 * group that the server was started in, the manager that owns it makes a group with the box's limits
 * and moves the box's first process there. See scope.c. A struct scope starts zeroed. */

/* trouble: NULL, or why there is no scope. Called once, from the loop. */
typedef void (*scope_fn)(void *arg, const char *trouble);

struct scope {
    struct loop *loop; /* NULL: nothing is asked */
    pid_t helper_pid;
    int said_fd;
    struct loop_io said_io;
    struct loop_timer timer;
    uint64_t deadline_ns;
    pid_t pid;
    char unit[80];
    char said[160]; /* by the helper, on stderr */
    scope_fn fn;
    void *arg;
};

struct scope_request {
    const char *program; /* busctl: an absolute path */
    const char *name;    /* of the unit, without .scope */
    pid_t pid;           /* a child of ours */
    const struct box_limits *limits;
    unsigned within_ms; /* no answer by then is a refusal */
};

/* Asks for the scope; request is borrowed for the call only. 0 or -errno: then fn is not called. -EXDEV:
 * the manager is elsewhere. */
int scope_ask(struct scope *scope, struct loop *loop, const struct scope_request *request,
              scope_fn fn, void *arg);

/* No answer is wanted any more. Idempotent. */
void scope_cancel(struct scope *scope);

/* Whether who listens at this path is in a pid namespace that is not ours: SO_PEERCRED gives the number
 * that the peer has in our namespace, unix(7), and 0 where it has none. */
bool scope_is_elsewhere(const char *path);
