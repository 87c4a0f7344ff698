#include "sandbox/egress/egress_try.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/own.h"
#include "sandbox/box/box.h"
#include "sandbox/egress/box_egress.h"
#include "sandbox/egress/upstream.h"

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
