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

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "sandbox/policy/landlock.h"
#include "sandbox/programs/proxy/proxy.h"
#include "sandbox/protocol/init_protocol.h"
#include "sandbox/protocol/packet.h"

/* --- names --- */

/* Resolves names with a small client of our own, because the C library's resolver opens files and
 * loads plug-ins, and this process can do neither. Names are resolved as written, without search
 * domains; only those of upstream proxies are searched for, as an office may call its own "proxy".
 * What the host's own table knows is not queried. */

enum { DNS_PORT = 53, FAMILIES = 2, ROUNDS = 2, LENGTH_BYTES = 2 };

static const uint16_t types[FAMILIES] = {DNS_A, DNS_AAAA};

static void lookup_finish(struct lookup *lookup, enum lookup_state state, uint64_t now_ns)
{
    uint64_t good_ms = PROXY_TTL_LEAST_MS;
    drop_fd(&lookup->fd);
    lookup->state = state;
    if (state == LOOKUP_FOUND) {
        uint64_t ttl_ms = PROXY_TTL_MOST_MS;
        for (unsigned i = 0; i < FAMILIES; i++) {
            const struct dns_answer *family = &lookup->families[i];
            uint64_t record_ms = (uint64_t)family->ttl_s * 1000;
            ttl_ms = family->count && record_ms < ttl_ms ? record_ms : ttl_ms;
        }
        good_ms = ttl_ms > good_ms ? ttl_ms : good_ms;
    }
    lookup->deadline_ns = now_ns + good_ms * CLOCK_NS_PER_MS;
}

static bool lookup_has_any(const struct lookup *lookup)
{
    return lookup->families[0].count + lookup->families[1].count > 0;
}

/* Chooses the next name to ask for: of a row its own; of an upstream proxy that, and that in each
 * domain, which comes first where the name has no dot (resolv.conf(5), ndots). False: there is
 * none. */
static bool lookup_next_name(struct proxy *proxy, unsigned row)
{
    struct lookup *lookup = &proxy->lookups[row];
    bool upstream = row >= EGRESS_ROWS;
    const char *host =
        upstream ? proxy->ways.upstreams[row - EGRESS_ROWS].host : proxy->policy.rows[row].host;
    unsigned domains = upstream ? proxy->resolvers.search_count : 0;
    unsigned plain = strchr(host, '.') ? 0 : domains; /* when the name itself has its turn */
    for (unsigned n; (n = lookup->names) <= domains;) {
        lookup->names++;
        const char *domain = n == plain ? "" : proxy->resolvers.search[n < plain ? n : n - 1];
        int size =
            snprintf(lookup->name, sizeof lookup->name, "%s%s%s", host, *domain ? "." : "", domain);
        if ((size_t)size < sizeof lookup->name) {
            return true;
        }
    }
    return false;
}

static void lookup_write(struct lookup *lookup, const char *name)
{
    lookup->out_size = 0;
    lookup->out_sent = 0;
    lookup->in_size = 0;
    for (unsigned i = 0; i < FAMILIES; i++) {
        uint8_t *at = lookup->out + lookup->out_size;
        size_t size = dns_write_query(name, types[i], lookup->ids[i], at + LENGTH_BYTES);
        at[0] = (uint8_t)(size >> 8);
        at[1] = (uint8_t)size;
        lookup->out_size += LENGTH_BYTES + size;
    }
}

static bool lookup_send_datagrams(const struct lookup *lookup)
{
    for (size_t at = 0; at < lookup->out_size;) {
        size_t size = (size_t)lookup->out[at] << 8 | lookup->out[at + 1];
        if (send(lookup->fd, lookup->out + at + LENGTH_BYTES, size, MSG_NOSIGNAL) < 0) {
            return false;
        }
        at += LENGTH_BYTES + size;
    }
    return true;
}

/* Queries a server for both families at once, from an unpredictable port and with unpredictable
 * ids. */
static bool lookup_ask(struct proxy *proxy, unsigned row, bool tcp, uint64_t now_ns)
{
    struct lookup *lookup = &proxy->lookups[row];
    const struct egress_resolvers *resolvers = &proxy->resolvers;
    const struct egress_address *server =
        &resolvers->servers[lookup->tries % (resolvers->count ? resolvers->count : 1)];
    drop_fd(&lookup->fd);
    lookup->tcp = tcp;
    lookup->deadline_ns = now_ns + PROXY_TRY_MS * CLOCK_NS_PER_MS;
    if (getrandom(lookup->ids, sizeof lookup->ids, 0) != sizeof lookup->ids) {
        return false;
    }
    lookup_write(lookup, lookup->name);
    lookup->fd = connect_start(server, DNS_PORT, tcp ? SOCK_STREAM : SOCK_DGRAM);
    return lookup->fd >= 0 && (tcp || lookup_send_datagrams(lookup));
}

/* Tries the next server, or finishes. One family's result suffices when the other never arrives. */
static void lookup_next(struct proxy *proxy, unsigned row, uint64_t now_ns)
{
    struct lookup *lookup = &proxy->lookups[row];
    bool found = lookup_has_any(lookup);
    while (++lookup->tries < ROUNDS * proxy->resolvers.count && now_ns < lookup->give_up_ns &&
           !found) {
        if (lookup_ask(proxy, row, /* tcp= */ false, now_ns)) {
            return;
        }
    }
    lookup_finish(lookup,
                  found             ? LOOKUP_FOUND
                  : lookup->no_name ? LOOKUP_NO_NAME
                                    : LOOKUP_SILENT,
                  now_ns);
    if (lookup->state == LOOKUP_SILENT) {
        proxy_tell(proxy, EGRESS_NOTICE_NO_RESOLVER, NULL);
    }
}

/* Asks for the lookup's name, from the first server on. */
static void lookup_begin(struct proxy *proxy, unsigned row, uint64_t now_ns)
{
    struct lookup *lookup = &proxy->lookups[row];
    lookup->tries = 0;
    lookup->no_name = false;
    for (unsigned i = 0; i < FAMILIES; i++) {
        lookup->answered[i] = false;
        lookup->families[i].count = 0;
    }
    if (!proxy->resolvers.count || !lookup_ask(proxy, row, /* tcp= */ false, now_ns)) {
        lookup_next(proxy, row, now_ns);
    }
}

static bool lookup_resolved(struct proxy *proxy, unsigned row, uint64_t now_ns)
{
    struct lookup *lookup = &proxy->lookups[row];
    if (!lookup->answered[0] || !lookup->answered[1]) {
        return false;
    }
    if (!lookup_has_any(lookup) && now_ns < lookup->give_up_ns && lookup_next_name(proxy, row)) {
        lookup_begin(proxy, row, now_ns);
    } else {
        lookup_finish(lookup, lookup_has_any(lookup) ? LOOKUP_FOUND : LOOKUP_NO_NAME, now_ns);
    }
    return true;
}

static void lookup_know(struct lookup *lookup, const struct egress_address *addresses, size_t count,
                        uint64_t now_ns)
{
    lookup->families[0].count = count;
    lookup->families[0].ttl_s = UINT32_MAX;
    memcpy(lookup->families[0].addresses, addresses, count * sizeof *addresses);
    lookup_finish(lookup, LOOKUP_FOUND, now_ns);
}

void lookup_want(struct proxy *proxy, unsigned row, uint64_t now_ns)
{
    struct lookup *lookup = &proxy->lookups[row];
    bool upstream = row >= EGRESS_ROWS;
    const struct egress_upstream *way = &proxy->ways.upstreams[upstream ? row - EGRESS_ROWS : 0];
    const struct egress_row *wanted = &proxy->policy.rows[upstream ? 0 : row];
    const struct egress_known *known =
        upstream ? &proxy->upstream_known[row - EGRESS_ROWS] : &proxy->known[row];
    if (lookup->state == LOOKUP_ASKING ||
        (lookup->state != LOOKUP_NONE && now_ns < lookup->deadline_ns)) {
        return;
    }
    lookup->state = LOOKUP_ASKING;
    lookup->fd = -1;
    lookup->names = 0;
    lookup->give_up_ns = now_ns + PROXY_RESOLVE_MS * CLOCK_NS_PER_MS;
    lookup->families[1].count = 0;
    if (upstream ? way->literal : wanted->literal) {
        lookup_know(lookup, upstream ? &way->address : &wanted->address, 1, now_ns);
    } else if (known->count) {
        lookup_know(lookup, known->addresses, known->count, now_ns);
    } else {
        (void)lookup_next_name(proxy, row);
        lookup_begin(proxy, row, now_ns);
    }
}

/* fd -1: nothing. */
static void lookup_poll(const struct lookup *lookup, struct pollfd *ret_polled)
{
    bool asking = lookup->state == LOOKUP_ASKING;
    bool sending = asking && lookup->tcp && lookup->out_sent < lookup->out_size;
    *ret_polled =
        (struct pollfd){.fd = asking ? lookup->fd : -1, .events = sending ? POLLOUT : POLLIN};
}

/* Returns false when this server is unusable. */
static bool lookup_take(struct proxy *proxy, unsigned row, const uint8_t *bytes, size_t size,
                        bool *ret_truncated)
{
    struct lookup *lookup = &proxy->lookups[row];
    for (unsigned i = 0; i < FAMILIES; i++) {
        if (lookup->answered[i]) {
            continue;
        }
        enum dns_result result = dns_read_answer(bytes, size, lookup->name, types[i],
                                                 lookup->ids[i], &lookup->families[i]);
        switch (result) {
        case DNS_NO_NAME:
            lookup->no_name = true;
            lookup->answered[i] = true;
            return true;
        case DNS_ANSWERED:
            lookup->answered[i] = true;
            return true;
        case DNS_TRUNCATED:
            *ret_truncated = true;
            return true;
        case DNS_FAILED:
            return false;
        case DNS_STRANGE:
        default:
            break;
        }
    }
    return true;
}

/* Reads the complete messages of a TCP stream. False: the server has closed or overfilled it. */
static bool lookup_read_stream(struct proxy *proxy, unsigned row)
{
    struct lookup *lookup = &proxy->lookups[row];
    bool truncated = false;
    ssize_t size = recv(lookup->fd, lookup->in + lookup->in_size,
                        sizeof lookup->in - lookup->in_size, MSG_DONTWAIT);
    if (size <= 0) {
        return size < 0 && (errno == EAGAIN || errno == EINTR);
    }
    lookup->in_size += (size_t)size;
    while (lookup->in_size >= LENGTH_BYTES) {
        size_t message = (size_t)lookup->in[0] << 8 | lookup->in[1];
        size_t whole = LENGTH_BYTES + message;
        if (whole > sizeof lookup->in) {
            return false;
        }
        if (lookup->in_size < whole) {
            return true;
        }
        if (!lookup_take(proxy, row, lookup->in + LENGTH_BYTES, message, &truncated) || truncated) {
            return false;
        }
        lookup->in_size -= whole;
        memmove(lookup->in, lookup->in + whole, lookup->in_size);
    }
    return true;
}

static bool lookup_write_stream(struct lookup *lookup)
{
    ssize_t size = send(lookup->fd, lookup->out + lookup->out_sent,
                        lookup->out_size - lookup->out_sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (size < 0) {
        return errno == EAGAIN || errno == EINTR;
    }
    lookup->out_sent += (size_t)size;
    return true;
}

static bool lookup_read_datagram(struct proxy *proxy, unsigned row, uint64_t now_ns)
{
    struct lookup *lookup = &proxy->lookups[row];
    bool truncated = false;
    ssize_t size = recv(lookup->fd, lookup->in, sizeof lookup->in, MSG_DONTWAIT);
    if (size < 0) {
        return errno == EAGAIN || errno == EINTR;
    }
    if (!lookup_take(proxy, row, lookup->in, (size_t)size, &truncated)) {
        return false;
    }
    return !truncated || lookup_ask(proxy, row, /* tcp= */ true, now_ns);
}

/* Must be called when something has arrived or the deadline has passed. */
static void lookup_step(struct proxy *proxy, unsigned row, short revents, uint64_t now_ns)
{
    struct lookup *lookup = &proxy->lookups[row];
    bool useful = true;
    if (lookup->state != LOOKUP_ASKING) {
        return;
    }
    if (revents && lookup->tcp) {
        useful = lookup->out_sent < lookup->out_size ? lookup_write_stream(lookup)
                                                     : lookup_read_stream(proxy, row);
    } else if (revents) {
        useful = lookup_read_datagram(proxy, row, now_ns);
    }
    if (!lookup_resolved(proxy, row, now_ns) && (!useful || now_ns >= lookup->deadline_ns)) {
        lookup_next(proxy, row, now_ns);
    }
}

size_t lookup_addresses(const struct lookup *lookup,
                        struct egress_address addresses[2 * DNS_ADDRESSES])
{
    size_t count = 0;
    for (unsigned i = 0; i < FAMILIES; i++) {
        const struct dns_answer *family = &lookup->families[i];
        memcpy(addresses + count, family->addresses, family->count * sizeof *addresses);
        count += family->count;
    }
    return count;
}

int connect_start(const struct egress_address *address, uint16_t port, int type)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    bool is_v4 = address_is_v4(address);
    memcpy(&v4.sin_addr, address->bytes + 12, sizeof v4.sin_addr);
    memcpy(&v6.sin6_addr, address->bytes, sizeof v6.sin6_addr);
    defer_close int fd = socket(is_v4 ? AF_INET : AF_INET6, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    int r = is_v4 ? connect(fd, (const struct sockaddr *)&v4, sizeof v4)
                  : connect(fd, (const struct sockaddr *)&v6, sizeof v6);
    return r < 0 && errno != EINPROGRESS ? -errno : take_fd(&fd);
}

/* --- the program --- */

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
    return poll(&polled, 1, -1) == 1 &&
           packet_receive(WIRE_INIT_FD, &hello, sizeof hello, &proxy->listen_fd, 1) ==
               sizeof hello &&
           proxy->listen_fd >= 0;
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
