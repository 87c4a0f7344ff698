#include <errno.h>
#include <glob.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/loop.h"
#include "sandbox/sandbox.h"
#include "tests/unit/temp.h"
#include "tests/unit/unit.h"

/* The start of each program: writes the first line, then reads its request. */
#define BEGIN                                                                                      \
    "import os, socket, sys, time\n"                                                               \
    "os.write(3, b'ready\\n')\n"                                                                   \
    "request = sys.stdin.read()\n"                                                                 \
    "def say(*what): os.write(3, (' '.join(map(str, what)) + '\\n').encode())\n"                   \
    "def attempt(fn, *args):\n"                                                                    \
    "    try: return fn(*args) and 'done'\n"                                                       \
    "    except OSError as error: return error.strerror\n"

enum { PATIENCE_MS = 60000 };

static struct temp temp;
static char cache[PATH_MAX];
static struct loop *loop;
static struct box_spec spec;
static struct box_installer_spec wanted;
static struct box_packages *packages;
static struct box_installer *installer;
static struct buf said;
static struct buf logged;
static unsigned ends;
static struct box_installer_end end;
static char why[FAIL_TEXT];

static void on_line(void *arg, const char *line, size_t size)
{
    assert_ptr_equal(arg, &temp);
    assert_int_equal(buf_append(&said, line, size), 0);
    assert_int_equal(buf_append_text(&said, "|"), 0);
}

static void on_log(void *arg, const char *bytes, size_t size)
{
    assert_ptr_equal(arg, &temp);
    assert_int_equal(buf_append(&logged, bytes, size), 0);
}

static void on_end(void *arg, const struct box_installer_end *with)
{
    assert_ptr_equal(arg, &temp);
    ends++;
    end = *with;
    installer = NULL;
    if (with->why) {
        (void)snprintf(why, sizeof why, "%s", with->why->text);
    }
}

static void on_egress(void *arg, const struct egress_event *event)
{
    assert_ptr_equal(arg, &temp);
    assert_int_equal(buf_append_text(&logged, event->text), 0);
}

static const struct box_installer_events events = {on_line, on_log, on_egress, on_end};

static int set_up(void **)
{
    struct fail fail = {};
    temp_make(&temp);
    said = logged = (struct buf)BUF_EMPTY;
    box_spec_init(&spec);
    spec.cache = temp_path(&temp, "cache", cache);
    spec.packages_bytes = 64 << 20;
    wanted = (struct box_installer_spec){
        .main = "program.py", .request = "", .time_limit_ms = PATIENCE_MS};
    ends = 0;
    why[0] = '\0';
    return loop_new(&loop) < 0 || box_packages_new(loop, &spec, &packages, &fail) < 0;
}

/* The cleanup helper outlives the server, and may still be running. */
static void wait_until_removed(void)
{
    char boxes[PATH_MAX];
    uint64_t deadline_ns = clock_now_ns() + PATIENCE_MS * CLOCK_NS_PER_MS;
    (void)temp_path(&temp, "cache/boxes", boxes);
    while (rmdir(boxes) < 0 && errno != ENOENT && clock_now_ns() < deadline_ns) {
        (void)usleep(1000);
    }
    assert_int_equal(access(boxes, F_OK), -1);
}

static int tear_down(void **)
{
    box_installer_free(installer);
    installer = NULL;
    box_packages_free(packages);
    buf_done(&said);
    buf_done(&logged);
    loop_free(loop);
    wait_until_removed();
    temp_remove(&temp);
    return 0;
}

static void start(const char *program)
{
    static struct embedded files[2];
    struct fail fail = {};
    files[0] = (struct embedded){"program.py", (const unsigned char *)program, strlen(program)};
    wanted.program = files;
    if (box_installer_start(packages, &wanted, &events, &temp, &installer, &fail) < 0) {
        fail_msg("no installer: %s", fail.text);
    }
}

static void step_until(const unsigned *flag, unsigned value)
{
    uint64_t deadline_ns = clock_now_ns() + PATIENCE_MS * CLOCK_NS_PER_MS;
    while (*flag < value && clock_now_ns() < deadline_ns) {
        assert_int_equal(loop_step(loop, 100), 0);
    }
    assert_true(*flag >= value);
}

static void finish(void)
{
    step_until(&ends, ends + 1);
    if (end.outcome == BOX_INSTALLER_NO_BOX) {
        unit_skip("userns", why);
    }
}

static void run(const char *program)
{
    buf_clear(&said, 0);
    buf_clear(&logged, 0);
    start(program);
    finish();
}

/* In the directory for the installers' uid. */
static bool is_fetched(const char *name)
{
    glob_t found = {};
    char pattern[PATH_MAX];
    char path[64];
    (void)snprintf(path, sizeof path, "cache/download*/%s", name);
    int r = glob(temp_path(&temp, path, pattern), 0, NULL, &found);
    globfree(&found);
    return r == 0;
}

static void expect_said(const char *text)
{
    assert_int_equal(buf_append(&said, "", 1), 0);
    assert_string_equal(buf_bytes(&said), text);
}

static void expect_exit(int code)
{
    assert_int_equal(buf_append(&logged, "", 1), 0);
    if (end.outcome != BOX_INSTALLER_EXITED || end.code != code) {
        fail_msg("outcome %d, code %d: %s", end.outcome, end.code, buf_bytes(&logged));
    }
}

static void a_request_is_answered_and_all_output_is_reported(void **)
{
    static char request[200000];
    memset(request, 'x', sizeof request);
    wanted.request = request;
    wanted.request_size = sizeof request;
    run(BEGIN
        "print('out'); print('err', file=sys.stderr, flush=True)\n"
        "say(len(request)); say('two'); sys.exit(7)\n");
    expect_exit(7);
    expect_said("200000|two|");
    assert_string_equal(buf_bytes(&logged), "err\nout\n");
}

static void a_program_sees_the_staging_directory_and_layers_only(void **)
{
    run(BEGIN
        "say(attempt(os.mkdir, '/stage/new') , attempt(os.mkdir, '/packages/x'),\n"
        "    os.path.exists('/cache'), os.listdir('/packages'), os.listdir('/work'))\n"
        "say(len([n for n in os.listdir('/proc') if n.isdigit()]), os.getuid())\n"
        "say(attempt(socket.create_connection, ('192.0.2.1', 80)))\n"
        "say(sorted(os.environ.get(n, '') for n in ('HOME', 'TMPDIR', 'LD_PRELOAD')))\n"
        "open(os.environ['TMPDIR'] + '/x', 'w').close()\n");
    expect_exit(0);
    expect_said(
        "None Read-only file system False [] []|2 1000|Network is unreachable|"
        "['', '/stage/tmp', '/tmp/home']|");
}

static void requested_directories_are_shown(void **)
{
    char links[PATH_MAX];
    char file[PATH_MAX];
    temp_file(&temp, "links/one.whl", "wheel", 0644);
    temp_file(&temp, "file", "content", 0644);
    assert_int_equal(chmod(temp.path, 0755), 0);
    wanted.cache = true;
    wanted.find_links = temp_path(&temp, "links", links);
    wanted.constraint = wanted.cert = temp_path(&temp, "file", file);
    wanted.argument = "argument";
    run(BEGIN
        "say(os.listdir('/find-links'), open('/constraint').read(), sys.argv[1:],\n"
        "    open('/index-cert').read(), attempt(os.unlink, '/find-links/one.whl'))\n"
        "open('/cache/kept', 'w').write('x')\n");
    expect_exit(0);
    expect_said("['one.whl'] content ['argument'] content Read-only file system|");
    /* Another server's installers find it. */
    struct fail fail = {};
    box_packages_free(packages);
    assert_int_equal(box_packages_new(loop, &spec, &packages, &fail), 0);
    run(BEGIN "say(os.listdir('/cache'), attempt(os.unlink, '/cache/kept'))\n");
    expect_said("['kept'] None|");
}

/* The policy is the installer's own, even if the sessions' sandbox has one. */
static void the_installer_has_its_own_egress_proxy(void **)
{
    static const char program[] = BEGIN
        "import urllib.request, urllib.error\n"
        "try: urllib.request.urlopen('http://other.example/', timeout=20)\n"
        "except urllib.error.URLError as error: say(error)\n";
    static struct egress_policy sessions;
    static struct egress_policy own;
    struct fail fail = {};
    assert_int_equal(egress_policy_add(&sessions, "other.example", &fail), 0);
    assert_int_equal(egress_policy_add(&own, "index.example", &fail), 0);
    own.flag = "--index-host";
    spec.egress = &sessions;
    wanted.egress = &own;
    run(program);
    expect_exit(0);
    assert_non_null(strstr(buf_bytes(&logged), "other.example"));
    assert_non_null(strstr(buf_bytes(&logged), "--index-host"));
    wanted.egress = NULL;
    run(program);
    expect_exit(0);
    expect_said("<urlopen error [Errno -2] Name or service not known>|");
}

#define NEW "os.makedirs('/stage/new/sub')\n"

static void a_layer_is_whole_and_stays(void **)
{
    struct box_packages_layer made = {};
    struct fail fail = {};
    run(BEGIN NEW
        "open('/stage/new/sub/a.py', 'w').write('x' * 1000)\n"
        "open('/stage/new/tool', 'w').close()\n"
        "os.chmod('/stage/new/tool', 0o700); os.chmod('/stage/new/sub/a.py', 0)\n"
        "say(attempt(os.chmod, '/stage/new/tool', 0o4755))\n"
        "open('/stage/other', 'w').close(); os.chmod('/stage/new/sub', 0o500)\n");
    expect_exit(0);
    expect_said("Operation not permitted|");
    assert_int_equal(box_packages_commit(packages, &made, &fail), 0);
    assert_int_equal(made.number, 1);
    assert_int_equal(made.files, 3);
    assert_true(made.bytes >= 1000 && made.bytes < 20000);
    assert_int_equal(box_packages_layers(packages), 1);
    run(BEGIN
        "say(sorted(os.listdir('/packages/1')), os.listdir('/stage'))\n"
        "say(len(open('/packages/1/sub/a.py').read()))\n"
        "say(*[oct(os.stat('/packages/1/' + n).st_mode & 0o7777) for n in ('', 'sub', "
        "'sub/a.py')])\n"
        "say(attempt(os.unlink, '/packages/1/tool'))\n");
    expect_exit(0);
    expect_said("['sub', 'tool'] ['tmp']|1000|0o755 0o755 0o644|Read-only file system|");
}

static void other_kinds_of_file_make_no_layer(void **)
{
    static const struct {
        const char *make;
        const char *sentence;
    } odd[] = {
        {"os.symlink('/etc/passwd', '/stage/new/sub/link')", "a symbolic link: link"},
        {"os.mkfifo('/stage/new/pipe')", "neither a file nor a directory: pipe"},
        {"socket.socket(socket.AF_UNIX).bind('/stage/new/socket')",
         "neither a file nor a directory"},
        {"open('/stage/new/a\\nb', 'w').close()", "control characters: \"a\\nb\""},
        {"os.makedirs('/stage/new/' + 'd/' * 65)", "nested too deeply: d"},
        {"[open(f'/stage/new/{n}', 'w').truncate(40 << 20) for n in 'ab']", "--package-disk"},
        {"os.symlink('/', '/stage/link'); os.rename('/stage/new', '/stage/x')", "installed files"},
        {"os.rename('/stage/new', '/stage/x'); os.symlink('/usr', '/stage/new')",
         "installed files"},
    };
    for (unsigned i = 0; i < sizeof odd / sizeof *odd; i++) {
        char program[2000];
        struct box_packages_layer made = {};
        struct fail fail = {};
        (void)snprintf(program, sizeof program, BEGIN NEW "%s\n", odd[i].make);
        run(program);
        expect_exit(0);
        assert_true(box_packages_commit(packages, &made, &fail) < 0);
        if (!strstr(fail.text, odd[i].sentence)) {
            fail_msg("%s: %s", odd[i].make, fail.text);
        }
        assert_int_equal(box_packages_layers(packages), 0);
    }
    run(BEGIN "say(os.listdir('/stage'), os.listdir('/packages'))\n");
    expect_said("['tmp'] []|");
}

/* All of it is dead when the call returns: otherwise it would continue to write. */
static void a_cancelled_installer_ends_at_once(void **)
{
    char program[] = BEGIN "os.fork(); os.fork(); say('there'); time.sleep(1000)\n";
    start(program);
    unsigned lines = 0;
    while (lines < 4 && ends == 0) {
        assert_int_equal(loop_step(loop, 1000), 0);
        lines = (unsigned)(buf_size(&said) / strlen("there|"));
    }
    if (ends == 0) {
        box_installer_cancel(installer);
        assert_int_equal(ends, 0);
    }
    finish();
    assert_int_equal(end.outcome, BOX_INSTALLER_CANCELLED);
    assert_int_equal(ends, 1);
}

static void a_cancel_is_received_before_there_is_a_program(void **)
{
    start(BEGIN);
    box_installer_cancel(installer);
    finish();
    assert_int_equal(end.outcome, BOX_INSTALLER_CANCELLED);
}

/* A server that exits frees what is at work, and its loop has other tasks to queue. */
static void a_freed_installer_leaves_nothing_in_the_loop(void **)
{
    start(BEGIN "time.sleep(1000)\n");
    box_installer_free(installer);
    installer = NULL;
    assert_int_equal(loop_step(loop, 0), 0);
    assert_int_equal(ends, 0);
}

static void the_time_of_the_installer_is_limited(void **)
{
    wanted.time_limit_ms = 1;
    run(BEGIN "time.sleep(1000)\n");
    assert_int_equal(end.outcome, BOX_INSTALLER_TIMEOUT);
}

static void the_size_of_the_staging_directory_is_limited(void **)
{
    spec.packages_bytes = 2 << 20;
    run(BEGIN
        "n = 0\n"
        "while True:\n"
        "    n += 1\n"
        "    open(f'/stage/{n % 100}', 'wb').write(b'x' * 100000)\n");
    assert_int_equal(end.outcome, BOX_INSTALLER_DISK);
    assert_true(end.used_bytes > 2 << 20);
    assert_int_equal(end.limit_bytes, 2 << 20);
}

/* Directories that init cannot count are not allowed. */
static void directories_that_cannot_be_counted_end_the_installer(void **)
{
    run(BEGIN "os.makedirs('/stage/a'); os.chmod('/stage/a', 0); time.sleep(1000)\n");
    assert_int_equal(end.outcome, BOX_INSTALLER_DISK);
    run(BEGIN "os.makedirs('/stage/' + 'd/' * 80); time.sleep(1000)\n");
    assert_int_equal(end.outcome, BOX_INSTALLER_DISK);
}

static void the_memory_of_the_installer_is_limited(void **)
{
    spec.limits.memory_bytes = 64 << 20;
    run(BEGIN "held = []\nwhile True: held.append(b'x' * (1 << 20))\n");
    assert_int_equal(end.outcome, BOX_INSTALLER_OOM);
    assert_true(end.out_of_memory);
    assert_true(end.used_bytes > 0);
}

static void an_endless_line_ends_the_installer(void **)
{
    run(BEGIN "while True: os.write(3, b'x' * 65536)\n");
    assert_int_equal(end.outcome, BOX_INSTALLER_LOST);
    run(BEGIN "while True: os.write(3, b'xxxxxxx\\n' * 8192)\n");
    assert_int_equal(end.outcome, BOX_INSTALLER_LOST);
}

static void each_exit_status_is_reported(void **)
{
    run(BEGIN "os.kill(os.getpid(), 11)\n");
    assert_int_equal(end.outcome, BOX_INSTALLER_SIGNAL);
    assert_int_equal(end.code, 11);
    run("raise SystemExit(3)\n"); /* before it is ready */
    expect_exit(3);
}

/* In a child, with its own loop, because forks share an epoll set. */
static void become_another_server(void)
{
    struct fail fail = {};
    if (loop_new(&loop) < 0 || box_packages_new(loop, &spec, &packages, &fail) < 0) {
        _exit(3);
    }
}

/* Without a required protection the program gets no request: its effect would show. */
static void without_a_selftest_there_is_no_request(void **)
{
    static const char program[] =
        "import select\n"
        "def given(): open('/cache/given', 'w').close()\n"
        "if select.select([0], [], [], .3)[0]: given()\n" BEGIN "given()\n";
    wanted.cache = true;
    wanted.request = "request";
    wanted.request_size = strlen(wanted.request);
    pid_t pid = fork();
    if (pid == 0) {
        become_another_server();
        if (!unit_deny(SYS_landlock_create_ruleset, ENOSYS)) {
            _exit(2);
        }
        spec.require = 1U << BOX_PROTECTION_LANDLOCK;
        start(program);
        while (ends == 0) {
            (void)loop_step(loop, 1000);
        }
        bool refused = end.outcome == BOX_INSTALLER_NO_BOX && strstr(why, "landlock");
        if (!refused) {
            (void)fprintf(stderr, "outcome %u: %s\n", end.outcome, why);
        }
        box_packages_free(packages);
        _exit(!refused);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WEXITSTATUS(status) == 2) {
        unit_skip("seccomp", "no filter can be installed");
    }
    assert_int_equal(status, 0);
    assert_false(is_fetched("given"));
    run(program); /* the control */
    assert_true(is_fetched("given"));
}

/* Killed at any moment of an installation: its processes die, and the directories are removed. */
static void the_installer_exits_with_a_killed_server(void **)
{
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    for (unsigned i = 0; i < 6; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            become_another_server();
            start(BEGIN
                  "os.fork(); n = 0\n"
                  "while True:\n"
                  "    n += 1\n"
                  "    os.makedirs(f'/stage/{n}/{n}', exist_ok=True)\n");
            for (;;) {
                (void)loop_step(loop, 1000);
            }
        }
        assert_true(pid > 0);
        (void)usleep(i * 30000);
        assert_int_equal(kill(pid, SIGKILL), 0);
        /* The server, and as the test's orphans its cleanup helper and all of the sandbox. */
        while (waitpid(-1, NULL, 0) > 0) {
        }
        assert_int_equal(errno, ECHILD);
        wait_until_removed();
    }
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
}

static void a_nearly_full_disk_ends_the_installer(void **)
{
    char at[PATH_MAX];
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
        unit_skip("root", "a file system of the test's own needs root");
    }
    temp_directory(&temp, "disk");
    assert_int_equal(
        mount("tmpfs", temp_path(&temp, "disk", at), "tmpfs", 0, "mode=0700,size=100m"), 0);
    (void)snprintf(cache, sizeof cache, "%s/disk/cache", temp.path);
    run(BEGIN "time.sleep(1000)\n");
    assert_int_equal(end.outcome, BOX_INSTALLER_DISK);
    box_packages_free(packages);
    packages = NULL;
    assert_int_equal(umount2(at, MNT_DETACH), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_request_is_answered_and_all_output_is_reported, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_program_sees_the_staging_directory_and_layers_only,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(requested_directories_are_shown, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_installer_has_its_own_egress_proxy, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_layer_is_whole_and_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_kinds_of_file_make_no_layer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_cancelled_installer_ends_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_cancel_is_received_before_there_is_a_program, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_freed_installer_leaves_nothing_in_the_loop, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_time_of_the_installer_is_limited, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_size_of_the_staging_directory_is_limited, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(directories_that_cannot_be_counted_end_the_installer,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_memory_of_the_installer_is_limited, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_endless_line_ends_the_installer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_a_selftest_there_is_no_request, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_installer_exits_with_a_killed_server, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(each_exit_status_is_reported, set_up, tear_down),
        /* The last: it leaves the test in its own mount namespace. */
        cmocka_unit_test_setup_teardown(a_nearly_full_disk_ends_the_installer, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
