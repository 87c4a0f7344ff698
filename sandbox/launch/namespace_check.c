#include "sandbox/grade/rehearsal.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/own.h"
#include "sandbox/box.h"
#include "sandbox/grade/surrounding.h"
#include "sandbox/start/child.h"

/* The child's report is one write, or none when the last step is done. */
static bool plan_works(const struct plan *plan, struct fail *ret_fail)
{
    const char go[2] = {1, 1}; /* the ids are mapped; there is no group to wait for */
    int go_fds[2];
    int error_fds[2];
    if (pipe2(go_fds, O_CLOEXEC) < 0) {
        return fail_set(ret_fail, errno, "a pipe") == 0;
    }
    defer_close int go_read = go_fds[0];
    defer_close int go_write = go_fds[1];
    if (pipe2(error_fds, O_CLOEXEC) < 0) {
        return fail_set(ret_fail, errno, "a pipe") == 0;
    }
    defer_close int error_read = error_fds[0];
    defer_close int error_write = error_fds[1];
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
        return fail_set(ret_fail, errno, "new namespaces") == 0;
    }
    struct fail fail = {};
    own_close(&error_write);
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

bool rehearsal_succeeds(void)
{
    struct fail fail = {};
    struct plan *plan = calloc(1, sizeof *plan);
    if (!plan) {
        return false;
    }
    plan_build_rehearsal(plan);
    box_adapt_plan(plan);
    bool works = plan_works(plan, &fail);
    if (!works) {
        char text[FAIL_TEXT + 128];
        log_info("sandbox", "no namespaces here: %s", fail_describe(&fail, text, sizeof text));
    }
    plan_done(plan);
    free(plan);
    return works;
}

void rehearsal_settle(struct box_spec *spec)
{
    bool unsettled = spec->isolation == BOX_ISOLATION_BEST;
    spec->isolation = surrounding_choose(spec->isolation, unsettled && rehearsal_succeeds());
}
