/* One connection from the sandbox, in one of these states:
 *
 *   HEAD     the request is read; the policy checks its target
 *   RESOLVE  its name is looked up; all addresses are checked, and only those are connected to
 *   CONNECT  the addresses are tried in order, until one accepts
 *   REPLY    an upstream proxy has been sent a CONNECT, and its reply is read
 *   RELAY    bytes go both ways: all of a tunnel; of a request the head as rewritten, and the body
 *   REFUSE   the response says why, then the connection ends
 *
 * Each state has a deadline, which the peer cannot extend.
 *
 * Of a request that goes through an upstream proxy, RESOLVE and CONNECT are about that one, whose
 * address no rule forbids: the user has named it. The names of targets are then its to resolve;
 * only one that the user has allowed when asked is looked up first, so that a click opens no
 * private address that is known here. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "sandbox/programs/proxy/proxy.h"

enum flow_state {
    FLOW_NONE,
    FLOW_HEAD,
    FLOW_RESOLVE,
    FLOW_CONNECT,
    FLOW_REPLY,
    FLOW_RELAY,
    FLOW_REFUSE
};

enum { SOCKET_BUFFER_BYTES = 262144, WINDOW_BYTES = 1048576, ACCEPTED_A_TURN = 128 };

struct pipe {
    size_t start;
    size_t end;
    bool ended;    /* the source has no more data */
    bool reported; /* and the sink has been shut down */
    char bytes[PROXY_PIPE_BYTES];
};

struct flow {
    struct pipe up; /* from the client */
    struct pipe down;
    struct request request;
    uint64_t deadline_ns; /* of the state, or of inactivity */
    uint64_t end_ns;
    uint64_t relayed_bytes;
    uint64_t body_left;                /* of a request: what the client may still send */
    const struct egress_upstream *via; /* or NULL: directly to the target */
    uint64_t via_ns;                   /* deadline of the connection to it */
    enum flow_state state;
    int client;
    int upstream;
    unsigned row;
    unsigned lookup; /* the row, or the upstream proxy's */
    unsigned candidate_count;
    unsigned candidate; /* the next one */
    struct egress_address candidates[PROXY_CANDIDATES];
    bool reply_due; /* of a request: the head of what the upstream proxy replies */
    bool waits;     /* in RESOLVE: for another one, which tries the login */
};

static struct flow flows[PROXY_FLOWS];

static void pipe_reset(struct pipe *pipe)
{
    pipe->start = 0;
    pipe->end = 0;
    pipe->ended = false;
    pipe->reported = false;
}

static void flow_close(struct flow *flow)
{
    drop_fd(&flow->client);
    drop_fd(&flow->upstream);
    flow->state = FLOW_NONE;
}

static void flow_enter(struct flow *flow, enum flow_state state, uint64_t now_ns, uint64_t ms)
{
    flow->state = state;
    flow->deadline_ns = now_ns + ms * CLOCK_NS_PER_MS;
}

/* After each byte, but those of a reply's head. */
static void flow_stay(struct flow *flow, uint64_t now_ns)
{
    flow_enter(flow, FLOW_RELAY, now_ns, flow->reply_due ? PROXY_PAGE_MS : PROXY_IDLE_MS);
}

static const char *status_name(unsigned status)
{
    return status == 403   ? "Forbidden"
           : status == 502 ? "Bad Gateway"
           : status == 504 ? "Gateway Timeout"
                           : "Bad Request";
}

/* RFC 9209 2.3: the cause, for programs. */
static const char *const errors[EGRESS_EVENT_COUNT] = {
    [EGRESS_REFUSED_HOST] = "http_request_denied",
    [EGRESS_REFUSED_ADDRESS] = "destination_ip_prohibited",
    [EGRESS_REFUSED_REQUEST] = "http_request_error",
    [EGRESS_REFUSED_LIMIT] = "connection_limit_reached",
    [EGRESS_UNREACHABLE] = "destination_unavailable",
    [EGRESS_UPSTREAM] = "destination_unavailable",
};

/* The sentence is also in the reason phrase, which programs show when a tunnel is refused. */
static void flow_refuse(struct proxy *proxy, struct flow *flow, unsigned status,
                        const struct egress_event *event, uint64_t now_ns)
{
    drop_fd(&flow->upstream);
    pipe_reset(&flow->down);
    int size = snprintf(flow->down.bytes, sizeof flow->down.bytes,
                        "HTTP/1.1 %u %s: %s\r\nProxy-Status: sandpiper; error=%s\r\n"
                        "Content-Type: text/plain\r\nContent-Length: %zu\r\n"
                        "Connection: close\r\n\r\n%s\n",
                        status, status_name(status), event->text, errors[event->kind],
                        strlen(event->text) + 1, event->text);
    flow->down.end = (size_t)size;
    flow->down.ended = true;
    flow_enter(flow, FLOW_REFUSE, now_ns, PROXY_LINGER_MS);
    proxy_tell(proxy, EGRESS_NOTICE_EVENT, event);
}

static void flow_unreachable(struct proxy *proxy, struct flow *flow, unsigned status,
                             const char *why, uint64_t now_ns)
{
    struct egress_event event;
    event_set(&event, EGRESS_UNREACHABLE, &flow->request.target, "cannot be reached: %s", why);
    flow_refuse(proxy, flow, status, &event, now_ns);
}

/* What the upstream proxy does wrong, or refuses. reply: or NULL. */
static void flow_stuck(struct proxy *proxy, struct flow *flow, enum upstream_error error,
                       const struct upstream_reply *reply, uint64_t now_ns)
{
    struct egress_event event;
    bool late = error == UPSTREAM_NO_CONNECTION || error == UPSTREAM_SILENT ||
                error == UPSTREAM_SLOW || error == UPSTREAM_NO_RESOLVER;
    if (reply && (reply->status == 407 || reply->status == 401) && reply->takes_basic) {
        proxy->refused[flow->via - proxy->ways.upstreams] = flow->via->has_login;
    }
    upstream_explain(flow->via, error, reply, &flow->request.target, &event);
    flow_refuse(proxy, flow, late ? 504 : 502, &event, now_ns);
}

/* --- logins of upstream proxies ---
 *
 * A login that was refused is not sent again while this server lives. The reply to a CONNECT is the
 * proxy's own. That to a path may be the site's, to stop what others need the proxy for: it counts
 * for paths only, until a CONNECT has been accepted. A login that nothing has accepted yet is sent
 * by one connection at a time, while others wait. */

static bool same_login(const struct egress_upstream *a, const struct egress_upstream *b)
{
    return a == b || (a->port == b->port && strcmp(a->host, b->host) == 0 &&
                      strcmp(a->user, b->user) == 0 && strcmp(a->password, b->password) == 0);
}

/* The first kind of upstream proxy that has the same login. */
static unsigned login_of(const struct proxy *proxy, const struct egress_upstream *via)
{
    unsigned kind = 0;
    while (!same_login(&proxy->ways.upstreams[kind], via)) {
        kind++;
    }
    return kind;
}

static bool login_is_refused(const struct proxy *proxy, const struct egress_upstream *via)
{
    return via->has_login &&
           (proxy->refused[via - proxy->ways.upstreams] || proxy->refused[login_of(proxy, via)]);
}

static void login_accepted(struct proxy *proxy, const struct egress_upstream *via, bool tunnel)
{
    unsigned login = login_of(proxy, via);
    proxy->accepted[login] = true;
    for (unsigned kind = 0; tunnel && kind < EGRESS_KINDS; kind++) {
        if (login_of(proxy, &proxy->ways.upstreams[kind]) == login) {
            proxy->refused[kind] = 0;
        }
    }
}

/* Whether a connection sends this login, and has no reply. */
static bool login_is_tried(const struct egress_upstream *via)
{
    for (unsigned i = 0; i < PROXY_FLOWS; i++) {
        const struct flow *flow = &flows[i];
        bool tries = flow->state == FLOW_CONNECT || flow->state == FLOW_REPLY ||
                     (flow->state == FLOW_RELAY && flow->reply_due);
        if (tries && flow->via && same_login(flow->via, via)) {
            return true;
        }
    }
    return false;
}

bool flows_have_space(void)
{
    for (unsigned i = 0; i < PROXY_FLOWS; i++) {
        if (flows[i].state == FLOW_NONE) {
            return true;
        }
    }
    return false;
}

/* Bounds what the kernel keeps for a peer that does not read. */
static void bound_buffers(int fd)
{
    int bytes = SOCKET_BUFFER_BYTES;
    int window = WINDOW_BYTES;
    int on = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, &window, sizeof window);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void flows_accept(struct proxy *proxy, uint64_t now_ns)
{
    unsigned accepted = 0;
    for (unsigned i = 0; i < PROXY_FLOWS && accepted < ACCEPTED_A_TURN; i++) {
        struct flow *flow = &flows[i];
        if (flow->state != FLOW_NONE) {
            continue;
        }
        int fd = accept4(proxy->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            return;
        }
        accepted++;
        bound_buffers(fd);
        flow->client = fd;
        flow->upstream = -1;
        flow->via = NULL;
        flow->reply_due = false;
        flow->waits = false;
        flow->end_ns = now_ns + (uint64_t)PROXY_LIFE_MS * CLOCK_NS_PER_MS;
        flow->relayed_bytes = 0;
        pipe_reset(&flow->up);
        pipe_reset(&flow->down);
        flow_enter(flow, FLOW_HEAD, now_ns, PROXY_HEAD_MS);
    }
}

/* Reads as much as there is space for. False: the connection is broken. */
static bool pipe_fill(struct pipe *pipe, int fd, size_t most)
{
    if (pipe->start == pipe->end) {
        pipe->start = 0;
        pipe->end = 0;
    }
    size_t space = sizeof pipe->bytes - pipe->end;
    space = space < most ? space : most;
    if (space == 0 || pipe->ended) {
        return true;
    }
    ssize_t size = recv(fd, pipe->bytes + pipe->end, space, MSG_DONTWAIT);
    if (size < 0) {
        return errno == EAGAIN || errno == EINTR;
    }
    pipe->end += (size_t)size;
    pipe->ended = size == 0;
    return true;
}

/* Writes as much as the sink takes, and shuts it down after the last byte. False: the connection is
 * broken. */
static bool pipe_drain(struct pipe *pipe, int fd)
{
    if (pipe->start < pipe->end) {
        ssize_t size = send(fd, pipe->bytes + pipe->start, pipe->end - pipe->start,
                            MSG_DONTWAIT | MSG_NOSIGNAL);
        if (size < 0) {
            return errno == EAGAIN || errno == EINTR;
        }
        pipe->start += (size_t)size;
    }
    if (pipe->ended && !pipe->reported && pipe->start == pipe->end) {
        pipe->reported = true;
        (void)shutdown(fd, SHUT_WR);
    }
    return true;
}

static bool pipe_has_space(const struct pipe *pipe)
{
    return !pipe->ended && (pipe->end < sizeof pipe->bytes || pipe->start == pipe->end);
}

/* reply_bytes: of the upstream proxy's reply, in front of the first bytes of a tunnel. */
static void flow_start_relay(struct flow *flow, size_t reply_bytes, uint64_t now_ns)
{
    static const char established[] = "HTTP/1.1 200 Connection established\r\n\r\n";
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    enum { ESTABLISHED = sizeof established - 1 };
    static char head[PROXY_PIPE_BYTES];
    char login[UPSTREAM_LOGIN_BYTES];
    struct pipe *down = &flow->down;
    struct pipe *up = &flow->up;
    const struct request *request = &flow->request;
    bound_buffers(flow->upstream);
    flow->reply_due = flow->via && !request->tunnel;
    flow_stay(flow, now_ns);
    if (request->tunnel) {
        memmove(down->bytes + ESTABLISHED, down->bytes + reply_bytes, down->end - reply_bytes);
        memcpy(down->bytes, established, ESTABLISHED);
        down->end += ESTABLISHED - reply_bytes;
        up->start = request->head_bytes; /* what follows the head is for the other end */
        return;
    }
    if (request->expects) { /* the other end does not learn of it, and replies once */
        (void)send(flow->client, go_on, sizeof go_on - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    size_t size = request_write_head(
        request, up->bytes, flow->via ? upstream_login(flow->via, login) : NULL, head, sizeof head);
    size_t early = up->end - request->head_bytes;
    if (size == 0 || early > request->body_bytes || size + early > sizeof up->bytes) {
        flow_close(flow); /* a second request after the first: never read */
        return;
    }
    memmove(up->bytes + size, up->bytes + request->head_bytes, early);
    memcpy(up->bytes, head, size);
    up->start = 0;
    up->end = size + early;
    flow->body_left = request->body_bytes - early;
}

static void flow_connect_next(struct proxy *proxy, struct flow *flow, uint64_t now_ns, int error)
{
    const struct egress_upstream *via = flow->via;
    while (flow->candidate < flow->candidate_count && (!via || now_ns < flow->via_ns)) {
        int fd = connect_start(&flow->candidates[flow->candidate++],
                               via ? via->port : flow->request.target.port, SOCK_STREAM);
        drop_fd(&flow->upstream);
        if (fd >= 0) {
            flow->upstream = fd;
            flow_enter(flow, FLOW_CONNECT, now_ns, PROXY_CONNECT_MS);
            return;
        }
        error = -fd;
    }
    if (via) {
        flow_stuck(proxy, flow,
                   error == ETIMEDOUT      ? UPSTREAM_NO_CONNECTION
                   : error == ECONNREFUSED ? UPSTREAM_REFUSED_CONNECTION
                                           : UPSTREAM_NO_ROUTE,
                   NULL, now_ns);
        return;
    }
    flow_unreachable(proxy, flow, error == ETIMEDOUT ? 504 : 502,
                     error == ETIMEDOUT      ? "the connection timed out"
                     : error == ECONNREFUSED ? "the connection was refused"
                                             : "there is no route to it",
                     now_ns);
}

static void flow_resolve(struct proxy *proxy, struct flow *flow, unsigned lookup, uint64_t now_ns);

static void flow_resolve_upstream(struct proxy *proxy, struct flow *flow, uint64_t now_ns)
{
    flow_resolve(proxy, flow, EGRESS_ROWS + (unsigned)(flow->via - proxy->ways.upstreams), now_ns);
}

static void flow_take_addresses(struct proxy *proxy, struct flow *flow, uint64_t now_ns)
{
    static struct egress_address addresses[2 * DNS_ADDRESSES];
    struct egress_event event;
    bool of_target = flow->lookup == flow->row;
    size_t count = lookup_addresses(&proxy->lookups[flow->lookup], addresses);
    if (of_target &&
        !policy_allows_addresses(&proxy->policy, &flow->request.target, addresses, count, &event)) {
        flow_refuse(proxy, flow, 403, &event, now_ns);
        return;
    }
    if (of_target && flow->via) {
        flow_resolve_upstream(proxy, flow, now_ns);
        return;
    }
    if (flow->via && login_is_refused(proxy, flow->via)) {
        flow_stuck(proxy, flow, UPSTREAM_PASSWORD, NULL, now_ns);
        return;
    }
    if (flow->via && flow->via->has_login && !proxy->accepted[login_of(proxy, flow->via)] &&
        login_is_tried(flow->via)) {
        if (!flow->waits) {
            flow_enter(flow, FLOW_RESOLVE, now_ns, PROXY_PAGE_MS);
        }
        flow->waits = true;
        return;
    }
    flow->via_ns = now_ns + (uint64_t)PROXY_UPSTREAM_MS * CLOCK_NS_PER_MS;
    flow->candidate = 0;
    flow->candidate_count = count < PROXY_CANDIDATES ? (unsigned)count : PROXY_CANDIDATES;
    memcpy(flow->candidates, addresses, flow->candidate_count * sizeof *addresses);
    flow_connect_next(proxy, flow, now_ns, ENETUNREACH);
}

static void flow_step_resolve(struct proxy *proxy, struct flow *flow, uint64_t now_ns)
{
    enum lookup_state state = proxy->lookups[flow->lookup].state;
    bool failed = state == LOOKUP_NO_NAME || state == LOOKUP_SILENT;
    if (state == LOOKUP_FOUND) {
        flow_take_addresses(proxy, flow, now_ns);
    } else if (failed && flow->via && flow->lookup == flow->row) {
        flow_resolve_upstream(proxy, flow, now_ns); /* only that one may know the name */
    } else if (failed && flow->via) {
        flow_stuck(proxy, flow, state == LOOKUP_NO_NAME ? UPSTREAM_NO_NAME : UPSTREAM_NO_RESOLVER,
                   NULL, now_ns);
    } else if (failed) {
        flow_unreachable(proxy, flow, state == LOOKUP_NO_NAME ? 502 : 504,
                         state == LOOKUP_NO_NAME ? "the user's name server knows no such name"
                                                 : "no name server responds",
                         now_ns);
    }
}

static void flow_resolve(struct proxy *proxy, struct flow *flow, unsigned lookup, uint64_t now_ns)
{
    flow->lookup = lookup;
    flow_enter(flow, FLOW_RESOLVE, now_ns, 2ULL * PROXY_RESOLVE_MS);
    lookup_want(proxy, lookup, now_ns);
    flow_step_resolve(proxy, flow, now_ns);
}

/* Whether a request that the policy allows goes on to the upstream proxy; else it is refused. */
static void flow_go_upstream(struct proxy *proxy, struct flow *flow, uint64_t now_ns)
{
    const struct target *target = &flow->request.target;
    struct egress_event event;
    if (target->literal &&
        !policy_allows_addresses(&proxy->policy, target, &target->address, 1, &event)) {
        flow_refuse(proxy, flow, 403, &event, now_ns);
    } else if (flow->request.traces) { /* the reply would show what that one is sent */
        event_set(&event, EGRESS_REFUSED_REQUEST, &(struct target){},
                  "the proxy refuses this request: TRACE, where the user has an upstream proxy");
        flow_refuse(proxy, flow, 403, &event, now_ns);
    } else if (flow->via->unusable[0]) {
        flow_stuck(proxy, flow, UPSTREAM_UNUSABLE, NULL, now_ns);
    } else if (proxy->policy.rows[flow->row].asked && !target->literal) {
        flow_resolve(proxy, flow, flow->row, now_ns);
    } else {
        flow_resolve_upstream(proxy, flow, now_ns);
    }
}

static void flow_step_head(struct proxy *proxy, struct flow *flow, uint64_t now_ns)
{
    struct egress_event event;
    unsigned status = 0;
    const char *why = NULL;
    struct pipe *up = &flow->up;
    if (!pipe_fill(up, flow->client, REQUEST_HEAD_MOST - up->end) || up->ended) {
        flow_close(flow);
        return;
    }
    enum request_result result = request_read(up->bytes, up->end, &flow->request, &status, &why);
    if (result == REQUEST_MORE) {
        return;
    }
    if (result == REQUEST_BAD) {
        event_set(&event, EGRESS_REFUSED_REQUEST, &(struct target){},
                  "the proxy refuses this request: %s", why);
        flow_refuse(proxy, flow, status, &event, now_ns);
        return;
    }
    int row = policy_find(&proxy->policy, &flow->request.target, &event);
    if (row < 0) {
        flow_refuse(proxy, flow, 403, &event, now_ns);
        return;
    }
    flow->row = (unsigned)row;
    flow->via = ways_find(&proxy->ways, &flow->request.target, flow->request.tunnel);
    if (flow->via) {
        flow_go_upstream(proxy, flow, now_ns);
    } else {
        flow_resolve(proxy, flow, flow->row, now_ns);
    }
}

static void flow_begin_relay(struct proxy *proxy, struct flow *flow, size_t reply_bytes,
                             uint64_t now_ns)
{
    struct egress_event event;
    event_set(&event, EGRESS_ALLOWED, &flow->request.target, "is allowed (%s %.250s)",
              proxy->policy.flag, proxy->policy.rows[flow->row].host);
    proxy_tell(proxy, EGRESS_NOTICE_EVENT, &event);
    flow_start_relay(flow, reply_bytes, now_ns);
}

static void flow_ask_upstream(struct proxy *proxy, struct flow *flow, uint64_t now_ns)
{
    char login[UPSTREAM_LOGIN_BYTES];
    char head[sizeof login + 2UL * TARGET_BYTES + 64];
    size_t size = request_write_connect(&flow->request.target, upstream_login(flow->via, login),
                                        head, sizeof head);
    /* A new connection takes more than that at once. */
    if (send(flow->upstream, head, size, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)size) {
        flow_stuck(proxy, flow, UPSTREAM_CLOSED, NULL, now_ns);
        return;
    }
    flow_enter(flow, FLOW_REPLY, now_ns, PROXY_REPLY_MS);
}

/* Reads the reply to CONNECT. What follows a success belongs to the tunnel. */
static void flow_step_reply(struct proxy *proxy, struct flow *flow, uint64_t now_ns)
{
    struct pipe *down = &flow->down;
    struct upstream_reply reply;
    bool whole = pipe_fill(down, flow->upstream, REPLY_HEAD_MOST - down->end);
    enum reply_result result = reply_read(down->bytes, down->end, &reply);
    if (result == REPLY_MORE && (!whole || down->ended)) {
        flow_stuck(proxy, flow, UPSTREAM_CLOSED, NULL, now_ns);
    } else if (result == REPLY_GARBAGE) {
        flow_stuck(proxy, flow, UPSTREAM_GARBAGE, NULL, now_ns);
    } else if (result == REPLY_WHOLE && reply.status / 100 == 2 && !reply.is_page) {
        login_accepted(proxy, flow->via, /* tunnel= */ true);
        flow_begin_relay(proxy, flow, reply.head_bytes, now_ns);
    } else if (result == REPLY_WHOLE) {
        flow_stuck(proxy, flow, UPSTREAM_REFUSES, &reply, now_ns);
    }
}

/* Checks what an upstream proxy replies to a request for a path, before code gets a byte of it. A
 * 407 is about the user's password, which a reply that cannot be read may be too; nothing else
 * differs from the site's own. */
static void flow_check_reply(struct proxy *proxy, struct flow *flow, uint64_t now_ns)
{
    struct pipe *down = &flow->down;
    struct upstream_reply reply = {};
    enum reply_result result = reply_read(down->bytes, down->end, &reply);
    if (result == REPLY_MORE && down->ended) {
        flow_stuck(proxy, flow, UPSTREAM_CLOSED, NULL, now_ns);
    } else if (result == REPLY_GARBAGE) {
        flow_stuck(proxy, flow, UPSTREAM_GARBAGE, NULL, now_ns);
    } else if (result == REPLY_WHOLE && reply.status == 407) {
        flow_stuck(proxy, flow, UPSTREAM_REFUSES, &reply, now_ns);
    } else if (result == REPLY_WHOLE) {
        flow->reply_due = false;
        if (reply.status < 400) {
            login_accepted(proxy, flow->via, /* tunnel= */ false);
        }
    }
}

static void flow_step_connect(struct proxy *proxy, struct flow *flow, uint64_t now_ns)
{
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(flow->upstream, SOL_SOCKET, SO_ERROR, &error, &size) < 0) {
        error = errno;
    }
    if (error) {
        flow_connect_next(proxy, flow, now_ns, error);
    } else if (flow->via && login_is_refused(proxy, flow->via)) { /* to another one, meanwhile */
        flow_stuck(proxy, flow, UPSTREAM_PASSWORD, NULL, now_ns);
    } else if (flow->via && flow->request.tunnel) {
        flow_ask_upstream(proxy, flow, now_ns);
    } else {
        flow_begin_relay(proxy, flow, /* reply_bytes= */ 0, now_ns);
    }
}

/* Forwards a request's body, and not a byte more. */
static bool flow_fill_up(struct flow *flow)
{
    struct pipe *up = &flow->up;
    if (flow->request.tunnel) {
        return pipe_fill(up, flow->client, sizeof up->bytes);
    }
    if (flow->body_left == 0) {
        char more = 0;
        ssize_t size = recv(flow->client, &more, 1, MSG_DONTWAIT | MSG_PEEK);
        return size < 0 && (errno == EAGAIN || errno == EINTR);
    }
    size_t before = up->end - up->start;
    size_t most = flow->body_left < sizeof up->bytes ? (size_t)flow->body_left : sizeof up->bytes;
    bool whole = pipe_fill(up, flow->client, most) && !up->ended;
    flow->body_left -= up->end - up->start - before;
    return whole;
}

static void flow_step_relay(struct proxy *proxy, struct flow *flow, short client, short upstream,
                            uint64_t now_ns)
{
    struct pipe *up = &flow->up;
    struct pipe *down = &flow->down;
    size_t waiting = up->end - up->start + down->end - down->start;
    bool whole = true;
    if (client & (POLLIN | POLLHUP | POLLERR)) {
        whole = flow_fill_up(flow);
    }
    if (upstream & (POLLIN | POLLHUP | POLLERR)) {
        bool filled = pipe_fill(down, flow->upstream,
                                flow->reply_due ? REPLY_HEAD_MOST - down->end : sizeof down->bytes);
        down->ended = down->ended || (flow->reply_due && !filled); /* a reset is an end, too */
        whole = whole && (filled || flow->reply_due);
    }
    size_t came = up->end - up->start + down->end - down->start - waiting;
    if (flow->reply_due) {
        flow_check_reply(proxy, flow, now_ns);
    }
    if (flow->state != FLOW_RELAY) {
        return;
    }
    whole = whole && pipe_drain(up, flow->upstream) &&
            (flow->reply_due || pipe_drain(down, flow->client));
    flow->relayed_bytes += came;
    /* The head of a reply comes as a whole by its deadline, which its bytes do not extend. */
    if ((came && (client || !flow->reply_due)) || client & POLLOUT || upstream & POLLOUT) {
        flow_stay(flow, now_ns);
    }
    if (!whole || (down->reported && (up->reported || !flow->request.tunnel))) {
        flow_close(flow);
    } else if (flow->relayed_bytes > PROXY_FLOW_BYTES) {
        struct egress_event event;
        event_set(&event, EGRESS_REFUSED_LIMIT, &flow->request.target,
                  "was cut off: more than %llu GiB over one connection", PROXY_FLOW_BYTES >> 30);
        proxy_tell(proxy, EGRESS_NOTICE_EVENT, &event);
        flow_close(flow);
    }
}

/* Reads on for a moment: closing with unread bytes would reset the connection and lose the
 * response. */
static void flow_step_refuse(struct flow *flow)
{
    if (!pipe_drain(&flow->down, flow->client)) {
        flow_close(flow);
        return;
    }
    pipe_reset(&flow->up);
    if (!pipe_fill(&flow->up, flow->client, sizeof flow->up.bytes) || flow->up.ended) {
        flow_close(flow);
    }
}

static void flow_late(struct proxy *proxy, struct flow *flow, uint64_t now_ns)
{
    struct egress_event event;
    switch (flow->state) {
    case FLOW_RESOLVE:
        if (flow->via) {
            flow_stuck(proxy, flow, flow->waits ? UPSTREAM_SILENT : UPSTREAM_NO_RESOLVER, NULL,
                       now_ns);
        } else {
            flow_unreachable(proxy, flow, 504, "no name server responds", now_ns);
        }
        break;
    case FLOW_REPLY:
        flow_stuck(proxy, flow, UPSTREAM_SILENT, NULL, now_ns);
        break;
    case FLOW_CONNECT:
        flow_connect_next(proxy, flow, now_ns, ETIMEDOUT);
        break;
    case FLOW_RELAY:
        if (flow->reply_due) {
            flow_stuck(proxy, flow, UPSTREAM_SLOW, NULL, now_ns);
            break;
        }
        event_set(&event, EGRESS_REFUSED_LIMIT, &flow->request.target, "was cut off: %s",
                  now_ns >= flow->end_ns ? "the connection lasted too long"
                                         : "it was idle for too long");
        proxy_tell(proxy, EGRESS_NOTICE_EVENT, &event);
        flow_close(flow);
        break;
    case FLOW_NONE:
    case FLOW_HEAD:
    case FLOW_REFUSE:
    default:
        flow_close(flow);
        break;
    }
}

/* While all slots are taken, an idle connection must give up its slot sooner. */
static uint64_t flow_deadline(const struct flow *flow, bool full)
{
    enum { LESS_MS = PROXY_HEAD_MS - PROXY_HEAD_FULL_MS };
    uint64_t less_ns = full && flow->state == FLOW_HEAD ? LESS_MS * CLOCK_NS_PER_MS : 0;
    uint64_t deadline_ns = flow->deadline_ns - less_ns;
    return deadline_ns < flow->end_ns ? deadline_ns : flow->end_ns;
}

nfds_t flows_poll(struct pollfd *polled, uint64_t *deadline_ns)
{
    bool full = !flows_have_space();
    for (unsigned i = 0; i < PROXY_FLOWS; i++) {
        const struct flow *flow = &flows[i];
        struct pollfd *client = &polled[2 * (size_t)i];
        struct pollfd *upstream = client + 1;
        *client = (struct pollfd){.fd = -1};
        *upstream = (struct pollfd){.fd = -1};
        if (flow->state == FLOW_NONE) {
            continue;
        }
        bool turn = flow->state == FLOW_RESOLVE && flow->waits && !login_is_tried(flow->via);
        uint64_t flow_ns = turn ? 0 : flow_deadline(flow, full);
        *deadline_ns = flow_ns < *deadline_ns ? flow_ns : *deadline_ns;
        if (flow->state == FLOW_HEAD || flow->state == FLOW_REFUSE) {
            bool out = flow->down.start < flow->down.end;
            *client = (struct pollfd){.fd = flow->client,
                                      .events = (short)(POLLIN | (out ? POLLOUT : 0))};
        } else if (flow->state == FLOW_CONNECT || flow->state == FLOW_REPLY) {
            *upstream = (struct pollfd){.fd = flow->upstream,
                                        .events = flow->state == FLOW_REPLY ? POLLIN : POLLOUT};
        } else if (flow->state == FLOW_RELAY) {
            bool in = flow->request.tunnel || flow->body_left == 0 || pipe_has_space(&flow->up);
            in = in && (!flow->request.tunnel || pipe_has_space(&flow->up));
            bool up = flow->up.start < flow->up.end;
            bool down = !flow->reply_due && flow->down.start < flow->down.end;
            short client_events = (short)((in ? POLLIN : 0) | (down ? POLLOUT : 0));
            short upstream_events =
                (short)((pipe_has_space(&flow->down) ? POLLIN : 0) | (up ? POLLOUT : 0));
            *client =
                (struct pollfd){.fd = client_events ? flow->client : -1, .events = client_events};
            *upstream = (struct pollfd){.fd = upstream_events ? flow->upstream : -1,
                                        .events = upstream_events};
        }
    }
    return (nfds_t)2 * PROXY_FLOWS;
}

void flows_step(struct proxy *proxy, const struct pollfd *polled, uint64_t now_ns)
{
    bool full = !flows_have_space();
    for (unsigned i = 0; i < PROXY_FLOWS; i++) {
        struct flow *flow = &flows[i];
        short client = polled[2 * (size_t)i].revents;
        short upstream = polled[2 * (size_t)i + 1].revents;
        if (flow->state == FLOW_RESOLVE) {
            flow_step_resolve(proxy, flow, now_ns);
        } else if (flow->state == FLOW_HEAD && client) {
            flow_step_head(proxy, flow, now_ns);
        } else if (flow->state == FLOW_CONNECT && upstream) {
            flow_step_connect(proxy, flow, now_ns);
        } else if (flow->state == FLOW_REPLY && upstream) {
            flow_step_reply(proxy, flow, now_ns);
        } else if (flow->state == FLOW_RELAY && (client || upstream)) {
            flow_step_relay(proxy, flow, client, upstream, now_ns);
        } else if (flow->state == FLOW_REFUSE && client) {
            flow_step_refuse(flow);
        }
        if (flow->state != FLOW_NONE && now_ns >= flow_deadline(flow, full)) {
            flow_late(proxy, flow, now_ns);
        }
    }
}
