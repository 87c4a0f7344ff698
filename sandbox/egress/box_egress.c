/* A sandbox's egress: init makes the only listening socket of its network, and the egress proxy
 * gets it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/own.h"
#include "sandbox/box/box.h"
#include "sandbox/egress/box_egress.h"
#include "sandbox/egress/egress_proxy.h"

static int box_egress_with(struct box *box, int listen_fd, struct fail *ret_fail)
{
    const struct egress_setup setup = {.policy = box->spec->egress,
                                       .scratch = box->spec->scratch,
                                       .listen_fd = listen_fd,
                                       .on_event = box->egress.on_event,
                                       .arg = box->arg};
    return egress_proxy_start(box->loop, &setup, &box->egress.proxy, ret_fail);
}

static void box_listening(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    struct box *box = arg;
    struct fail fail = {};
    if (reply->error == ECONNRESET) {
        return; /* the sandbox is shutting down */
    }
    int r = reply->error || fds[0] < 0
                ? fail_set(&fail, reply->error, "cannot create a listening socket for --allow-host")
                : box_egress_with(box, take_fd(&fds[0]), &fail);
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
        return box_egress_with(box, take_fd(&box->egress.listen_fd), ret_fail);
    }
    struct wire_request request = {.op = WIRE_LISTEN};
    int r = box_ask(box, &request, box_listening, box);
    return r < 0 ? fail_set(ret_fail, -r, "the sandbox's egress proxy") : 0;
}

void box_egress_end(struct box *box)
{
    egress_proxy_stop(take_ptr(box->egress.proxy));
    drop_fd(&box->egress.listen_fd);
    if (box->egress.path[0]) {
        (void)unlink(box->egress.path);
        box->egress.path[0] = '\0';
    }
}

void box_receive_refusals(struct box *box)
{
    if (box->egress.proxy) {
        egress_proxy_receive(box->egress.proxy);
    }
}

int box_allow_host(struct box *box, const char *word, struct fail *ret_fail)
{
    return box->egress.proxy ? egress_proxy_allow(box->egress.proxy, word, ret_fail)
                             : fail_set(ret_fail, ENOTCONN, "egress proxy unavailable");
}
