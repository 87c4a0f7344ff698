#include "sandbox/box/box.h"

void box_broken(struct box *box, const struct fail *why)
{
    box->handlers->broken(box, why);
}

static void box_on_event(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    struct box *box = arg;
    switch ((enum wire_event)reply->event) {
    case WIRE_PAIR_MADE:
        if (box->role->pair_made) {
            box->role->pair_made(box, reply, fds);
        }
        break;
    case WIRE_EXITED:
        box->role->exited(box, reply->pid, reply->status);
        break;
    case WIRE_DISK:
        box->role->disk_killed(box, reply);
        break;
    case WIRE_MEMORY:
        box->role->memory_killed(box, reply->pid, reply->memory_bytes);
        break;
    case WIRE_RESPONSE:
    case WIRE_EVENT_COUNT:
    default:
        break;
    }
}

static void box_on_monitor_end(void *arg)
{
    struct fail fail = {};
    (void)fail_set(&fail, 0, "process monitor exited");
    box_broken(arg, &fail);
}

void box_init_prepare(struct box *box)
{
    /* The pidfd reports that init has exited, with the reason. */
    box->init = (struct init_client){.fd = -1, .on_event = box_on_event, .arg = box};
    box->monitor = (struct init_client){
        .fd = -1, .on_event = box_on_event, .on_end = box_on_monitor_end, .arg = box};
}

int box_ask(struct box *box, struct wire_request *request, init_client_fn fn, void *arg)
{
    /* A request that needs a /proc goes to the program that has one. */
    bool needs_proc = request->op == WIRE_KILL_TAG || request->op == WIRE_TRACE;
    if (request->op == WIRE_WATCH && box->init.fd >= 0) {
        (void)box_tell_monitor(box, request); /* no id: no response is expected */
    }
    return init_client_send(needs_proc && box->monitor.fd >= 0 ? &box->monitor : &box->init,
                            request, fn, arg);
}

void box_forget(struct box *box, const void *arg)
{
    init_client_forget(&box->init, arg);
    init_client_forget(&box->monitor, arg);
}

int box_ask_pair(struct box *box)
{
    return init_client_post(&box->init, &(struct wire_request){.op = WIRE_PAIR});
}

int box_tell_monitor(struct box *box, const struct wire_request *request)
{
    return box->monitor.fd < 0 ? 0 : init_client_post(&box->monitor, request);
}

void box_init_close(struct box *box)
{
    init_client_close(&box->init);
    init_client_close(&box->monitor);
}
