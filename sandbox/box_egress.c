/* A box's way out: pid 1 makes the one listening socket of its network, the broker gets it. */
#include <errno.h>
#include <string.h>

#include "base/own.h"
#include "sandbox/box.h"
#include "sandbox/broker.h"

static void box_on_egress(void *arg, const struct egress_event *event)
{
    struct box *box = arg;
    if (box->on_egress) {
        box->on_egress(box->arg, event);
    }
}

static void box_listening(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    struct box *box = arg;
    const struct egress_owner owner = {box_on_egress, box};
    struct fail fail = {};
    if (reply->error == ECONNRESET) {
        return; /* the box ends */
    }
    int r = reply->error || fds[0] < 0
                ? fail_set(&fail, reply->error, "a listening socket for --allow-host")
                : egress_start(box->loop, box->spec->egress, take_fd(&fds[0]), &owner, &box->egress,
                               &fail);
    if (r < 0) {
        box_broken(box, &fail);
    }
}

int box_egress_start(struct box *box, struct fail *ret_fail)
{
    if (!box->spec->egress) {
        return 0;
    }
    struct wire_request request = {.op = WIRE_LISTEN};
    int r = link_send(box, &request, box_listening, box);
    return r < 0 ? fail_set(ret_fail, -r, "the box's way out") : 0;
}

void box_egress_end(struct box *box)
{
    egress_stop(take_ptr(box->egress));
}

void box_hear_refusals(struct box *box)
{
    if (box->egress) {
        egress_hear(box->egress);
    }
}

int box_allow_host(struct box *box, const char *word, struct fail *ret_fail)
{
    return box->egress ? egress_allow(box->egress, word, ret_fail)
                       : fail_set(ret_fail, ENOTCONN, "the sandbox has no way out");
}
