/* Sockets: the guest reaches its own and the egress proxy's, and no others. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/types.h"
#include "tests/unit/guest.h"
#include "tests/unit/unit.h"

/* --- sockets --- */

static socklen_t local(struct sockaddr_un *address, const char *name)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path, name, strlen(name));
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name) + 1);
}

static int listen_at(const char *name, int backlog)
{
    struct sockaddr_un address;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT(fd >= 0);
    EXPECT(bind(fd, (struct sockaddr *)&address, local(&address, name)) == 0);
    EXPECT(listen(fd, backlog) == 0);
    return fd;
}

static int connect_to(int type, const char *name)
{
    struct sockaddr_un address;
    int fd = socket(AF_UNIX, SOCK_STREAM | type, 0);
    EXPECT(fd >= 0);
    if (connect(fd, (struct sockaddr *)&address, local(&address, name)) < 0) {
        int error = errno;
        (void)close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static void talk_to_oneself(void)
{
    struct sockaddr_un name;
    socklen_t size = sizeof name;
    char byte = 0;
    int listener = listen_at("sock", 4);
    EXPECT(getsockname(listener, (struct sockaddr *)&name, &size) == 0);
    EXPECT(strcmp(name.sun_path, "sock") == 0);
    int fd = connect_to(SOCK_CLOEXEC, "sock");
    EXPECT(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC && !(fcntl(fd, F_GETFL) & O_NONBLOCK));
    int other = accept(listener, NULL, NULL);
    EXPECT(other >= 0 && write(fd, "x", 1) == 1 && read(other, &byte, 1) == 1 && byte == 'x');
    int quick = connect_to(SOCK_NONBLOCK, guest_path(guest_work, "sock"));
    EXPECT(quick >= 0 && fcntl(quick, F_GETFD) == 0 && fcntl(quick, F_GETFL) & O_NONBLOCK);
    EXPECT(bind(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&name,
                local(&name, guest_path(guest_work, "sock2"))) == 0);
    EXPECT_ERROR(
        bind(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&name, local(&name, "sock")),
        EADDRINUSE);
    EXPECT_ERROR(connect_to(0, "missing"), ENOENT);
    guest_file("plain");
    EXPECT_ERROR(connect_to(0, "plain"), ECONNREFUSED);
    EXPECT_ERROR(connect(fd, (struct sockaddr *)&name, 1), EINVAL);
    EXPECT_ERROR(connect(fd, (struct sockaddr *)&name, 4096), EINVAL);
    EXPECT_ERROR(connect(fd, NULL, 16), EFAULT);
    EXPECT_ERROR(connect(77, (struct sockaddr *)&name, local(&name, "sock")), EBADF);
    int file = open("plain", O_RDONLY | O_CLOEXEC);
    EXPECT_ERROR(connect(file, (struct sockaddr *)&name, local(&name, "sock")), ENOTSOCK);
}

static void own_sockets_are_reached(void **)
{
    guest_run(&guest_new, &guest_settings, talk_to_oneself, 0);
}

static void *accept_late(void *arg)
{
    (void)usleep(30000);
    for (unsigned i = 0; i < 4; i++) {
        EXPECT(accept(*(int *)arg, NULL, NULL) >= 0);
    }
    return NULL;
}

static void wait_for_space(void)
{
    pthread_t thread;
    int listener = listen_at("busy", 0);
    EXPECT(connect_to(0, "busy") >= 0);
    EXPECT_ERROR(connect_to(SOCK_NONBLOCK, "busy"), EAGAIN);
    EXPECT(pthread_create(&thread, NULL, accept_late, &listener) == 0);
    for (unsigned i = 0; i < 3; i++) {
        EXPECT(connect_to(0, "busy") >= 0);
    }
    EXPECT(pthread_join(thread, NULL) == 0);
    /* A caller that is killed while it waits is forgotten. */
    EXPECT(connect_to(0, "busy") >= 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)connect_to(0, "busy");
        _exit(0);
    }
    (void)usleep(20000);
    EXPECT(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
}

static void connect_waits_for_a_free_backlog_slot(void **)
{
    guest_run(&guest_new, &guest_settings, wait_for_space, 0);
}

static void reach_foreign_sockets(void)
{
    static const char abstract[] = "\0sandpiper-test";
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    EXPECT_ERROR(connect_to(0, guest_path(guest_outside, "sock")), EPERM);
    EXPECT_ERROR(connect_to(0, "../outside/sock"), EPERM);
    EXPECT(symlink(guest_path(guest_outside, "sock"), "foreign") == 0);
    EXPECT_ERROR(connect_to(0, "foreign"), EPERM);
    memcpy(address.sun_path, abstract, sizeof abstract);
    EXPECT_ERROR(connect(fd, (struct sockaddr *)&address, 2 + sizeof abstract), EPERM);
    EXPECT_ERROR(bind(fd, (struct sockaddr *)&address, 2 + sizeof abstract), EPERM);
    EXPECT_ERROR(bind(fd, (struct sockaddr *)&address, 2), EPERM);
    struct sockaddr_in inet = {.sin_family = AF_INET, .sin_port = htons(EGRESS_PROXY_PORT)};
    inet.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_ERROR(connect(fd, (struct sockaddr *)&inet, sizeof inet), ENETUNREACH);
}

static void foreign_sockets_are_not_reached(void **)
{
    struct sockaddr_un address;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t size = local(&address, guest_path(guest_outside, "sock"));
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(fd, 4), 0);
    guest_run(&guest_new, &guest_settings, reach_foreign_sockets, 0);
    assert_true(accept4(fd, NULL, NULL, SOCK_CLOEXEC) < 0 && errno == EAGAIN);
    (void)close(fd);
}

static int connect_inet(int fd, uint32_t to, unsigned port)
{
    struct sockaddr_in inet = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    inet.sin_addr.s_addr = htonl(to);
    return connect(fd, (struct sockaddr *)&inet, sizeof inet);
}

static void use_the_egress_proxy(void)
{
    const int on = 1;
    int domain = 0;
    socklen_t size = sizeof domain;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    EXPECT(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC && fcntl(fd, F_GETFL) & O_NONBLOCK);
    EXPECT(getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX);
    EXPECT(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
    EXPECT_ERROR(connect_inet(fd, INADDR_LOOPBACK, 80), ECONNREFUSED);
    EXPECT_ERROR(connect_inet(fd, 0x08080808, EGRESS_PROXY_PORT), ENETUNREACH);
    EXPECT_ERROR(connect_inet(fd, INADDR_ANY, EGRESS_PROXY_PORT), ENETUNREACH);
    EXPECT(connect_inet(fd, INADDR_LOOPBACK, EGRESS_PROXY_PORT) == 0);
    EXPECT(write(fd, "way", 3) == 3);
    struct sockaddr_in inet = {.sin_family = AF_INET};
    EXPECT_ERROR(bind(fd, (struct sockaddr *)&inet, sizeof inet), EACCES);
    EXPECT_ERROR(listen(socket(AF_INET, SOCK_STREAM, 0), 1), EINVAL);
}

static void only_the_egress_proxy_is_reached(void **)
{
    char egress[2 * PATH_MAX];
    char said[8] = "";
    struct sockaddr_un address;
    struct notify_settings with = guest_settings;
    (void)snprintf(egress, sizeof egress, "%s/egress", guest_outside);
    with.egress_path = egress;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, local(&address, egress)), 0);
    assert_int_equal(listen(fd, 4), 0);
    guest_run(&guest_egress, &with, use_the_egress_proxy, 0);
    int taken = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
    assert_true(taken >= 0);
    assert_int_equal(read(taken, said, sizeof said), 3);
    (void)close(taken);
    (void)close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_sockets_are_reached),
        cmocka_unit_test(connect_waits_for_a_free_backlog_slot),
        cmocka_unit_test(foreign_sockets_are_not_reached),
        cmocka_unit_test(only_the_egress_proxy_is_reached),
    };
    return cmocka_run_group_tests(tests, guest_make_all, guest_remove_all);
}
