#include "tools/order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/own.h"
#include "rpc/call.h"
#include "rpc/code.h"
#include "tools/files/content.h"
#include "tools/tool.h"

struct ordered_call {
    struct tool_work work; /* while it is held */
    struct ordered_call *next;
    struct orders *orders;
    struct rpc_call *call;
    enum order_kind kind;
    json_t *arguments;
    const char *session; /* of ORDER_RUN */
    order_fn begin;
    uint64_t begun_ns; /* 0: it is held */
    unsigned cell;
    char waited_for[32]; /* the last call that was in the way; empty: none */
};

void orders_init(struct orders *orders, struct tools *tools)
{
    *orders = (struct orders){.tools = tools};
}

static bool is_run(const struct ordered_call *call)
{
    return call->kind == ORDER_RUN || call->kind == ORDER_FRESH_RUN;
}

/* Whether file calls are ordered with it. */
static bool concerns_files(const struct ordered_call *call)
{
    return call->kind == ORDER_RUN ? strcmp(call->session, SESSION_DEFAULT) == 0
                                   : call->kind != ORDER_INSTALL;
}

static bool is_overtaken(const struct ordered_call *earlier, const struct ordered_call *later)
{
    uint64_t at_ns = later->kind == ORDER_READ ? clock_now_ns() : rpc_call_since_ns(later->call);
    return earlier->begun_ns && at_ns >= earlier->begun_ns + LIMIT_OVERTAKEN_MS * CLOCK_NS_PER_MS;
}

/* Whether the later call could notice that the earlier one takes effect after it, or the earlier
 * one that the later one takes effect before it. */
static bool is_in_the_way(const struct ordered_call *earlier, const struct ordered_call *later)
{
    switch (later->kind) {
    case ORDER_READ:
    case ORDER_WRITE:
        if (is_run(earlier)) {
            return concerns_files(earlier) && !is_overtaken(earlier, later);
        }
        return earlier->kind == ORDER_WRITE ||
               (earlier->kind == ORDER_READ && later->kind == ORDER_WRITE);
    case ORDER_RUN:
    case ORDER_FRESH_RUN:
        if (is_run(earlier)) {
            return earlier->session && later->session &&
                   strcmp(earlier->session, later->session) == 0;
        }
        if (earlier->kind == ORDER_INSTALL) {
            return !is_overtaken(earlier, later);
        }
        return earlier->kind == ORDER_WRITE || concerns_files(later);
    case ORDER_INSTALL:
        return is_run(earlier) && !earlier->begun_ns;
    case ORDER_KIND_COUNT:
    default:
        return false;
    }
}

static bool may_begin(const struct ordered_call *call)
{
    const struct ordered_call *earlier = call->orders->list;
    while (earlier != call && !is_in_the_way(earlier, call)) {
        earlier = earlier->next;
    }
    return earlier == call;
}

static bool has_overtaken(const struct ordered_call *read)
{
    const struct ordered_call *earlier = read->orders->list;
    while (earlier != read && !(is_run(earlier) && concerns_files(earlier))) {
        earlier = earlier->next;
    }
    return earlier != read;
}

static void order_begin(struct ordered_call *call)
{
    json_auto_t *arguments = json_incref(call->arguments);
    call->begun_ns = clock_now_ns();
    if (call->kind == ORDER_READ && has_overtaken(call)) {
        rpc_call_set_note(call->call, "[read while an earlier run_python call was still running]");
    } else if (!is_run(call)) { /* which says it in its status line */
        char waited[64];
        char note[RPC_NOTE_BYTES];
        orders_waited(call->orders, call->call, waited, sizeof waited);
        (void)snprintf(note, sizeof note, waited[0] ? "[%s]" : "%s", waited);
        rpc_call_set_note(call->call, note);
    }
    call->begin(call->orders->tools, call->call, arguments); /* may end the call, and free this */
}

/* The client has cancelled a call that is held. */
static void order_withdraw(struct tool_work *work)
{
    struct ordered_call *call = (struct ordered_call *)work;
    rpc_call_fail(call->call, RPC_INTERNAL_ERROR, "the call did not start");
}

static void orders_continue(void *arg)
{
    struct orders *orders = arg;
    struct ordered_call *call = orders->list;
    while (call) {
        if (call->begun_ns || !may_begin(call)) {
            call = call->next;
            continue;
        }
        orders->held--;
        rpc_call_set_data(call->call, NULL);
        order_begin(call);
        call = orders->list; /* which may have changed */
    }
}

static void orders_arm(struct orders *orders);

static void orders_beat(void *arg)
{
    struct orders *orders = arg;
    uint64_t now_ns = clock_now_ns();
    if (orders->held == 0) {
        return;
    }
    for (const struct ordered_call *call = orders->list; call; call = call->next) {
        if (!call->begun_ns) {
            char text[64];
            uint64_t ms = (now_ns - rpc_call_since_ns(call->call)) / CLOCK_NS_PER_MS;
            (void)snprintf(text, sizeof text, "%u s: waiting for an earlier call",
                           (unsigned)(ms / 1000));
            rpc_call_progress(call->call, (double)ms / 1000, text);
        }
    }
    loop_task_queue(orders->tools->loop, &orders->task, orders_continue, orders);
    orders_arm(orders);
}

static void orders_arm(struct orders *orders)
{
    loop_timer_arm(orders->tools->loop, &orders->timer,
                   clock_now_ns() + LIMIT_OVERTAKEN_MS * CLOCK_NS_PER_MS, orders_beat, orders);
}

static void name_call(const struct ordered_call *call, char *out, size_t size)
{
    static const char *const names[ORDER_KIND_COUNT] = {
        [ORDER_READ] = "read_file",          [ORDER_WRITE] = "write_file",
        [ORDER_RUN] = "run_python",          [ORDER_FRESH_RUN] = "run_python",
        [ORDER_INSTALL] = "install_package",
    };
    if (call->cell > 0) {
        (void)snprintf(out, size, "<cell %u>", call->cell);
    } else {
        (void)snprintf(out, size, "%s", names[call->kind]);
    }
}

/* The call has ended. */
static void order_ended(void *arg)
{
    struct ordered_call *call = arg;
    struct orders *orders = call->orders;
    struct ordered_call **at = &orders->list;
    while (*at != call) {
        at = &(*at)->next;
    }
    *at = call->next;
    if (!call->begun_ns) {
        orders->held--;
    }
    for (struct ordered_call *later = call->next; later; later = later->next) {
        if (call->begun_ns && !later->begun_ns && is_in_the_way(call, later)) {
            name_call(call, later->waited_for, sizeof later->waited_for);
        }
    }
    if (orders->held > 0 && !orders->ending) {
        loop_task_queue(orders->tools->loop, &orders->task, orders_continue, orders);
    }
    json_decref(call->arguments);
    free(call);
}

static bool is_too_many(const struct ordered_call *call)
{
    unsigned held = 0;
    for (const struct ordered_call *at = call->orders->list; at != call; at = at->next) {
        held += at->session && !at->begun_ns && strcmp(at->session, call->session) == 0;
    }
    return held >= LIMIT_SESSION_QUEUE;
}

void orders_add(struct orders *orders, struct rpc_call *call, enum order_kind kind,
                json_t *arguments, order_fn begin)
{
    struct ordered_call *ordered = calloc(1, sizeof *ordered);
    if (!ordered || !arguments) {
        free(ordered);
        rpc_call_fail(call, RPC_INTERNAL_ERROR, "out of memory");
        return;
    }
    *ordered = (struct ordered_call){.work.cancel = order_withdraw,
                                     .orders = orders,
                                     .call = call,
                                     .kind = kind,
                                     .arguments = json_incref(arguments),
                                     .begin = begin};
    if (kind == ORDER_RUN) {
        const char *session = json_string_value(json_object_get(arguments, "session"));
        ordered->session = session ? session : SESSION_DEFAULT;
    }
    struct ordered_call **at = &orders->list;
    while (*at) {
        at = &(*at)->next;
    }
    *at = ordered;
    rpc_call_on_end(call, order_ended, ordered);
    if (may_begin(ordered)) {
        order_begin(ordered);
        return;
    }
    orders->held++;
    rpc_call_set_data(call, ordered);
    if (ordered->session && is_too_many(ordered)) {
        content_refuse(call,
                       "Busy: %u calls are waiting in this session, which is the limit. Wait for "
                       "their results.",
                       LIMIT_SESSION_QUEUE);
    } else if (!orders->timer.loop) {
        orders_arm(orders);
    }
}

void orders_end(struct orders *orders)
{
    struct ordered_call *next = NULL;
    orders->ending = true;
    loop_task_cancel(&orders->task);
    loop_timer_disarm(&orders->timer);
    for (struct ordered_call *call = orders->list; call; call = next) {
        next = call->next;
        struct tool_work *work = rpc_call_data(call->call);
        if (!call->begun_ns) {
            content_refuse(call->call, "The server is stopping; the call did not start.");
        } else if (work && (call->kind == ORDER_READ || call->kind == ORDER_WRITE)) {
            work->cancel(work);
        }
    }
}

static struct ordered_call *orders_find(const struct orders *orders, const struct rpc_call *call)
{
    struct ordered_call *at = orders->list;
    while (at && at->call != call) {
        at = at->next;
    }
    return at;
}

void orders_set_cell(struct orders *orders, const struct rpc_call *call, unsigned cell)
{
    struct ordered_call *found = orders_find(orders, call);
    if (found) {
        found->cell = cell;
    }
}

void orders_waited(const struct orders *orders, const struct rpc_call *call, char *out, size_t size)
{
    const struct ordered_call *found = orders_find(orders, call);
    uint64_t seconds =
        found ? (found->begun_ns - rpc_call_since_ns(call)) / CLOCK_NS_PER_MS / 1000 : 0;
    out[0] = '\0';
    if (seconds > 0 && found->waited_for[0]) {
        (void)snprintf(out, size, "waited %llu s for %s", (unsigned long long)seconds,
                       found->waited_for);
    }
}
