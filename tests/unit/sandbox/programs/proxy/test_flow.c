/* Connections through an upstream proxy, in time that the test makes. */
#include "sandbox/programs/proxy/proxy.h"

#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/unit/unit.h"

enum { ACCEPTS_MOST = 8, WAIT_MS = 20000 };

static struct proxy proxy;
static uint8_t refused[EGRESS_REFUSED_BYTES];
static uint64_t now_ns;
static struct sockaddr_un inside;
static socklen_t inside_size;
static int upstream_fd;
static char sentence[EGRESS_TEXT_BYTES];

/* What main.c sends to the server. */
void proxy_tell(struct proxy *, enum egress_notice_kind, const struct egress_event *event)
{
    (void)snprintf(sentence, sizeof sentence, "%s", event->text);
}

static void turn(int wait_ms)
{
    static struct pollfd polled[1 + 2 * PROXY_FLOWS];
    uint64_t deadline_ns = UINT64_MAX;
    polled[0] = (struct pollfd){.fd = proxy.listen_fd, .events = POLLIN};
    nfds_t count = flows_poll(polled + 1, &deadline_ns);
    (void)poll(polled, count + 1, deadline_ns <= now_ns ? 0 : wait_ms);
    flows_step(&proxy, polled + 1, now_ns);
    if (polled[0].revents) {
        flows_accept(&proxy, now_ns);
    }
}

static bool is_readable(int fd)
{
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    return poll(&polled, 1, 0) == 1;
}

/* Lets the proxy work until fd has something to read. */
static void until_readable(int fd)
{
    uint64_t end_ns = clock_now_ns() + WAIT_MS * CLOCK_NS_PER_MS;
    while (!is_readable(fd)) {
        assert_true(clock_now_ns() < end_ns);
        turn(/* wait_ms= */ 10);
    }
}

/* Lets it do what it can without more from outside. */
static void run_on(void)
{
    for (unsigned i = 0; i < 20; i++) {
        turn(/* wait_ms= */ 1);
    }
}

static void later(unsigned seconds)
{
    now_ns += seconds * CLOCK_NS_PER_S;
    run_on();
}

static int client(const char *request)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&inside, inside_size), 0);
    assert_int_equal(send(fd, request, strlen(request), 0), (ssize_t)strlen(request));
    return fd;
}

/* The next connection to the upstream proxy, which has got a request. */
static int accepted(void)
{
    static char bytes[4096];
    until_readable(upstream_fd);
    int fd = accept4(upstream_fd, NULL, NULL, SOCK_CLOEXEC);
    assert_true(fd >= 0);
    until_readable(fd);
    ssize_t size = recv(fd, bytes, sizeof bytes - 1, 0);
    assert_true(size > 0);
    bytes[size] = '\0';
    assert_non_null(strstr(bytes, "Proxy-Authorization: Basic "));
    return fd;
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
    run_on();
}

/* The status that the client gets. */
static const char *status_of(int fd)
{
    static char bytes[4096];
    until_readable(fd);
    ssize_t size = recv(fd, bytes, sizeof bytes - 1, 0);
    bytes[size > 12 ? 12 : 0] = '\0';
    (void)close(fd);
    run_on();
    return bytes + 9;
}

static int set_up(void **)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof name;
    sa_family_t family = AF_UNIX;
    char url[64];
    struct fail fail = {};
    upstream_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(upstream_fd, (const struct sockaddr *)&name, size), 0);
    assert_int_equal(listen(upstream_fd, ACCEPTS_MOST), 0);
    assert_int_equal(getsockname(upstream_fd, (struct sockaddr *)&name, &size), 0);
    memset(refused, 0, sizeof refused);
    proxy = (struct proxy){.policy = {.flag = "--allow-host"}, .refused = refused};
    now_ns = clock_now_ns();
    assert_int_equal(egress_policy_add(&proxy.policy, "far.example", &fail), 0);
    (void)snprintf(url, sizeof url, "http://me:word@127.0.0.1:%u", ntohs(name.sin_port));
    for (unsigned kind = 0; kind < EGRESS_KINDS; kind++) {
        assert_true(upstream_parse(url, &proxy.ways.upstreams[kind]));
        strcpy(proxy.ways.upstreams[kind].source, "--proxy");
        assert_true(address_read("127.0.0.1", &proxy.upstream_known[kind].addresses[0]));
        proxy.upstream_known[kind].count = 1;
    }
    inside_size = sizeof inside;
    proxy.listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(proxy.listen_fd, (const struct sockaddr *)&family, sizeof family), 0);
    assert_int_equal(listen(proxy.listen_fd, ACCEPTS_MOST), 0);
    return getsockname(proxy.listen_fd, (struct sockaddr *)&inside, &inside_size);
}

/* All flows end with their clients, which the tests close. */
static int tear_down(void **)
{
    later(PROXY_LIFE_MS / 1000);
    (void)close(proxy.listen_fd);
    (void)close(upstream_fd);
    return 0;
}

static const char tunnel[] = "CONNECT far.example:443 HTTP/1.1\r\n\r\n";
static const char path[] = "GET http://far.example/ HTTP/1.1\r\n\r\n";

static void a_head_in_single_bytes_ends_in_time(void **)
{
    static const struct {
        const char *request;
        unsigned seconds;
    } rows[] = {{tunnel, UPSTREAM_REPLY_S}, {path, UPSTREAM_PAGE_S}};
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        int fd = client(rows[i].request);
        int end = accepted();
        say(end, "HTTP/1.1 200 OK\r\nA: ");
        for (unsigned step = 0; step < 3; step++) {
            assert_false(is_readable(fd));
            later(rows[i].seconds * 3 / 10);
            say(end, "a");
        }
        later(rows[i].seconds / 5);
        assert_string_equal(status_of(fd), "504");
        assert_non_null(strstr(sentence, "sent no reply within"));
        (void)close(end);
    }
}

static const char asks[] = "HTTP/1.1 407 x\r\nProxy-Authenticate: Basic realm=\"x\"\r\n\r\n";
static const char ok[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

static void end_with(int fd, int end, const char *reply, const char *status)
{
    say(end, reply);
    assert_string_equal(status_of(fd), status);
    (void)close(end);
}

/* No connection, or one that ends without a request. */
static void nothing_is_sent(void)
{
    char byte = 0;
    run_on();
    while (is_readable(upstream_fd)) {
        int fd = accept4(upstream_fd, NULL, NULL, SOCK_CLOEXEC);
        run_on();
        assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), 0);
        (void)close(fd);
    }
}

static void is_not_sent_again(const char *request)
{
    int fd = client(request);
    nothing_is_sent();
    assert_string_equal(status_of(fd), "502");
    assert_non_null(strstr(sentence, "is not sent again until Sandpiper is restarted"));
}

static void a_refused_login_is_never_sent_again(void **)
{
    int fd = client(tunnel);
    end_with(fd, accepted(), asks, "502");
    is_not_sent_again(tunnel);
    is_not_sent_again(path);
    later(PROXY_LIFE_MS / 1000);
    is_not_sent_again(tunnel);
    assert_int_equal(refused[EGRESS_HTTPS], 1);
}

static void another_proxy_of_the_server_does_not_send_it_either(void **)
{
    refused[EGRESS_HTTPS] = 1;
    is_not_sent_again(tunnel);
    is_not_sent_again(path);
}

static void one_connection_tries_a_login_and_others_wait(void **)
{
    int first = client(tunnel);
    int end = accepted();
    int others[] = {client(tunnel), client(path), client(tunnel)};
    nothing_is_sent();
    end_with(first, end, asks, "502");
    for (unsigned i = 0; i < 3; i++) {
        assert_string_equal(status_of(others[i]), "502");
    }
    nothing_is_sent();
}

static void an_accepted_login_is_sent_side_by_side(void **)
{
    int first = client(path);
    int end = accepted();
    int second = client(tunnel);
    nothing_is_sent();
    end_with(first, end, ok, "200");
    end = accepted();
    int third = client(path);
    end_with(third, accepted(), ok, "200");
    end_with(second, end, ok, "200");
}

static void one_that_waits_has_its_turn_after_a_proxy_that_hangs(void **)
{
    int first = client(tunnel);
    int hanging = accepted();
    int second = client(tunnel);
    nothing_is_sent();
    later(UPSTREAM_REPLY_S);
    assert_string_equal(status_of(first), "504");
    end_with(second, accepted(), ok, "200");
    (void)close(hanging);
}

static void a_site_stops_plain_http_until_a_tunnel_was_made(void **)
{
    int fd = client(path);
    end_with(fd, accepted(), asks, "502");
    is_not_sent_again(path);
    fd = client(tunnel);
    end_with(fd, accepted(), ok, "200");
    fd = client(path);
    end_with(fd, accepted(), ok, "200");
}

static void another_login_is_tried(void **)
{
    strcpy(proxy.ways.upstreams[EGRESS_HTTP].password, "other");
    int fd = client(tunnel);
    end_with(fd, accepted(), asks, "502");
    fd = client(path);
    end_with(fd, accepted(), ok, "200");
    is_not_sent_again(tunnel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_head_in_single_bytes_ends_in_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_refused_login_is_never_sent_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_proxy_of_the_server_does_not_send_it_either, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(one_connection_tries_a_login_and_others_wait, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_accepted_login_is_sent_side_by_side, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_waits_has_its_turn_after_a_proxy_that_hangs,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_site_stops_plain_http_until_a_tunnel_was_made, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(another_login_is_tried, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
