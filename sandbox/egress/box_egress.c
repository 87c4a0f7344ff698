/* A sandbox's egress: init makes the only listening socket of its network, and the egress proxy
 * gets it: a child that builds itself an empty root by a plan, like a sandbox's init, and executes
 * programs/proxy from a memfd. The proxy gets the listening socket and its settings, and reports
 * what it refuses. If it dies, the server starts another on the same socket, where connections wait
 * meanwhile. */

#include "sandbox/egress/box_egress.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/own.h"
#include "base/word.h"
#include "sandbox/box/box.h"
#include "sandbox/egress/policy.h"
#include "sandbox/egress/upstream.h"
#include "sandbox/host/host_facts.h"
#include "sandbox/launch/launch.h"
#include "sandbox/policy/filter.h"
#include "sandbox/programs/program.h"
#include "sandbox/protocol/packet.h"
#include "sandbox/unprivileged/unprivileged.h"

enum { PROXY_DEATHS = 8, NOTICES_A_TURN = 16 };

extern const unsigned char egress_image_start[];
extern const unsigned char egress_image_end[];

struct egress_proxy {
    struct box *box;
    struct egress_policy policy; /* the spec's, and what the user has allowed since */
    int control_fd;
    struct loop_io control_io;
    struct launched child;
    struct loop_io pidfd_io;
    unsigned deaths;
};

static int egress_program_fd(struct fail *ret_fail)
{
    static int fd = -1;
    if (fd < 0) {
        fd = program_make("sandpiper-egress", egress_image_start,
                          (size_t)(egress_image_end - egress_image_start), ret_fail);
    }
    return fd;
}

/* EGRESS_REFUSED_BYTES for all egress proxies. The server itself never reads them. */
static int refused_fd(void)
{
    static int fd = -1;
    if (fd < 0) {
        defer_close int made = memfd_create("sandpiper-egress-refused", MFD_CLOEXEC);
        if (made >= 0 && ftruncate(made, EGRESS_REFUSED_BYTES) == 0) {
            fd = take_fd(&made);
        }
    }
    return fd;
}

static const char *read_file(const char *path)
{
    enum { FILE_BYTES = 262144 }; /* one that blocks advertisements is longer: its start counts */
    static char text[FILE_BYTES + 1];
    defer_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? 0 : fd_pread_all(fd, text, FILE_BYTES, 0);
    text[size > 0 ? size : 0] = '\0';
    return text;
}

static void resolvers_read(struct egress_resolvers *ret_resolvers)
{
    resolvers_of_text(read_file("/etc/resolv.conf"), ret_resolvers);
}

static void known_read(const char *name, struct egress_known *ret_known)
{
    known_of_text(read_file("/etc/hosts"), name, ret_known);
    if (ret_known->count == 0 && strcmp(name, "localhost") == 0) { /* RFC 6761 6.3 */
        (void)address_read("127.0.0.1", &ret_known->addresses[0]);
        (void)address_read("::1", &ret_known->addresses[1]);
        ret_known->count = 2;
    }
}

static int write_config(const struct egress_proxy *egress, int fd, struct fail *ret_fail)
{
    static struct egress_config config;
    struct filter_program filter = {};
    const struct egress_policy *policy = &egress->policy;
    int r = filter_build_proxy(&filter, ret_fail);
    if (r < 0) {
        return r;
    }
    config = (struct egress_config){.row_count = policy->count, .filter_count = filter.count};
    config.any_address = policy->any_address;
    config.ask = policy->ask;
    (void)snprintf(config.flag, sizeof config.flag, "%s", policy->flag);
    memcpy(config.rows, policy->rows, sizeof config.rows);
    for (unsigned i = 0; i < policy->count; i++) {
        known_read(policy->rows[i].host, &config.known[i]);
    }
    if (egress->box->spec->ways) {
        config.ways = *egress->box->spec->ways;
    }
    for (unsigned kind = 0; kind < EGRESS_KINDS; kind++) {
        known_read(config.ways.upstreams[kind].host, &config.upstream_known[kind]);
    }
    resolvers_read(&config.resolvers);
    r = fd_write_all(fd, &config, sizeof config);
    r = r ? r : fd_write_all(fd, filter.program, filter.count * sizeof *filter.program);
    free(filter.program);
    return r < 0 ? fail_set(ret_fail, -r, "the egress proxy's settings") : 0;
}

/* Whatever the process is doing. */
static void egress_reap(struct egress_proxy *egress)
{
    loop_io_remove(&egress->control_io);
    loop_io_remove(&egress->pidfd_io);
    launch_end(&egress->child);
    drop_fd(&egress->control_fd);
}

static void egress_on_pidfd(void *arg, uint32_t events);
static void egress_on_control(void *arg, uint32_t events);

static int launch_with(struct egress_proxy *egress, const struct plan *plan, struct fail *ret_fail)
{
    const uint32_t hello = 0;
    int pair[2];
    int program = egress_program_fd(ret_fail);
    int r = program < 0 ? program : fd_socketpair(SOCK_SEQPACKET, pair);
    if (r < 0) {
        return program < 0 ? r : fail_set(ret_fail, -r, "the egress proxy's descriptors");
    }
    egress->control_fd = pair[0];
    defer_close int theirs = pair[1];
    defer_close int config_fd = memfd_create("sandpiper-egress-config", MFD_CLOEXEC);
    if (config_fd < 0 || refused_fd() < 0) {
        return fail_set(ret_fail, errno, "the egress proxy's descriptors");
    }
    struct child_setup setup = {
        .plan = plan, .init_fd = theirs, .config_fd = config_fd, .program_fd = program};
    r = write_config(egress, config_fd, ret_fail);
    r = r ? r : launch_start(&egress->child, &setup, -1, "the egress proxy", ret_fail);
    r = r ? r : fd_set_nonblock(egress->child.error_fd, true);
    if (r < 0) {
        return r;
    }
    const int fds[] = {egress->box->egress.listen_fd, refused_fd()};
    ssize_t sent = packet_send(egress->control_fd, &hello, sizeof hello, fds, 2, MSG_DONTWAIT);
    r = sent < 0 ? (int)sent : 0;
    r = r ? r
          : loop_io_add(egress->box->loop, &egress->pidfd_io, egress->child.pidfd, EPOLLIN,
                        egress_on_pidfd, egress);
    r = r ? r
          : loop_io_add(egress->box->loop, &egress->control_io, egress->control_fd, EPOLLIN,
                        egress_on_control, egress);
    return r < 0 ? fail_set(ret_fail, -r, "the egress proxy") : 0;
}

static int egress_launch(struct egress_proxy *egress, struct fail *ret_fail)
{
    defer_free struct plan *plan = calloc(1, sizeof *plan);
    if (!plan) {
        return fail_set(ret_fail, ENOMEM, "the egress proxy");
    }
    struct host_facts facts;
    host_facts_read(NULL, &facts);
    level_plan_proxy(egress->box->spec->scratch, &facts, plan);
    int r = launch_with(egress, plan, ret_fail);
    plan_done(plan);
    if (r < 0) {
        egress_reap(egress);
    }
    return r;
}

/* The egress proxy parses hostile input, so its messages are checked as if a hostile peer had sent
 * them. */
static void egress_tell(const struct egress_proxy *egress, struct egress_event *event)
{
    event->host[sizeof event->host - 1] = '\0';
    event->text[sizeof event->text - 1] = '\0';
    char said[sizeof event->text];
    memcpy(said, event->text, sizeof said);
    (void)word_line(said, event->text, sizeof event->text);
    if (event->kind >= EGRESS_EVENT_COUNT) {
        return;
    }
    log_line(event->kind == EGRESS_ALLOWED || egress->box->egress.quiet ? LOG_DEBUG : LOG_WARN,
             "egress", "%s", event->text);
    if (egress->box->egress.on_event) {
        egress->box->egress.on_event(egress->box->arg, event);
    }
}

static void egress_renew_resolvers(const struct egress_proxy *egress)
{
    static struct egress_order order;
    order = (struct egress_order){.kind = EGRESS_ORDER_RESOLVERS};
    resolvers_read(&order.resolvers);
    (void)packet_send(egress->control_fd, &order, sizeof order, NULL, 0, MSG_DONTWAIT);
}

void box_receive_refusals(struct box *box)
{
    struct egress_proxy *egress = box->egress.proxy;
    struct egress_notice notice;
    for (unsigned i = 0; egress && i < NOTICES_A_TURN && egress->control_io.loop; i++) {
        ssize_t size = packet_receive(egress->control_fd, &notice, sizeof notice, NULL, 0);
        if (size != sizeof notice) {
            if (size == 0) {
                loop_io_remove(&egress->control_io); /* the pidfd reports its exit */
            }
            return;
        }
        if (notice.missed) {
            log_warn("egress", "%u more events were not reported", notice.missed);
        }
        if (notice.kind == EGRESS_NOTICE_NO_RESOLVER) {
            egress_renew_resolvers(egress);
        } else if (notice.kind == EGRESS_NOTICE_EVENT) {
            notice.event.missed = notice.missed;
            egress_tell(egress, &notice.event);
        }
    }
}

static void egress_on_control(void *arg, uint32_t)
{
    box_receive_refusals(((struct egress_proxy *)arg)->box);
}

static void egress_on_pidfd(void *arg, uint32_t)
{
    struct egress_proxy *egress = arg;
    struct fail fail = {};
    struct egress_event event = {.kind = EGRESS_UNREACHABLE};
    bool reported = read(egress->child.error_fd, &fail, sizeof fail) == (ssize_t)sizeof fail;
    fail.text[sizeof fail.text - 1] = '\0';
    egress_reap(egress);
    if (!reported && egress->deaths++ < PROXY_DEATHS && egress_launch(egress, &fail) == 0) {
        log_warn("egress", "the egress proxy exited and is being restarted");
        return;
    }
    (void)snprintf(event.text, sizeof event.text,
                   "No remote host can be reached: egress proxy unavailable (%.200s%s%s)",
                   fail.text[0] ? fail.text : "it exited too often", fail.code ? ": " : "",
                   fail.code ? strerror(fail.code) : "");
    drop_fd(&egress->box->egress
                 .listen_fd); /* clients are refused at once instead of waiting forever */
    egress_tell(egress, &event);
}

/* Starts it with the sandbox's listening socket, in parallel with the caller; an error that
 * prevents its start is logged and reported as EGRESS_UNREACHABLE. 0 or -errno. */
static int egress_start(struct box *box, struct fail *ret_fail)
{
    struct egress_proxy *egress = calloc(1, sizeof *egress);
    if (!egress) {
        return fail_set(ret_fail, ENOMEM, "the egress proxy");
    }
    *egress = (struct egress_proxy){
        .box = box, .policy = *box->spec->egress, .child = launch_none, .control_fd = -1};
    box->egress.proxy = egress;
    return egress_launch(egress, ret_fail);
}

static void box_listening(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    struct box *box = arg;
    struct fail fail = {};
    if (reply->error == ECONNRESET) {
        return; /* the sandbox is shutting down */
    }
    box->egress.listen_fd = take_fd(&fds[0]);
    int r = reply->error || box->egress.listen_fd < 0
                ? fail_set(&fail, reply->error, "cannot create a listening socket for --allow-host")
                : egress_start(box, &fail);
    if (r < 0) {
        box_broken(box, &fail);
    }
}

/* Where the sandbox has no network namespace, init has none to listen in. The socket then has a
 * path. The sandbox's code cannot connect to it; its supervisor does so for the code. */
int box_egress_listen(struct box *box, struct fail *ret_fail)
{
    enum { WAITING = 128 };
    static unsigned made;
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    if (!box->spec->egress || box->plan.level != BOX_CONTAINER) {
        return 0;
    }
    int size =
        snprintf(name.sun_path, sizeof name.sun_path, "%s/egress-%u", box->spec->paths.run, ++made);
    if (size < 0 || (size_t)size >= sizeof name.sun_path) {
        return fail_set(ret_fail, ENAMETOOLONG,
                        "cannot create a listening socket for --allow-host");
    }
    defer_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&name, sizeof name) < 0 ||
        chown(name.sun_path, box->plan.outside_uid, box->plan.outside_gid) < 0 ||
        listen(fd, WAITING) < 0) {
        return fail_set(ret_fail, errno, "cannot create a listening socket for --allow-host");
    }
    memcpy(box->egress.path, name.sun_path, (size_t)size + 1);
    box->egress.listen_fd = take_fd(&fd);
    return 0;
}

int box_egress_start(struct box *box, struct fail *ret_fail)
{
    if (!box->spec->egress) {
        return 0;
    }
    if (box->egress.listen_fd >= 0) {
        return egress_start(box, ret_fail);
    }
    struct wire_request request = {.op = WIRE_LISTEN};
    int r = box_ask(box, &request, box_listening, box);
    return r < 0 ? fail_set(ret_fail, -r, "the sandbox's egress proxy") : 0;
}

void box_egress_end(struct box *box)
{
    struct egress_proxy *egress = take_ptr(box->egress.proxy);
    if (egress) {
        egress_reap(egress);
        free(egress);
    }
    drop_fd(&box->egress.listen_fd);
    if (box->egress.path[0]) {
        (void)unlink(box->egress.path);
        box->egress.path[0] = '\0';
    }
}

int box_allow_host(struct box *box, const char *word, struct fail *ret_fail)
{
    static struct egress_order order;
    struct egress_proxy *egress = box->egress.proxy;
    if (!egress) {
        return fail_set(ret_fail, ENOTCONN, "egress proxy unavailable");
    }
    unsigned before = egress->policy.count;
    int r = egress_policy_allow(&egress->policy, word, ret_fail);
    if (r < 0 || egress->policy.count == before) {
        return r;
    }
    order = (struct egress_order){.kind = EGRESS_ORDER_ROW, .row = egress->policy.rows[before]};
    known_read(order.row.host, &order.known);
    ssize_t sent = packet_send(egress->control_fd, &order, sizeof order, NULL, 0, MSG_DONTWAIT);
    return sent < 0 ? fail_set(ret_fail, (int)-sent, "cannot send to the egress proxy") : 0;
}

enum { REPLY_BYTES = 4096, STEP_MS = 50 };

struct asked {
    struct egress_try *entry;
    struct loop_io io;
    int fd;
    bool ended;
    size_t size;
    char bytes[REPLY_BYTES + 1];
};

/* A refusal of our own has its sentence as the body. */
static void asked_finish(struct asked *asked)
{
    struct egress_try *entry = asked->entry;
    struct upstream_reply reply = {};
    asked->bytes[asked->size] = '\0';
    bool own = strstr(asked->bytes, "Proxy-Status: sandpiper") != NULL;
    bool whole = reply_read(asked->bytes, asked->size, &reply) == REPLY_WHOLE;
    entry->reached = whole && !own && (entry->target.port == 80 || reply.status / 100 == 2);
    if (own && whole) {
        const char *text = asked->bytes + reply.head_bytes;
        (void)snprintf(entry->text, sizeof entry->text, "%.*s", (int)strcspn(text, "\n"), text);
    }
}

static void asked_on_io(void *arg, uint32_t)
{
    struct asked *asked = arg;
    ssize_t size = recv(asked->fd, asked->bytes + asked->size, REPLY_BYTES - asked->size, 0);
    asked->size += size > 0 ? (size_t)size : 0;
    struct upstream_reply reply;
    bool head = reply_read(asked->bytes, asked->size, &reply) == REPLY_WHOLE;
    if (size <= 0 || asked->size == REPLY_BYTES || (head && reply.status / 100 == 2)) {
        loop_io_remove(&asked->io);
        asked->ended = true;
        asked_finish(asked);
    }
}

/* Sends the request over a connection to the listening socket. */
static void asked_begin(struct asked *asked, struct loop *loop, const struct sockaddr_un *name,
                        socklen_t size)
{
    char text[TARGET_BYTES];
    char request[TARGET_BYTES + 64];
    const char *target = target_print(&asked->entry->target, text);
    int length = snprintf(request, sizeof request,
                          asked->entry->target.port == 80 ? "HEAD http://%s/ HTTP/1.1\r\n\r\n"
                                                          : "CONNECT %s HTTP/1.1\r\n\r\n",
                          target);
    asked->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    asked->ended = asked->fd < 0 || connect(asked->fd, (const struct sockaddr *)name, size) < 0 ||
                   send(asked->fd, request, (size_t)length, MSG_NOSIGNAL) != length ||
                   loop_io_add(loop, &asked->io, asked->fd, EPOLLIN, asked_on_io, asked) < 0;
}

/* A listening socket without a path, which the kernel names (unix(7), autobind). */
static int listen_somewhere(struct sockaddr_un *ret_name, socklen_t *ret_size)
{
    *ret_size = sizeof *ret_name;
    defer_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    sa_family_t family = AF_UNIX;
    if (fd < 0 || bind(fd, (const struct sockaddr *)&family, sizeof family) < 0 ||
        listen(fd, EGRESS_TRIES) < 0 ||
        getsockname(fd, (struct sockaddr *)ret_name, ret_size) < 0) {
        return -1;
    }
    return take_fd(&fd);
}

static void try_with(struct box *box, struct asked *asked, unsigned count)
{
    struct sockaddr_un name = {};
    socklen_t size = 0;
    struct fail fail = {};
    uint64_t end_ns = clock_now_ns() + EGRESS_TRY_MS * CLOCK_NS_PER_MS;
    unsigned left = count;
    box->egress.quiet = true;
    box->egress.listen_fd = listen_somewhere(&name, &size);
    if (box->egress.listen_fd < 0 || box_egress_start(box, &fail) < 0) {
        return;
    }
    for (unsigned i = 0; i < count; i++) {
        asked_begin(&asked[i], box->loop, &name, size);
    }
    while (left > 0 && clock_now_ns() < end_ns && loop_step(box->loop, STEP_MS) == 0) {
        left = 0;
        for (unsigned i = 0; i < count; i++) {
            left += !asked[i].ended;
        }
    }
}

void egress_try_all(const struct box_spec *spec, struct egress_try *tries, unsigned count)
{
    struct box_spec own = *spec;
    static struct egress_policy policy;
    struct loop *loop = NULL;
    struct box *box = calloc(1, sizeof *box);
    struct asked *asked = calloc(EGRESS_TRIES, sizeof *asked);
    struct fail fail = {};
    policy = (struct egress_policy){.flag = "doctor", .any_address = true};
    own.egress = &policy;
    for (unsigned i = 0; i < count; i++) {
        char word[TARGET_BYTES];
        (void)egress_policy_add(&policy, target_print(&tries[i].target, word), &fail);
        tries[i].reached = false;
        (void)snprintf(tries[i].text, sizeof tries[i].text, "%.260s: no answer within %d s", word,
                       EGRESS_TRY_MS / 1000);
        if (asked) {
            asked[i].entry = &tries[i];
            asked[i].fd = -1;
        }
    }
    if (box && asked && loop_new(&loop) == 0) {
        box->loop = loop;
        box->spec = &own;
        try_with(box, asked, count);
        for (unsigned i = 0; i < count; i++) {
            loop_io_remove(&asked[i].io);
            drop_fd(&asked[i].fd);
        }
        box_egress_end(box);
        loop_free(loop);
    }
    free(asked);
    free(box);
}
