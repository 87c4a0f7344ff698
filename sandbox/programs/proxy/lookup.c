/* Names become addresses here: our own small client, because the C library's resolver opens files and
 * loads plug-ins, and this process can do neither. Names are taken as they are written, without search
 * domains. What the host's own table knows is not asked for. */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "sandbox/egress/broker.h"
#include "sandbox/egress/connect.h"

enum { DNS_PORT = 53, FAMILIES = 2, ROUNDS = 2, LENGTH_BYTES = 2 };

static const uint16_t types[FAMILIES] = {DNS_A, DNS_AAAA};

static void lookup_finish(struct lookup *lookup, enum lookup_state state, uint64_t now_ns)
{
    uint64_t good_ms = BROKER_TTL_LEAST_MS;
    drop_fd(&lookup->fd);
    lookup->state = state;
    if (state == LOOKUP_FOUND) {
        uint64_t ttl_ms = BROKER_TTL_MOST_MS;
        for (unsigned i = 0; i < FAMILIES; i++) {
            const struct dns_answer *family = &lookup->families[i];
            uint64_t family_ms = (uint64_t)family->ttl_s * 1000;
            ttl_ms = family->count && family_ms < ttl_ms ? family_ms : ttl_ms;
        }
        good_ms = ttl_ms > good_ms ? ttl_ms : good_ms;
    }
    lookup->deadline_ns = now_ns + good_ms * CLOCK_NS_PER_MS;
}

static bool lookup_settled(struct lookup *lookup, uint64_t now_ns)
{
    bool found = lookup->families[0].count + lookup->families[1].count > 0;
    if (!lookup->answered[0] || !lookup->answered[1]) {
        return false;
    }
    lookup_finish(lookup, found ? LOOKUP_FOUND : LOOKUP_NO_NAME, now_ns);
    return true;
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

/* Asks a server, both families at once, from a port and with numbers that cannot be guessed. */
static bool lookup_ask(struct broker *broker, unsigned row, bool tcp, uint64_t now_ns)
{
    struct lookup *lookup = &broker->lookups[row];
    const struct egress_resolvers *resolvers = &broker->resolvers;
    const struct egress_address *server =
        &resolvers->servers[lookup->tries % (resolvers->count ? resolvers->count : 1)];
    drop_fd(&lookup->fd);
    lookup->tcp = tcp;
    lookup->deadline_ns = now_ns + BROKER_TRY_MS * CLOCK_NS_PER_MS;
    if (getrandom(lookup->ids, sizeof lookup->ids, 0) != sizeof lookup->ids) {
        return false;
    }
    lookup_write(lookup, broker->policy.rows[row].host);
    lookup->fd = connect_start(server, DNS_PORT, tcp ? SOCK_STREAM : SOCK_DGRAM);
    return lookup->fd >= 0 && (tcp || lookup_send_datagrams(lookup));
}

/* The next server, or the end. A family that was answered is enough when the other one never is. */
static void lookup_next(struct broker *broker, unsigned row, uint64_t now_ns)
{
    struct lookup *lookup = &broker->lookups[row];
    while (++lookup->tries < ROUNDS * broker->resolvers.count && now_ns < lookup->give_up_ns) {
        bool found = lookup->families[0].count + lookup->families[1].count > 0;
        if (found) {
            break;
        }
        if (lookup_ask(broker, row, /* tcp= */ false, now_ns)) {
            return;
        }
    }
    bool found = lookup->families[0].count + lookup->families[1].count > 0;
    lookup_finish(lookup,
                  found             ? LOOKUP_FOUND
                  : lookup->no_name ? LOOKUP_NO_NAME
                                    : LOOKUP_SILENT,
                  now_ns);
    if (lookup->state == LOOKUP_SILENT) {
        broker_ask_resolvers(broker);
    }
}

static void lookup_know(struct lookup *lookup, const struct egress_address *addresses, size_t count,
                        uint64_t now_ns)
{
    lookup->families[0].count = count;
    lookup->families[0].ttl_s = UINT32_MAX;
    memcpy(lookup->families[0].addresses, addresses, count * sizeof *addresses);
    lookup_finish(lookup, LOOKUP_FOUND, now_ns);
}

void lookup_want(struct broker *broker, unsigned row, uint64_t now_ns)
{
    struct lookup *lookup = &broker->lookups[row];
    const struct egress_row *wanted = &broker->policy.rows[row];
    const struct egress_known *known = &broker->known[row];
    if (lookup->state == LOOKUP_ASKING ||
        (lookup->state != LOOKUP_NONE && now_ns < lookup->deadline_ns)) {
        return;
    }
    lookup->state = LOOKUP_ASKING;
    lookup->fd = -1;
    lookup->tries = 0;
    lookup->no_name = false;
    lookup->give_up_ns = now_ns + BROKER_RESOLVE_MS * CLOCK_NS_PER_MS;
    for (unsigned i = 0; i < FAMILIES; i++) {
        lookup->answered[i] = false;
        lookup->families[i].count = 0;
    }
    if (wanted->literal) {
        lookup_know(lookup, &wanted->address, 1, now_ns);
    } else if (known->count) {
        lookup_know(lookup, known->addresses, known->count, now_ns);
    } else if (!broker->resolvers.count || !lookup_ask(broker, row, /* tcp= */ false, now_ns)) {
        lookup_next(broker, row, now_ns);
    }
}

void lookup_poll(const struct lookup *lookup, struct pollfd *ret_polled)
{
    bool asking = lookup->state == LOOKUP_ASKING;
    bool sending = asking && lookup->tcp && lookup->out_sent < lookup->out_size;
    *ret_polled =
        (struct pollfd){.fd = asking ? lookup->fd : -1, .events = sending ? POLLOUT : POLLIN};
}

/* Returns false when this server is of no use. */
static bool lookup_take(struct broker *broker, unsigned row, const uint8_t *bytes, size_t size,
                        bool *ret_truncated)
{
    struct lookup *lookup = &broker->lookups[row];
    const char *name = broker->policy.rows[row].host;
    for (unsigned i = 0; i < FAMILIES; i++) {
        if (lookup->answered[i]) {
            continue;
        }
        enum dns_result result =
            dns_read_answer(bytes, size, name, types[i], lookup->ids[i], &lookup->families[i]);
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

/* Over TCP: the whole messages that have come. False: the server ended, or says too much. */
static bool lookup_read_stream(struct broker *broker, unsigned row)
{
    struct lookup *lookup = &broker->lookups[row];
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
        if (!lookup_take(broker, row, lookup->in + LENGTH_BYTES, message, &truncated) ||
            truncated) {
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

static bool lookup_read_datagram(struct broker *broker, unsigned row, uint64_t now_ns)
{
    struct lookup *lookup = &broker->lookups[row];
    bool truncated = false;
    ssize_t size = recv(lookup->fd, lookup->in, sizeof lookup->in, MSG_DONTWAIT);
    if (size < 0) {
        return errno == EAGAIN || errno == EINTR;
    }
    if (!lookup_take(broker, row, lookup->in, (size_t)size, &truncated)) {
        return false;
    }
    return !truncated || lookup_ask(broker, row, /* tcp= */ true, now_ns);
}

void lookup_step(struct broker *broker, unsigned row, short revents, uint64_t now_ns)
{
    struct lookup *lookup = &broker->lookups[row];
    bool useful = true;
    if (lookup->state != LOOKUP_ASKING) {
        return;
    }
    if (revents && lookup->tcp) {
        useful = lookup->out_sent < lookup->out_size ? lookup_write_stream(lookup)
                                                     : lookup_read_stream(broker, row);
    } else if (revents) {
        useful = lookup_read_datagram(broker, row, now_ns);
    }
    if (!lookup_settled(lookup, now_ns) && (!useful || now_ns >= lookup->deadline_ns)) {
        lookup_next(broker, row, now_ns);
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
