#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "base/loop.h"
#include "sandbox/types.h"

/* A transient systemd scope for a sandbox: where an ordinary user or root may not divide the cgroup
 * that the server was started in, the manager that owns it makes a scope with the sandbox's limits
 * and moves the sandbox's init there. See cgroup_place.c. A struct scope starts zeroed. */

/* error: NULL, or why there is no scope. Called once, from the loop. */
typedef void (*scope_fn)(void *arg, const char *error);

struct scope {
    struct loop *loop; /* NULL: no request is running */
    pid_t helper_pid;
    int said_fd;
    struct loop_io said_io;
    struct loop_timer timer;
    uint64_t deadline_ns;
    pid_t pid;
    char unit[80];
    char said[160]; /* what busctl wrote to stderr */
    scope_fn fn;
    void *arg;
};

struct scope_request {
    const char *program; /* busctl: an absolute path */
    const char *name;    /* the unit's name without .scope */
    pid_t pid;           /* a child of the server */
    const struct box_limits *limits;
    unsigned within_ms; /* time limit for the request */
};

/* Requests the scope; borrows request for the call only. 0 or -errno: then fn is not called.
 * -EXDEV: the manager runs in another pid namespace. */
int scope_ask(struct scope *scope, struct loop *loop, const struct scope_request *request,
              scope_fn fn, void *arg);

/* Stops waiting for the scope. Idempotent. */
void scope_cancel(struct scope *scope);

/* Whether the process that listens at this path is in another pid namespace: SO_PEERCRED gives the
 * peer's number in our namespace, unix(7), and 0 where it has none. */
bool scope_is_elsewhere(const char *path);
