#include "sandbox/limits/cgroup.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/unit/temp.h"
#include "tests/unit/unit.h"

/* A script of the test stands for busctl. */
static struct temp temp;
static struct loop *loop;
static struct scope scope;
static char answer[256];
static unsigned answers;

static int set_up(void **)
{
    temp_make(&temp);
    answers = 0;
    answer[0] = '\0';
    scope = (struct scope){};
    return loop_new(&loop);
}

static int tear_down(void **)
{
    scope_cancel(&scope);
    loop_free(loop);
    temp_remove(&temp);
    return 0;
}

static void on_scope(void *, const char *error)
{
    answers++;
    (void)snprintf(answer, sizeof answer, "%s", error ? error : "");
    loop_stop(loop, 0);
}

static int ask(const char *script, unsigned within_ms)
{
    static const struct box_limits limits = {.memory_bytes = 1 << 30, .pids = 99, .cpu_milli = 500};
    char program[PATH_MAX];
    temp_file(&temp, "busctl", script, 0755);
    struct scope_request request = {temp_path(&temp, "busctl", program), "sandpiper-1-2", getpid(),
                                    &limits, within_ms};
    return scope_ask(&scope, loop, &request, on_scope, NULL);
}

static void refusal_of_the_bus_is_reported_verbatim(void **)
{
    assert_int_equal(ask("#!/bin/sh\necho Access denied >&2\necho more >&2\nexit 1\n", 60000), 0);
    assert_int_equal(loop_run(loop), 0);
    assert_int_equal(answers, 1);
    assert_non_null(strstr(answer, ": Access denied"));
    assert_null(strstr(answer, "more"));
}

static void hanging_bus_times_out_and_its_client_is_killed(void **)
{
    assert_int_equal(ask("#!/bin/sh\nexec /bin/sleep 600\n", 50), 0);
    pid_t helper = scope.helper_pid;
    assert_int_equal(loop_run(loop), 0);
    assert_int_equal(answers, 1);
    assert_non_null(strstr(answer, "in time"));
    assert_int_equal(kill(helper, 0), -1);
}

static void success_without_effect_is_a_failure(void **)
{
    assert_int_equal(ask("#!/bin/sh\nexit 0\n", 50), 0);
    assert_int_equal(loop_run(loop), 0);
    assert_non_null(strstr(answer, "in time"));
}

static void call_names_process_and_limits_and_passes_no_descriptor(void **)
{
    char script[512];
    char said[2048];
    char pid[32];
    (void)snprintf(script, sizeof script,
                   "#!/bin/sh\n{ echo \"$*\"; pwd; /usr/bin/env; } >%s/said\nexit 1\n", temp.path);
    (void)snprintf(pid, sizeof pid, " PIDs au 1 %d ", (int)getpid());
    assert_int_equal(ask(script, 60000), 0);
    assert_int_equal(loop_run(loop), 0);
    assert_true(fd_read_text_at(temp.fd, "said", said, sizeof said) > 0);
    assert_non_null(strstr(said, " sandpiper-1-2.scope fail 8 "));
    assert_non_null(strstr(said, pid));
    assert_non_null(strstr(said, " Delegate b true "));
    assert_non_null(strstr(said, " MemoryMax t 1073741824 MemorySwapMax t 0 TasksMax t 107 "));
    assert_non_null(strstr(said, " CPUQuotaPerSecUSec t 500000 "));
    assert_null(strstr(said, "HOME="));
    assert_non_null(strstr(said, "\n/\n")); /* its working directory */
}

static void without_the_client_it_fails_at_once(void **)
{
    const struct box_limits limits = {.memory_bytes = 1 << 30, .pids = 99};
    const struct scope_request request = {"/nonexistent/busctl", "x", getpid(), &limits, 50};
    assert_int_equal(scope_ask(&scope, loop, &request, on_scope, NULL), -ENOENT);
    assert_int_equal(answers, 0);
}

/* Its pids are not ours: it would limit an unrelated process. */
static void manager_in_another_pid_namespace_gets_no_request(void **)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int status = 0;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%.90s/bus", temp.path);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 4), 0);
    assert_false(scope_is_elsewhere(address.sun_path));
    pid_t pid = fork();
    if (pid == 0) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWPID) < 0) {
            _exit(77);
        }
        pid_t inside = fork();
        if (inside == 0) {
            _exit(scope_is_elsewhere(address.sun_path) ? 0 : 1);
        }
        _exit(waitpid(inside, &status, 0) == inside && WIFEXITED(status) ? WEXITSTATUS(status) : 2);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    (void)close(fd);
    if (WEXITSTATUS(status) == 77) {
        unit_skip("userns", "no namespace can be made here");
    }
    assert_int_equal(status, 0);
}

#define SCOPE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCOPE_TEST(refusal_of_the_bus_is_reported_verbatim),
        SCOPE_TEST(hanging_bus_times_out_and_its_client_is_killed),
        SCOPE_TEST(success_without_effect_is_a_failure),
        SCOPE_TEST(call_names_process_and_limits_and_passes_no_descriptor),
        SCOPE_TEST(without_the_client_it_fails_at_once),
        SCOPE_TEST(manager_in_another_pid_namespace_gets_no_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
