#include "tests/unit/guest.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "sandbox/protocol/init_protocol.h"
#include "sandbox/protocol/packet.h"
#include "tests/unit/temp.h"
#include "tests/unit/unit.h"

char guest_work[PATH_MAX];
char guest_outside[PATH_MAX];
struct guest_shared *shared;
struct notify guest_notify = {.fd = -1};
struct notify_settings guest_settings;
const struct filter_container guest_new = {.landlock_abi = 7};
const struct filter_container guest_old = {.landlock_abi = 2};
const struct filter_container guest_egress = {.landlock_abi = 7, .egress = true};

static struct temp temp;

int guest_make_all(void **)
{
    static struct landlock_rule rules[] = {{guest_work, LANDLOCK_RULE_WRITE},
                                           {guest_outside, LANDLOCK_RULE_READ},
                                           {"/dev/null", LANDLOCK_FS_WRITE_FILE}};
    temp_make(&temp);
    temp_directory(&temp, "work");
    temp_directory(&temp, "outside");
    temp_file(&temp, "outside/file", "x", 0600);
    (void)temp_path(&temp, "work", guest_work);
    (void)temp_path(&temp, "outside", guest_outside);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    guest_settings = (struct notify_settings){.rules = rules,
                                              .rule_count = sizeof rules / sizeof *rules,
                                              .file_bytes = GUEST_FILE_BYTES,
                                              .root = getpid()};
    return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

int guest_remove_all(void **)
{
    temp_remove(&temp);
    return munmap(shared, sizeof *shared);
}

void guest_open(const struct filter_container *kind, const struct notify_settings *with,
                struct filter_program *filter)
{
    struct fail fail = {};
    *filter = (struct filter_program){};
    if (filter_build_notified(kind, filter, &fail) < 0) {
        unit_skip("listener", fail.text);
    }
    assert_int_equal(notify_open(&guest_notify, with), 0);
    shared->line = 0;
    shared->result = 0;
    shared->count = 0;
    shared->stop = 0;
}

void guest_close(struct filter_program *filter)
{
    free(filter->program);
    (void)close(guest_notify.fd);
    (void)close(guest_notify.timer_fd);
    for (unsigned i = 0; i < guest_notify.place_count; i++) {
        (void)close(guest_notify.places[i]);
    }
}

void guest_mark(unsigned tag)
{
    const struct rlimit limit = {tag, tag};
    const rlim_t sum = WIRE_TAG_SUM - (rlim_t)tag * WIRE_BRANCHES;
    const struct rlimit counterpart = {sum, sum};
    EXPECT(setrlimit(RLIMIT_MSGQUEUE, &limit) == 0 && setrlimit(RLIMIT_LOCKS, &counterpart) == 0);
}

__attribute__((noreturn)) static void be_guest(const struct filter_program *filter, int socket_fd,
                                               void (*guest)(void))
{
    const struct sock_fprog program = {.len = (unsigned short)filter->count,
                                       .filter = filter->program};
    char byte = 0;
    EXPECT(setsid() > 0);
    guest_mark(GUEST_TAG);
    EXPECT(chdir(guest_work) == 0);
    EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    int listener_fd = notify_install(&program);
    shared->result = listener_fd;
    if (packet_send(socket_fd, &byte, 1, &listener_fd, listener_fd >= 0, 0) < 0 ||
        listener_fd < 0) {
        _exit(GUEST_FAILED);
    }
    (void)close(listener_fd);
    (void)close(socket_fd);
    EXPECT(
        unit_deny(SYS_clone3, ENOSYS)); /* as the filter of names does: its flags are in memory */
    guest();
    _exit(0);
}

pid_t guest_start(const struct filter_program *filter, void (*guest)(void))
{
    int ends[2];
    char byte = 0;
    int listener_fd = -1;
    assert_int_equal(fd_socketpair(SOCK_SEQPACKET, ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        be_guest(filter, ends[1], guest);
    }
    (void)close(ends[1]);
    struct pollfd fd = {.fd = ends[0], .events = POLLIN};
    assert_int_equal(poll(&fd, 1, -1), 1);
    (void)packet_receive(ends[0], &byte, 1, &listener_fd, 1);
    (void)close(ends[0]);
    if (listener_fd < 0 && shared->result == -EBUSY) {
        (void)waitpid(pid, NULL, 0);
        unit_skip("listener", "the container has one already");
    }
    assert_true(listener_fd >= 0);
    assert_int_equal(notify_take(&guest_notify, listener_fd), 0);
    return pid;
}

/* Serves until nobody is left. Returns pid's status. */
static int serve_until_end(pid_t pid)
{
    int status = 0;
    int ended = 0;
    pid_t other = 0;
    while (other >= 0) {
        struct pollfd fd = {.fd = guest_notify.fd, .events = POLLIN};
        (void)poll(&fd, 1, 1);
        notify_serve(&guest_notify, 0);
        while ((other = waitpid(-1, &status, WNOHANG | __WALL)) > 0) {
            ended = other == pid ? status : ended;
        }
    }
    return ended;
}

void guest_run(const struct filter_container *kind, const struct notify_settings *with,
               void (*guest)(void), int expected_status)
{
    struct filter_program filter;
    guest_open(kind, with, &filter);
    int status = serve_until_end(guest_start(&filter, guest));
    guest_close(&filter);
    if (shared->line) {
        fail_msg("the guest's line %d: %s", shared->line, strerror(shared->result));
    }
    assert_int_equal(status, expected_status);
}

char *guest_path(const char *directory, const char *name)
{
    static char path[2 * PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

void guest_file(const char *name)
{
    int fd = open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    EXPECT(fd >= 0);
    EXPECT(close(fd) == 0);
}

unsigned guest_mode(const char *path)
{
    struct stat st;
    EXPECT(lstat(path, &st) == 0);
    return st.st_mode & 07777;
}
