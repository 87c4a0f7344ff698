/* The egress proxy: accepts the connections that a sandbox makes to its only listening socket, and
 * connects those that the policy allows from the host's network.
 *
 * The server's child has built an empty root and executed this program from a memfd, so no memory
 * of the server is here. The sockets that it accepts belong to the sandbox's network, those that it
 * connects to the host's: bytes are copied from one to the other, and no packet is routed. The
 * server sends it everything it knows: policy, name servers, the host's table. Its input is hostile
 * from both sides.
 *
 * It exits when its control socket ends, or with the server. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "sandbox/policy/landlock.h"
#include "sandbox/programs/proxy/proxy.h"
#include "sandbox/protocol/init_protocol.h"
#include "sandbox/protocol/packet.h"

/* Before it reads a byte from the sandbox, this process drops what the plan has left to it
 * (namespaces of its own but for the network's, an empty read-only root, no capabilities,
 * no_new_privs: plan_build_egress()). It can then open no file by name, and make only the system
 * calls of this program. */

enum { MEMORY_BYTES = 256 << 20, DESCRIPTORS = 2 * PROXY_FLOWS + PROXY_LOOKUPS + 16 };

static bool set_limits(void)
{
    const struct {
        int which;
        rlim_t most;
    } limits[] = {
        {RLIMIT_NOFILE, DESCRIPTORS},
        {RLIMIT_AS, MEMORY_BYTES},
        {RLIMIT_FSIZE, 0},
        {RLIMIT_NPROC, 0},
        {RLIMIT_MEMLOCK, 0},
        {RLIMIT_CORE, 1},
    };
    for (unsigned i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct rlimit now;
        if (getrlimit((__rlimit_resource_t)limits[i].which, &now) < 0) {
            return false;
        }
        rlim_t most = limits[i].most < now.rlim_max ? limits[i].most : now.rlim_max;
        if (setrlimit((__rlimit_resource_t)limits[i].which, &(struct rlimit){most, most}) < 0) {
            return false;
        }
    }
    return true;
}

/* Drops what this process does not need. False: a step failed. */
static bool proxy_confine(const struct egress_config *config)
{
    struct sock_fprog filter = {
        .len = (unsigned short)config->filter_count,
        .filter = (struct sock_filter *)(void *)((char *)(uintptr_t)config + sizeof *config)};
    /* The mounts hold without Landlock, as in the sandbox. */
    bool has_landlock = landlock_abi() >= LANDLOCK_ABI_LEAST;
    return set_limits() && (!has_landlock || landlock_confine(NULL, 0, /* flags= */ 0) == 0) &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) == 0;
}

enum { EVENTS_A_SECOND = 32 };

static struct proxy state;

void proxy_tell(struct proxy *proxy, enum egress_notice_kind kind, const struct egress_event *event)
{
    static uint64_t second;
    static unsigned sent;
    struct egress_notice notice = {.kind = kind, .missed = proxy->missed};
    uint64_t now = clock_now_ns() / CLOCK_NS_PER_S;
    sent = now == second ? sent + 1 : 1;
    second = now;
    if (event) {
        notice.event = *event;
    }
    if (sent <= EVENTS_A_SECOND &&
        packet_send(proxy->control_fd, &notice, sizeof notice, NULL, 0, MSG_DONTWAIT) >= 0) {
        proxy->missed = 0;
    } else {
        proxy->missed++;
    }
}

static const struct egress_config *map_config(void)
{
    struct stat st;
    if (fstat(WIRE_CONFIG_FD, &st) < 0 || st.st_size < (off_t)sizeof(struct egress_config)) {
        return NULL;
    }
    void *bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, WIRE_CONFIG_FD, 0);
    (void)close(WIRE_CONFIG_FD);
    const struct egress_config *config = bytes;
    bool whole =
        bytes != MAP_FAILED && config->row_count <= EGRESS_ROWS &&
        (size_t)st.st_size == sizeof *config + config->filter_count * sizeof(struct sock_filter);
    return whole ? config : NULL;
}

static bool take_listener(struct proxy *proxy)
{
    struct pollfd polled = {.fd = WIRE_INIT_FD, .events = POLLIN};
    uint32_t hello = 0;
    int fds[2];
    if (poll(&polled, 1, -1) != 1 ||
        packet_receive(WIRE_INIT_FD, &hello, sizeof hello, fds, 2) != sizeof hello || fds[1] < 0) {
        return false;
    }
    void *bytes =
        mmap(NULL, EGRESS_REFUSED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], /* at= */ 0);
    (void)close(fds[1]);
    proxy->listen_fd = fds[0];
    proxy->refused = bytes;
    return bytes != MAP_FAILED;
}

static void take_order(struct proxy *proxy)
{
    static struct egress_order order;
    ssize_t size = packet_receive(proxy->control_fd, &order, sizeof order, NULL, 0);
    if (size == -EAGAIN || size == -EINTR) {
        return;
    }
    if (size != sizeof order) {
        _exit(size < 0); /* the server has closed its end */
    }
    struct egress_policy *policy = &proxy->policy;
    if (order.kind == EGRESS_ORDER_RESOLVERS && order.resolvers.count <= EGRESS_RESOLVERS) {
        proxy->resolvers = order.resolvers;
    } else if (order.kind == EGRESS_ORDER_ROW && policy->count < EGRESS_ROWS) {
        proxy->known[policy->count] = order.known;
        policy->rows[policy->count++] = order.row;
    }
}

static int wait_ms(uint64_t deadline_ns, uint64_t now_ns)
{
    enum { MOST_MS = 60000 };
    if (deadline_ns <= now_ns) {
        return 0;
    }
    uint64_t ms = (deadline_ns - now_ns) / CLOCK_NS_PER_MS + 1;
    return ms < MOST_MS ? (int)ms : MOST_MS;
}

static void proxy_turn(struct proxy *proxy)
{
    static struct pollfd polled[PROXY_POLLED];
    uint64_t deadline_ns = UINT64_MAX;
    nfds_t count = 2;
    polled[0] = (struct pollfd){.fd = proxy->control_fd, .events = POLLIN};
    polled[1] = (struct pollfd){.fd = flows_have_space() ? proxy->listen_fd : -1, .events = POLLIN};
    for (unsigned row = 0; row < PROXY_LOOKUPS; row++, count++) {
        const struct lookup *lookup = &proxy->lookups[row];
        lookup_poll(lookup, &polled[count]);
        if (lookup->state == LOOKUP_ASKING && lookup->deadline_ns < deadline_ns) {
            deadline_ns = lookup->deadline_ns;
        }
    }
    const struct pollfd *of_flows = polled + count;
    count += flows_poll(polled + count, &deadline_ns);
    (void)poll(polled, count, wait_ms(deadline_ns, clock_now_ns()));
    uint64_t now_ns = clock_now_ns();
    if (polled[0].revents) {
        take_order(proxy);
    }
    for (unsigned row = 0; row < PROXY_LOOKUPS; row++) {
        lookup_step(proxy, row, polled[2 + row].revents, now_ns);
    }
    flows_step(proxy, of_flows, now_ns);
    if (polled[1].revents) {
        flows_accept(proxy, now_ns);
    }
}

int main(int, char **argv)
{
    struct proxy *proxy = &state;
    /* A program that is executed from a memfd is otherwise named by the descriptor's number. */
    (void)prctl(PR_SET_NAME, argv[0]);
    (void)prctl(PR_SET_DUMPABLE, 0);
    const struct egress_config *config = map_config();
    if (!config || !take_listener(proxy) || !proxy_confine(config)) {
        return 1;
    }
    proxy->control_fd = WIRE_INIT_FD;
    proxy->resolvers = config->resolvers;
    proxy->policy.any_address = config->any_address;
    proxy->policy.ask = config->ask;
    proxy->policy.count = config->row_count;
    proxy->policy.flag = config->flag;
    memcpy(proxy->policy.rows, config->rows, sizeof config->rows);
    memcpy(proxy->known, config->known, sizeof config->known);
    proxy->ways = config->ways;
    memcpy(proxy->upstream_known, config->upstream_known, sizeof config->upstream_known);
    for (;;) {
        proxy_turn(proxy);
    }
}
