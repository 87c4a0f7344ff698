#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/own.h"
#include "sandbox/box/box.h"
#include "sandbox/host/host_facts.h"
#include "sandbox/launch/child.h"
#include "sandbox/launch/launch.h"
#include "sandbox/plan/level.h"

/* The child's report is one write, or none if every step succeeded. */
static bool plan_works(const struct plan *plan, struct fail *ret_fail)
{
    const char go[2] = {1, 1}; /* the ids are mapped; there is no group to join */
    defer_close int go_read = -1;
    defer_close int go_write = -1;
    defer_close int error_read = -1;
    defer_close int error_write = -1;
    int r = fd_pipe(&go_read, &go_write);
    r = r ? r : fd_pipe(&error_read, &error_write);
    if (r < 0) {
        return fail_set(ret_fail, -r, "a pipe") == 0;
    }
    const struct child_setup setup = {.plan = plan,
                                      .go_fd = go_read,
                                      .error_fd = error_write,
                                      .init_fd = -1,
                                      .config_fd = -1,
                                      .program_fd = -1};
    pid_t pid = (pid_t)syscall(SYS_clone, plan->namespaces | SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0) {
        child_main(&setup);
    }
    if (pid < 0) {
        return fail_set(ret_fail, errno, "cannot create namespaces") == 0;
    }
    struct fail fail = {};
    drop_fd(&error_write);
    bool works = launch_map_ids(pid, plan, ret_fail) == 0 &&
                 write(go_write, go, sizeof go) == (ssize_t)sizeof go;
    if (works && read(error_read, &fail, sizeof fail) == (ssize_t)sizeof fail) {
        *ret_fail = fail;
        works = false;
    }
    (void)kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
    }
    return works;
}

/* Whether a sandbox with namespaces can be made here. A child builds a root by the steps of a plan,
 * and exits. Blocks for some milliseconds. This does not replace the self-test, which every sandbox
 * runs itself. */
static bool namespace_check_passes(void)
{
    struct fail fail = {};
    struct host_facts facts;
    defer_free struct plan *plan = calloc(1, sizeof *plan);
    if (!plan) {
        return false;
    }
    host_facts_read(NULL, &facts);
    plan_build_namespace_check(&facts, plan);
    bool works = plan_works(plan, &fail);
    if (!works) {
        char text[FAIL_TEXT + 128];
        log_info("sandbox", "no namespaces: %s", fail_describe(&fail, text, sizeof text));
    }
    plan_done(plan);
    return works;
}

void namespace_check_resolve(struct box_spec *spec)
{
    bool unresolved = spec->isolation == BOX_ISOLATION_BEST;
    spec->isolation = level_choose(spec->isolation, unresolved && namespace_check_passes());
}
