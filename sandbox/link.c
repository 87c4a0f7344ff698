#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/own.h"
#include "sandbox/box.h"
#include "sandbox/wire/packet.h"

enum { LINK_PACKETS_A_TURN = 16 };

static struct link_request *link_take(struct link *link, uint32_t id)
{
    for (struct link_request **at = &link->requests; *at; at = &(*at)->next) {
        if ((*at)->id == id) {
            struct link_request *request = *at;
            *at = request->next;
            return request;
        }
    }
    return NULL;
}

static void link_answer(struct link *link, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    struct link_request *request = link_take(link, reply->id);
    if (!request) {
        return;
    }
    link_fn fn = request->fn;
    void *arg = request->arg;
    free(request);
    if (fn) {
        fn(arg, reply, fds);
    }
}

/* One packet. Returns false when there is none. */
static bool link_receive(struct link *link)
{
    struct box *box = link->box;
    struct wire_reply reply = {};
    int fds[WIRE_FDS];
    ssize_t size = packet_receive(link->fd, &reply, sizeof reply, fds, WIRE_FDS);
    if (size <= 0) {
        return size == -EINTR; /* its end is noticed at the pidfd */
    }
    switch (size == (ssize_t)sizeof reply ? (enum wire_event)reply.event : WIRE_EVENT_COUNT) {
    case WIRE_ANSWER:
        link_answer(link, &reply, fds);
        break;
    case WIRE_PAIR_MADE:
        session_pair_made(box, &reply, fds);
        break;
    case WIRE_EXITED:
        box->role->exited(box, reply.pid, reply.status);
        break;
    case WIRE_DISK:
        box->role->disk_killed(box, &reply);
        break;
    case WIRE_MEMORY:
        box->role->memory_killed(box, reply.pid, reply.memory_bytes);
        break;
    case WIRE_EVENT_COUNT:
    default:
        break;
    }
    for (unsigned i = 0; i < WIRE_FDS; i++) {
        own_close(&fds[i]);
    }
    return true;
}

static void link_drop_first(struct link *link)
{
    struct link_packet *packet = link->out;
    link->out = packet->next;
    link->out_end = link->out ? link->out_end : &link->out;
    free(packet);
}

static void link_flush(struct link *link)
{
    while (link->out) {
        ssize_t sent =
            packet_send(link->fd, link->out->bytes, link->out->size, NULL, 0, MSG_DONTWAIT);
        if (sent == -EAGAIN) {
            return;
        }
        link_drop_first(link); /* or nobody is there any more, which is noticed at the pidfd */
    }
    (void)loop_io_set(&link->io, EPOLLIN);
}

static void link_on_io(void *arg, uint32_t events)
{
    struct link *link = arg;
    struct fail fail = {};
    if (events & EPOLLOUT) {
        link_flush(link);
    }
    if (events & EPOLLIN) {
        for (int i = 0; i < LINK_PACKETS_A_TURN && link->io.loop && link_receive(link); i++) {
        }
        return;
    }
    if (!(events & (EPOLLHUP | EPOLLERR))) {
        return;
    }
    loop_io_remove(&link->io);
    if (link == &link->box->lookout) {
        (void)fail_set(&fail, 0, "the process ended that watches the sandbox's memory");
        box_broken(link->box, &fail);
    }
}

int link_start(struct link *link, struct box *box, int fd)
{
    link->box = box;
    link->fd = fd;
    link->out = NULL;
    link->out_end = &link->out;
    return loop_io_add(box->loop, &link->io, fd, EPOLLIN, link_on_io, link);
}

static void link_close(struct link *link)
{
    loop_io_remove(&link->io);
    drop_fd(&link->fd);
    while (link->out) {
        link_drop_first(link);
    }
    while (link->requests) {
        int none[WIRE_FDS] = {-1, -1};
        struct wire_reply reply = {
            .event = WIRE_ANSWER, .id = link->requests->id, .error = ECONNRESET};
        link_answer(link, &reply, none);
    }
}

void link_end(struct box *box)
{
    link_close(&box->link);
    link_close(&box->lookout);
}

static int link_queue(struct link *link, const struct wire_request *request, size_t size)
{
    struct link_packet *packet = malloc(sizeof *packet + size);
    if (!packet) {
        return -ENOMEM;
    }
    *packet = (struct link_packet){.size = size};
    memcpy(packet->bytes, request, size);
    *link->out_end = packet;
    link->out_end = &packet->next;
    return loop_io_set(&link->io, EPOLLIN | EPOLLOUT);
}

/* A request is never dropped: what the socket does not take waits, in order. */
static int link_post(struct link *link, const struct wire_request *request)
{
    size_t size = offsetof(struct wire_request, path) + strlen(request->path) + 1;
    ssize_t sent =
        link->out ? -EAGAIN : packet_send(link->fd, request, size, NULL, 0, MSG_DONTWAIT);
    int r = sent == -EAGAIN ? link_queue(link, request, size) : sent < 0 ? (int)sent : 0;
    if (r < 0) {
        log_debug("sandbox", "cannot send to init: %s", strerror(-r));
    }
    return r;
}

int link_ask_pair(struct box *box)
{
    return link_post(&box->link, &(struct wire_request){.op = WIRE_PAIR});
}

int link_tell_lookout(struct box *box, const struct wire_request *request)
{
    return box->lookout.fd < 0 ? 0 : link_post(&box->lookout, request);
}

/* What needs a /proc is done by who has one. */
static struct link *link_for(struct box *box, uint32_t op)
{
    bool looks = op == WIRE_KILL_TAG || op == WIRE_TRACE;
    return looks && box->lookout.fd >= 0 ? &box->lookout : &box->link;
}

int link_send(struct box *box, struct wire_request *request, link_fn fn, void *arg)
{
    struct link *link = link_for(box, request->op);
    if (link->fd < 0) {
        return -ECONNRESET;
    }
    struct link_request *waiting = calloc(1, sizeof *waiting);
    if (!waiting) {
        return -ENOMEM;
    }
    if (request->op == WIRE_WATCH) {
        (void)link_tell_lookout(box, request); /* without an id: no answer is waited for */
    }
    request->id = ++link->last_id;
    *waiting = (struct link_request){.id = request->id, .fn = fn, .arg = arg};
    int r = link_post(link, request);
    /* Nobody is there any more: that is noticed at the pidfd, with the reason, and the request ends then. */
    if (r < 0 && r != -EPIPE) {
        free(waiting);
        return r;
    }
    waiting->next = link->requests;
    link->requests = waiting;
    return 0;
}

/* --- files --- */

struct file_request {
    box_file_fn fn;
    void *arg;
};

static void file_answered(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    struct file_request *request = arg;
    struct box_file file = {.mode = reply->file.mode,
                            .existed = reply->file.existed != 0,
                            .size_bytes = reply->file.size_bytes,
                            .token = reply->token};
    box_file_fn fn = request->fn;
    void *fn_arg = request->arg;
    free(request);
    fn(fn_arg, reply->error, take_fd(&fds[0]), &file);
}

static int file_send(struct box *box, struct wire_request *request, const char *path,
                     box_file_fn fn, void *arg)
{
    if (strlen(path) >= sizeof request->path) {
        return -ENAMETOOLONG;
    }
    memcpy(request->path, path, strlen(path) + 1);
    struct file_request *waiting = calloc(1, sizeof *waiting);
    if (!waiting) {
        return -ENOMEM;
    }
    *waiting = (struct file_request){.fn = fn, .arg = arg};
    int r = link_send(box, request, file_answered, waiting);
    if (r < 0) {
        free(waiting);
    }
    return r;
}

int box_file_open(struct box *box, const char *path, box_file_fn fn, void *arg)
{
    return file_send(box, &(struct wire_request){.op = WIRE_OPEN_READ}, path, fn, arg);
}

int box_file_write(struct box *box, const char *path, enum box_write_mode mode, box_file_fn fn,
                   void *arg)
{
    static const enum wire_write_mode modes[] = {
        [BOX_WRITE_OVERWRITE] = WIRE_WRITE_OVERWRITE,
        [BOX_WRITE_CREATE] = WIRE_WRITE_CREATE,
        [BOX_WRITE_APPEND] = WIRE_WRITE_APPEND,
    };
    return file_send(box, &(struct wire_request){.op = WIRE_OPEN_WRITE, .mode = modes[mode]}, path,
                     fn, arg);
}

int box_file_commit(struct box *box, uint32_t token, box_file_fn fn, void *arg)
{
    return file_send(box, &(struct wire_request){.op = WIRE_COMMIT, .token = token}, "", fn, arg);
}

int box_output_make(struct box *box, const char *name, box_file_fn fn, void *arg)
{
    return file_send(box, &(struct wire_request){.op = WIRE_MAKE_OUTPUT}, name, fn, arg);
}

void box_output_remove(struct box *box, const char *name)
{
    struct wire_request request = {.op = WIRE_REMOVE_OUTPUT};
    (void)strncat(request.path, name, sizeof request.path - 1);
    (void)link_send(box, &request, NULL, NULL);
}

void box_file_abort(struct box *box, uint32_t token)
{
    (void)link_send(box, &(struct wire_request){.op = WIRE_ABORT, .token = token}, NULL, NULL);
}
