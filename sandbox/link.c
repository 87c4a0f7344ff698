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

static void link_answer(struct box *box, const struct wire_reply *reply, int fd)
{
    struct link_request *request = link_take(&box->link, reply->id);
    if (!request) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return;
    }
    link_fn fn = request->fn;
    void *arg = request->arg;
    free(request);
    if (fn) {
        fn(arg, reply, fd);
    } else if (fd >= 0) {
        (void)close(fd);
    }
}

/* One packet. Returns false when there is none. */
static bool link_receive(struct box *box)
{
    struct wire_reply reply = {};
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {};
    struct iovec iov = {.iov_base = &reply, .iov_len = sizeof reply};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t size = recvmsg(box->link.fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (size <= 0) {
        return size < 0 && errno == EINTR; /* its end is noticed at the pidfd */
    }
    int fd = -1;
    const struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
        head->cmsg_len == CMSG_LEN(sizeof(int))) {
        memcpy(&fd, CMSG_DATA(head), sizeof fd);
    }
    if (size != (ssize_t)sizeof reply) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return true;
    }
    switch ((enum wire_event)reply.event) {
    case WIRE_ANSWER:
        link_answer(box, &reply, fd);
        return true;
    case WIRE_EXITED:
        box_process_exited(box, reply.pid, reply.status);
        break;
    case WIRE_MEMORY:
        session_memory_killed(box, reply.pid, reply.memory_bytes);
        break;
    case WIRE_EVENT_COUNT:
    default:
        break;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return true;
}

static void link_on_io(void *arg, uint32_t events)
{
    struct box *box = arg;
    if (events & EPOLLIN) {
        for (int i = 0; i < LINK_PACKETS_A_TURN && box->link.io.loop && link_receive(box); i++) {
        }
        return;
    }
    loop_io_remove(&box->link.io); /* hung up */
}

int link_start(struct box *box, int fd)
{
    box->link.fd = fd;
    return loop_io_add(box->loop, &box->link.io, fd, EPOLLIN, link_on_io, box);
}

void link_end(struct box *box)
{
    loop_io_remove(&box->link.io);
    if (box->link.fd >= 0) {
        (void)close(take_fd(&box->link.fd));
    }
    while (box->link.requests) {
        struct wire_reply reply = {
            .event = WIRE_ANSWER, .id = box->link.requests->id, .error = ECONNRESET};
        link_answer(box, &reply, -1);
    }
}

int link_send(struct box *box, struct wire_request *request, int fd, link_fn fn, void *arg)
{
    if (box->link.fd < 0) {
        return -ECONNRESET;
    }
    struct link_request *waiting = calloc(1, sizeof *waiting);
    if (!waiting) {
        return -ENOMEM;
    }
    request->id = ++box->link.last_id;
    *waiting = (struct link_request){.id = request->id, .fn = fn, .arg = arg};
    struct iovec iov = {.iov_base = request,
                        .iov_len = offsetof(struct wire_request, path) + strlen(request->path) + 1};
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(head), &fd, sizeof fd);
    }
    ssize_t sent = 0;
    do {
        sent = sendmsg(box->link.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0) {
        int code = errno;
        free(waiting);
        log_debug("sandbox", "pid 1 takes no request: %s", strerror(code));
        return -code;
    }
    waiting->next = box->link.requests;
    box->link.requests = waiting;
    return 0;
}

/* --- files --- */

struct file_request {
    box_file_fn fn;
    void *arg;
};

static void file_answered(void *arg, const struct wire_reply *reply, int fd)
{
    struct file_request *request = arg;
    struct box_file file = {.mode = reply->file.mode,
                            .existed = reply->file.existed != 0,
                            .size_bytes = reply->file.size_bytes,
                            .token = reply->token};
    box_file_fn fn = request->fn;
    void *fn_arg = request->arg;
    free(request);
    fn(fn_arg, reply->error, fd, &file);
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
    int r = link_send(box, request, -1, file_answered, waiting);
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

void box_file_abort(struct box *box, uint32_t token)
{
    (void)link_send(box, &(struct wire_request){.op = WIRE_ABORT, .token = token}, -1, NULL, NULL);
}
