#include "sandbox/protocol/init_client.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/list.h"
#include "base/log.h"
#include "base/own.h"
#include "sandbox/protocol/packet.h"

enum { INIT_CLIENT_PACKETS_A_TURN = 16 };

struct init_client_request {
    struct init_client_request *next;
    uint32_t id;
    init_client_fn fn;
    void *arg;
};

struct init_client_packet {
    struct init_client_packet *next;
    size_t size;
    char bytes[];
};

static void init_client_deliver(struct init_client *client, const struct wire_reply *reply,
                                int fds[WIRE_FDS])
{
    struct init_client_request *request = list_find(client->requests, at, at->id == reply->id);
    if (!request) {
        return;
    }
    list_remove(&client->requests, request);
    init_client_fn fn = request->fn;
    void *arg = request->arg;
    free(request);
    if (fn) {
        fn(arg, reply, fds);
    }
}

/* Receives one packet. Returns false when there is none; *ret_ended: and none will come. */
static bool init_client_receive(struct init_client *client, bool *ret_ended)
{
    struct wire_reply reply = {};
    int fds[WIRE_FDS];
    ssize_t size = packet_receive(client->fd, &reply, sizeof reply, fds, WIRE_FDS);
    *ret_ended = size == 0 || size == -ECONNRESET;
    if (size <= 0) {
        return size == -EINTR; /* the pidfd reports init's exit */
    }
    reply.path[sizeof reply.path - 1] = '\0';
    bool whole = size > (ssize_t)offsetof(struct wire_reply, path);
    if (whole && reply.event == WIRE_RESPONSE) {
        init_client_deliver(client, &reply, fds);
    } else if (whole) {
        client->on_event(client->arg, &reply, fds);
    }
    for (unsigned i = 0; i < WIRE_FDS; i++) {
        own_close(&fds[i]);
    }
    return true;
}

static void init_client_drop_first(struct init_client *client)
{
    struct init_client_packet *packet = client->out;
    client->out = packet->next;
    client->out_end = client->out ? client->out_end : &client->out;
    free(packet);
}

static void init_client_flush(void *arg)
{
    struct init_client *client = arg;
    while (client->out) {
        ssize_t sent =
            packet_send(client->fd, client->out->bytes, client->out->size, NULL, 0, MSG_DONTWAIT);
        if (sent == -EAGAIN) {
            /* Out of memory, epoll tells nothing: the next request tries again. */
            (void)loop_io_set(&client->io, EPOLLIN | EPOLLOUT);
            return;
        }
        init_client_drop_first(client); /* or init is gone, which the pidfd reports */
    }
    (void)loop_io_set(&client->io, EPOLLIN);
}

static void init_client_on_io(void *arg, uint32_t events)
{
    struct init_client *client = arg;
    if (events & EPOLLOUT) {
        init_client_flush(client);
    }
    bool ended = !(events & EPOLLIN) && events & (EPOLLHUP | EPOLLERR);
    if (events & EPOLLIN) {
        for (int i = 0; i < INIT_CLIENT_PACKETS_A_TURN && client->io.loop &&
                        init_client_receive(client, &ended);
             i++) {
        }
    }
    if (!ended || !client->io.loop) {
        return;
    }
    loop_io_remove(&client->io);
    loop_task_cancel(&client->task);
    if (client->on_end) {
        client->on_end(client->arg);
    }
}

int init_client_start(struct init_client *client, struct loop *loop, int fd)
{
    client->fd = fd;
    client->out = NULL;
    client->out_end = &client->out;
    return loop_io_add(loop, &client->io, fd, EPOLLIN, init_client_on_io, client);
}

void init_client_close(struct init_client *client)
{
    loop_io_remove(&client->io);
    loop_task_cancel(&client->task);
    drop_fd(&client->fd);
    while (client->out) {
        init_client_drop_first(client);
    }
    while (client->requests) {
        int none[WIRE_FDS] = {-1, -1, -1};
        struct wire_reply reply = {
            .event = WIRE_RESPONSE, .id = client->requests->id, .error = ECONNRESET};
        init_client_deliver(client, &reply, none);
    }
}

void init_client_forget(struct init_client *client, const void *arg)
{
    for (struct init_client_request *request = client->requests; request; request = request->next) {
        request->fn = request->arg == arg ? NULL : request->fn;
    }
}

/* Never drops a request: what the socket does not take waits, in order. */
int init_client_post(struct init_client *client, const struct wire_request *request)
{
    size_t size = offsetof(struct wire_request, path) + strlen(request->path) + 1;
    if (!client->io.loop) {
        return -EPIPE;
    }
    struct init_client_packet *packet = malloc(sizeof *packet + size);
    if (!packet) {
        log_debug("sandbox", "no memory to send to init");
        return -ENOMEM;
    }
    *packet = (struct init_client_packet){.size = size};
    memcpy(packet->bytes, request, size);
    *client->out_end = packet;
    client->out_end = &packet->next;
    loop_task_queue(client->io.loop, &client->task, init_client_flush, client);
    return 0;
}

int init_client_send(struct init_client *client, struct wire_request *request, init_client_fn fn,
                     void *arg)
{
    if (client->fd < 0) {
        return -ECONNRESET;
    }
    struct init_client_request *waiting = calloc(1, sizeof *waiting);
    if (!waiting) {
        return -ENOMEM;
    }
    request->id = ++client->last_id;
    *waiting = (struct init_client_request){.id = request->id, .fn = fn, .arg = arg};
    int r = init_client_post(client, request);
    /* If init is gone, the pidfd reports that with the reason, and ends the request. */
    if (r < 0 && r != -EPIPE) {
        free(waiting);
        return r;
    }
    waiting->next = client->requests;
    client->requests = waiting;
    return 0;
}
