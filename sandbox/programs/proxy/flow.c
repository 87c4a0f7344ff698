/* One connection from the box, on its way through these states:
 *
 *   HEAD     the request is read; the policy judges its target
 *   RESOLVE  its name is looked up; all addresses are judged, and those are the ones to connect to
 *   CONNECT  one after the other, until one answers
 *   RELAY    bytes go both ways: of a tunnel all, of a request its head as we wrote it and its body
 *   REFUSE   the answer that says why, then the end
 *
 * Each state has a deadline; the peer can make none of them longer. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "sandbox/egress/broker.h"
#include "sandbox/egress/connect.h"

enum flow_state { FLOW_NONE, FLOW_HEAD, FLOW_RESOLVE, FLOW_CONNECT, FLOW_RELAY, FLOW_REFUSE };

enum { SOCKET_BUFFER_BYTES = 262144, WINDOW_BYTES = 1048576, ACCEPTED_A_TURN = 128 };

struct pipe {
    size_t start;
    size_t end;
    bool ended; /* its source has no more */
    bool told;  /* and its sink knows */
    char bytes[BROKER_PIPE_BYTES];
};

struct flow {
    struct pipe up; /* from the client */
    struct pipe down;
    struct request request;
    uint64_t deadline_ns; /* of the state, or of silence */
    uint64_t end_ns;
    uint64_t relayed_bytes;
    uint64_t body_left; /* of a request: what the client may still send */
    enum flow_state state;
    int client;
    int upstream;
    unsigned row;
    unsigned candidate_count;
    unsigned candidate; /* the next one */
    struct egress_address candidates[BROKER_CANDIDATES];
};

static struct flow flows[BROKER_FLOWS];

static void pipe_reset(struct pipe *pipe)
{
    pipe->start = 0;
    pipe->end = 0;
    pipe->ended = false;
    pipe->told = false;
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

static const char *status_name(unsigned status)
{
    return status == 403   ? "Forbidden"
           : status == 502 ? "Bad Gateway"
           : status == 504 ? "Gateway Timeout"
                           : "Bad Request";
}

/* RFC 9209 2.3: what went wrong, for programs. */
static const char *const errors[EGRESS_EVENT_COUNT] = {
    [EGRESS_REFUSED_HOST] = "http_request_denied",
    [EGRESS_REFUSED_ADDRESS] = "destination_ip_prohibited",
    [EGRESS_REFUSED_REQUEST] = "http_request_error",
    [EGRESS_REFUSED_LIMIT] = "connection_limit_reached",
    [EGRESS_UNREACHABLE] = "destination_unavailable",
};

/* The sentence stands in the reason phrase too: that is what programs show of a tunnel that was
 * refused. */
static void flow_refuse(struct broker *broker, struct flow *flow, unsigned status,
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
    flow_enter(flow, FLOW_REFUSE, now_ns, BROKER_LINGER_MS);
    broker_tell(broker, event);
}

static void flow_unreachable(struct broker *broker, struct flow *flow, unsigned status,
                             const char *why, uint64_t now_ns)
{
    struct egress_event event;
    event_set(&event, EGRESS_UNREACHABLE, &flow->request.target, "cannot be reached: %s", why);
    flow_refuse(broker, flow, status, &event, now_ns);
}

bool flows_have_room(void)
{
    for (unsigned i = 0; i < BROKER_FLOWS; i++) {
        if (flows[i].state == FLOW_NONE) {
            return true;
        }
    }
    return false;
}

/* What a peer that does not read can make the kernel keep. */
static void bound_buffers(int fd)
{
    int bytes = SOCKET_BUFFER_BYTES;
    int window = WINDOW_BYTES;
    int on = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, &window, sizeof window);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void flows_accept(struct broker *broker, uint64_t now_ns)
{
    unsigned accepted = 0;
    for (unsigned i = 0; i < BROKER_FLOWS && accepted < ACCEPTED_A_TURN; i++) {
        struct flow *flow = &flows[i];
        if (flow->state != FLOW_NONE) {
            continue;
        }
        int fd = accept4(broker->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            return;
        }
        accepted++;
        bound_buffers(fd);
        flow->client = fd;
        flow->upstream = -1;
        flow->end_ns = now_ns + (uint64_t)BROKER_LIFE_MS * CLOCK_NS_PER_MS;
        flow->relayed_bytes = 0;
        pipe_reset(&flow->up);
        pipe_reset(&flow->down);
        flow_enter(flow, FLOW_HEAD, now_ns, BROKER_HEAD_MS);
    }
}

/* Reads what there is room for. False: the connection is broken. */
static bool pipe_fill(struct pipe *pipe, int fd, size_t most)
{
    if (pipe->start == pipe->end) {
        pipe->start = 0;
        pipe->end = 0;
    }
    size_t room = sizeof pipe->bytes - pipe->end;
    room = room < most ? room : most;
    if (room == 0 || pipe->ended) {
        return true;
    }
    ssize_t size = recv(fd, pipe->bytes + pipe->end, room, MSG_DONTWAIT);
    if (size < 0) {
        return errno == EAGAIN || errno == EINTR;
    }
    pipe->end += (size_t)size;
    pipe->ended = size == 0;
    return true;
}

/* Writes what the sink takes, and then that there is no more. False: the connection is broken. */
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
    if (pipe->ended && !pipe->told && pipe->start == pipe->end) {
        pipe->told = true;
        (void)shutdown(fd, SHUT_WR);
    }
    return true;
}

static bool pipe_has_room(const struct pipe *pipe)
{
    return !pipe->ended && (pipe->end < sizeof pipe->bytes || pipe->start == pipe->end);
}

static void flow_start_relay(struct flow *flow, uint64_t now_ns)
{
    static const char established[] = "HTTP/1.1 200 Connection established\r\n\r\n";
    static char head[BROKER_PIPE_BYTES];
    struct pipe *up = &flow->up;
    const struct request *request = &flow->request;
    bound_buffers(flow->upstream);
    flow_enter(flow, FLOW_RELAY, now_ns, BROKER_IDLE_MS);
    if (request->tunnel) {
        memcpy(flow->down.bytes, established, sizeof established - 1);
        flow->down.end = sizeof established - 1;
        up->start = request->head_bytes; /* what came behind it is for the other end */
        return;
    }
    size_t size = request_write_head(request, up->bytes, head, sizeof head);
    size_t early = up->end - request->head_bytes;
    if (size == 0 || early > request->body_bytes || size + early > sizeof up->bytes) {
        flow_close(flow); /* a second request behind the first: never read */
        return;
    }
    memmove(up->bytes + size, up->bytes + request->head_bytes, early);
    memcpy(up->bytes, head, size);
    up->start = 0;
    up->end = size + early;
    flow->body_left = request->body_bytes - early;
}

static void flow_connect_next(struct broker *broker, struct flow *flow, uint64_t now_ns, int error)
{
    while (flow->candidate < flow->candidate_count) {
        int fd = connect_start(&flow->candidates[flow->candidate++], flow->request.target.port,
                               SOCK_STREAM);
        drop_fd(&flow->upstream);
        if (fd >= 0) {
            flow->upstream = fd;
            flow_enter(flow, FLOW_CONNECT, now_ns, BROKER_CONNECT_MS);
            return;
        }
        error = -fd;
    }
    flow_unreachable(broker, flow, error == ETIMEDOUT ? 504 : 502,
                     error == ETIMEDOUT      ? "nobody answers in time"
                     : error == ECONNREFUSED ? "the connection is refused"
                                             : "no route leads there",
                     now_ns);
}

static void flow_take_addresses(struct broker *broker, struct flow *flow, uint64_t now_ns)
{
    static struct egress_address addresses[2 * DNS_ADDRESSES];
    struct egress_event event;
    size_t count = lookup_addresses(&broker->lookups[flow->row], addresses);
    if (!policy_allows_addresses(&broker->policy, &flow->request.target, addresses, count,
                                 &event)) {
        flow_refuse(broker, flow, 403, &event, now_ns);
        return;
    }
    flow->candidate = 0;
    flow->candidate_count = count < BROKER_CANDIDATES ? (unsigned)count : BROKER_CANDIDATES;
    memcpy(flow->candidates, addresses, flow->candidate_count * sizeof *addresses);
    flow_connect_next(broker, flow, now_ns, ENETUNREACH);
}

static void flow_step_resolve(struct broker *broker, struct flow *flow, uint64_t now_ns)
{
    switch (broker->lookups[flow->row].state) {
    case LOOKUP_FOUND:
        flow_take_addresses(broker, flow, now_ns);
        break;
    case LOOKUP_NO_NAME:
        flow_unreachable(broker, flow, 502, "there is no such name", now_ns);
        break;
    case LOOKUP_SILENT:
        flow_unreachable(broker, flow, 504, "no name server answers", now_ns);
        break;
    case LOOKUP_NONE:
    case LOOKUP_ASKING:
    default:
        break;
    }
}

static void flow_step_head(struct broker *broker, struct flow *flow, uint64_t now_ns)
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
                  "the proxy does not take this: %s", why);
        flow_refuse(broker, flow, status, &event, now_ns);
        return;
    }
    int row = policy_find(&broker->policy, &flow->request.target, &event);
    if (row < 0) {
        flow_refuse(broker, flow, 403, &event, now_ns);
        return;
    }
    flow->row = (unsigned)row;
    flow_enter(flow, FLOW_RESOLVE, now_ns, 2ULL * BROKER_RESOLVE_MS);
    lookup_want(broker, flow->row, now_ns);
    flow_step_resolve(broker, flow, now_ns);
}

static void flow_step_connect(struct broker *broker, struct flow *flow, uint64_t now_ns)
{
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(flow->upstream, SOL_SOCKET, SO_ERROR, &error, &size) < 0) {
        error = errno;
    }
    if (error) {
        flow_connect_next(broker, flow, now_ns, error);
    } else {
        flow_start_relay(flow, now_ns);
    }
}

/* A request's body goes up and not a byte more. */
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

static void flow_step_relay(struct broker *broker, struct flow *flow, short client, short upstream,
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
        whole = whole && pipe_fill(down, flow->upstream, sizeof down->bytes);
    }
    size_t came = up->end - up->start + down->end - down->start - waiting;
    whole = whole && pipe_drain(up, flow->upstream) && pipe_drain(down, flow->client);
    flow->relayed_bytes += came;
    if (came || client & POLLOUT || upstream & POLLOUT) {
        flow->deadline_ns = now_ns + BROKER_IDLE_MS * CLOCK_NS_PER_MS;
    }
    if (!whole || (down->told && (up->told || !flow->request.tunnel))) {
        flow_close(flow);
    } else if (flow->relayed_bytes > BROKER_FLOW_BYTES) {
        struct egress_event event;
        event_set(&event, EGRESS_REFUSED_LIMIT, &flow->request.target,
                  "was cut off: more than %llu GiB over one connection", BROKER_FLOW_BYTES >> 30);
        broker_tell(broker, &event);
        flow_close(flow);
    }
}

/* Reads on for a moment: closing with bytes unread would reset the connection, and the answer with
 * it. */
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

static void flow_late(struct broker *broker, struct flow *flow, uint64_t now_ns)
{
    struct egress_event event;
    switch (flow->state) {
    case FLOW_RESOLVE:
        flow_unreachable(broker, flow, 504, "no name server answers", now_ns);
        break;
    case FLOW_CONNECT:
        flow_connect_next(broker, flow, now_ns, ETIMEDOUT);
        break;
    case FLOW_RELAY:
        event_set(&event, EGRESS_REFUSED_LIMIT, &flow->request.target, "was cut off: %s",
                  now_ns >= flow->end_ns ? "the connection lasted too long" : "nothing moved");
        broker_tell(broker, &event);
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

/* Where all places are taken, a connection that asks for nothing leaves its own sooner. */
static uint64_t flow_deadline(const struct flow *flow, bool full)
{
    enum { LESS_MS = BROKER_HEAD_MS - BROKER_HEAD_FULL_MS };
    uint64_t less_ns = full && flow->state == FLOW_HEAD ? LESS_MS * CLOCK_NS_PER_MS : 0;
    uint64_t deadline_ns = flow->deadline_ns - less_ns;
    return deadline_ns < flow->end_ns ? deadline_ns : flow->end_ns;
}

nfds_t flows_poll(struct pollfd *polled, uint64_t *deadline_ns)
{
    bool full = !flows_have_room();
    for (unsigned i = 0; i < BROKER_FLOWS; i++) {
        const struct flow *flow = &flows[i];
        struct pollfd *client = &polled[2 * (size_t)i];
        struct pollfd *upstream = client + 1;
        *client = (struct pollfd){.fd = -1};
        *upstream = (struct pollfd){.fd = -1};
        if (flow->state == FLOW_NONE) {
            continue;
        }
        uint64_t flow_ns = flow_deadline(flow, full);
        *deadline_ns = flow_ns < *deadline_ns ? flow_ns : *deadline_ns;
        if (flow->state == FLOW_HEAD || flow->state == FLOW_REFUSE) {
            bool out = flow->down.start < flow->down.end;
            *client = (struct pollfd){.fd = flow->client,
                                      .events = (short)(POLLIN | (out ? POLLOUT : 0))};
        } else if (flow->state == FLOW_CONNECT) {
            *upstream = (struct pollfd){.fd = flow->upstream, .events = POLLOUT};
        } else if (flow->state == FLOW_RELAY) {
            bool in = flow->request.tunnel || flow->body_left == 0 || pipe_has_room(&flow->up);
            in = in && (!flow->request.tunnel || pipe_has_room(&flow->up));
            bool up = flow->up.start < flow->up.end;
            bool down = flow->down.start < flow->down.end;
            short client_events = (short)((in ? POLLIN : 0) | (down ? POLLOUT : 0));
            short upstream_events =
                (short)((pipe_has_room(&flow->down) ? POLLIN : 0) | (up ? POLLOUT : 0));
            *client =
                (struct pollfd){.fd = client_events ? flow->client : -1, .events = client_events};
            *upstream = (struct pollfd){.fd = upstream_events ? flow->upstream : -1,
                                        .events = upstream_events};
        }
    }
    return (nfds_t)2 * BROKER_FLOWS;
}

void flows_step(struct broker *broker, const struct pollfd *polled, uint64_t now_ns)
{
    bool full = !flows_have_room();
    for (unsigned i = 0; i < BROKER_FLOWS; i++) {
        struct flow *flow = &flows[i];
        short client = polled[2 * (size_t)i].revents;
        short upstream = polled[2 * (size_t)i + 1].revents;
        if (flow->state == FLOW_RESOLVE) {
            flow_step_resolve(broker, flow, now_ns);
        } else if (flow->state == FLOW_HEAD && client) {
            flow_step_head(broker, flow, now_ns);
        } else if (flow->state == FLOW_CONNECT && upstream) {
            flow_step_connect(broker, flow, now_ns);
        } else if (flow->state == FLOW_RELAY && (client || upstream)) {
            flow_step_relay(broker, flow, client, upstream, now_ns);
        } else if (flow->state == FLOW_REFUSE && client) {
            flow_step_refuse(flow);
        }
        if (flow->state != FLOW_NONE && now_ns >= flow_deadline(flow, full)) {
            flow_late(broker, flow, now_ns);
        }
    }
}
