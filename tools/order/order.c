#include "tools/order/order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/own.h"
#include "rpc/call.h"
#include "tools/box/tool.h"
#include "tools/content/app_view.h"
#include "tools/content/content.h"
#include "tools/jobs/jobs.h"
#include "tools/run/result.h"
#include "tools/session/session.h"

struct ordered_call {
    struct tool_work work; /* while it is held */
    struct ordered_call *next;
    struct orders *orders;
    struct rpc_call *call; /* NULL: a job, whose call has its result */
    enum order_kind kind;
    const char *tool;
    json_t *arguments;
    const char *session; /* of ORDER_RUN */
    order_fn begin;
    json_t *facts;     /* see orders_set_facts() */
    uint64_t begun_ns; /* 0: it is held */
    bool has_run;      /* whose events are in the record */
    unsigned cell;
    unsigned job;         /* the number of the job that the run has become; 0: none */
    unsigned stopped;     /* the job that it has stopped to begin; 0: none */
    uint64_t begin_by_ns; /* a run that is held must begin until then */
    char waited_for[32];  /* the last call that was in the way; empty: none */
};

static bool is_run(const struct ordered_call *call)
{
    return call->kind == ORDER_RUN || call->kind == ORDER_FRESH_RUN;
}

static bool is_of_one_session(const struct ordered_call *a, const struct ordered_call *b)
{
    return a->session && b->session && strcmp(a->session, b->session) == 0;
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

/* Whether the call is a run that waits for a job: no call about files waits for it. The call may
 * have left the list. */
static bool is_behind_job(const struct ordered_call *call)
{
    const struct ordered_call *earlier = list_find(
        call->orders->list, at, at == call || (at->job > 0 && is_of_one_session(at, call)));
    return earlier && earlier != call;
}

/* Whether the later call could notice that the earlier one takes effect after it, or the earlier
 * one that the later one takes effect before it. */
static bool is_in_the_way(const struct ordered_call *earlier, const struct ordered_call *later)
{
    if (earlier->kind == ORDER_WAIT || (earlier->job > 0 && later->kind != ORDER_RUN)) {
        return false;
    }
    switch (later->kind) {
    case ORDER_READ:
    case ORDER_WRITE:
        if (is_run(earlier)) {
            return concerns_files(earlier) && !is_overtaken(earlier, later) &&
                   !is_behind_job(earlier);
        }
        return earlier->kind == ORDER_WRITE ||
               (earlier->kind == ORDER_READ && later->kind == ORDER_WRITE);
    case ORDER_RUN:
    case ORDER_FRESH_RUN:
        if (is_run(earlier)) {
            return is_of_one_session(earlier, later);
        }
        if (earlier->kind == ORDER_INSTALL) {
            return !is_overtaken(earlier, later);
        }
        return earlier->kind == ORDER_WRITE || concerns_files(later);
    case ORDER_INSTALL:
        return is_run(earlier) && !earlier->begun_ns;
    case ORDER_WAIT:
    case ORDER_KIND_COUNT:
    default:
        return false;
    }
}

static bool may_begin(const struct ordered_call *call)
{
    return list_find(call->orders->list, at, at == call || is_in_the_way(at, call)) == call;
}

static bool has_overtaken(const struct ordered_call *read)
{
    return list_find(read->orders->list, at,
                     at == read || (is_run(at) && !at->job && concerns_files(at))) != read;
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

/* What a job does is not waited for by a call that gives it up. */
static void stop_job_before(struct ordered_call *call)
{
    const json_t *arguments = call->arguments;
    const char *by = json_is_true(json_object_get(arguments, "undo"))    ? "undo"
                     : json_is_true(json_object_get(arguments, "reset")) ? "reset"
                     : json_object_get(arguments, "restore")             ? "restore"
                                                                         : NULL;
    const struct ordered_call *job =
        list_find(call->orders->list, at, at == call || (at->job > 0 && is_in_the_way(at, call)));
    if (by && job != call) {
        call->begin_by_ns = UINT64_MAX; /* the job is about to end */
        call->stopped =
            jobs_stop(call->orders->tools->jobs, job->job, by) ? job->job : call->stopped;
    }
}

static void orders_continue(void *arg)
{
    struct orders *orders = arg;
    struct ordered_call *call = orders->list;
    while (call) {
        bool waits = !call->begun_ns && !may_begin(call);
        if (waits) {
            stop_job_before(call); /* which may end calls that wait for the job */
        }
        if (call->begun_ns || waits) {
            call = call->next;
            continue;
        }
        orders->held--;
        rpc_call_set_data(call->call, NULL);
        order_begin(call);
        call = orders->list; /* which may have changed */
    }
}

static void name_call(const struct ordered_call *call, char *out, size_t size)
{
    static const char *const names[ORDER_KIND_COUNT] = {
        [ORDER_READ] = "read_file",          [ORDER_WRITE] = "write_file",
        [ORDER_RUN] = "run_python",          [ORDER_FRESH_RUN] = "run_python",
        [ORDER_INSTALL] = "install_package", [ORDER_WAIT] = "run_python",
    };
    if (call->job > 0) {
        (void)snprintf(out, size, "job %u", call->job);
    } else if (call->cell > 0) {
        (void)snprintf(out, size, "<cell %u>", call->cell);
    } else {
        (void)snprintf(out, size, "%s", names[call->kind]);
    }
}

/* The call has waited for as long as it may. */
static void order_refuse(struct ordered_call *call)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    const struct ordered_call *earlier = call->orders->list;
    char name[32];
    while (!is_in_the_way(earlier, call)) {
        earlier = earlier->next;
    }
    (void)buf_append_text(&text, "[not run: ");
    if (earlier->job > 0) {
        (void)jobs_describe(call->orders->tools->jobs, earlier->job, &text);
    } else {
        name_call(earlier, name, sizeof name);
        (void)buf_appendf(&text,
                          "an earlier call (%s) has not ended | the code will not run: send it "
                          "again, with a longer wait_s",
                          name);
    }
    (void)buf_append_text(&text, "]");
    content_result(call->call, buf_bytes(&text), buf_size(&text), /* is_error= */ true);
}

static void refuse_late(struct orders *orders)
{
    uint64_t now_ns = clock_now_ns();
    struct ordered_call *next = NULL;
    for (struct ordered_call *call = orders->list; call; call = next) {
        next = call->next;
        if (!call->begun_ns && call->begin_by_ns <= now_ns && !may_begin(call)) {
            order_refuse(call);
        }
    }
}

static void orders_arm(struct orders *orders);

static void orders_beat(void *arg)
{
    struct orders *orders = arg;
    uint64_t now_ns = clock_now_ns();
    refuse_late(orders);
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

/* A call that may begin is left to the task, which would never run beside a timer that is always
 * due. */
static void orders_arm(struct orders *orders)
{
    const struct loop_timer *timer = &orders->timer;
    uint64_t next_ns = clock_now_ns() + LIMIT_OVERTAKEN_MS * CLOCK_NS_PER_MS;
    for (const struct ordered_call *call = orders->list; call; call = call->next) {
        if (!call->begun_ns && call->begin_by_ns < next_ns && !may_begin(call)) {
            next_ns = call->begin_by_ns;
        }
    }
    if (!timer->loop || timer->deadline_ns > next_ns) {
        loop_timer_arm(orders->tools->loop, &orders->timer, next_ns, orders_beat, orders);
    }
}

/* The call, and its run, have ended. */
static void order_remove(struct ordered_call *call)
{
    struct orders *orders = call->orders;
    list_remove(&orders->list, call);
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
    json_decref(call->facts);
    free(call);
}

/* A call without a run; one that waits for a job is recorded if it is refused. */
static void order_record(struct ordered_call *call)
{
    static const char *const kinds[ORDER_KIND_COUNT] = {
        [ORDER_READ] = "read",      [ORDER_WRITE] = "write",  [ORDER_RUN] = "tool",
        [ORDER_FRESH_RUN] = "tool", [ORDER_INSTALL] = "tool", [ORDER_WAIT] = "tool"};
    bool is_change = call->tool && strstr(call->tool, "_changes");
    struct recorded_call recorded = {is_change ? "change" : kinds[call->kind], call->tool,
                                     call->arguments};
    recorded.content = rpc_call_content(call->call, &recorded.is_error);
    recorded.trace = rpc_call_trace(call->call);
    if (call->tool && !call->has_run && (call->kind != ORDER_WAIT || recorded.is_error)) {
        recorded_call(call->orders->tools->config.record, &recorded, take_ptr(call->facts));
    }
}

static void order_ended(void *arg)
{
    struct ordered_call *call = arg;
    bool is_error = false;
    order_record(call);
    views_keep(call->orders->tools->views, call->arguments, rpc_call_content(call->call, &is_error),
               rpc_call_meta(call->call, VIEW_META));
    call->call = NULL;
    if (call->job == 0) {
        order_remove(call);
    }
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
                const char *tool, json_t *arguments, order_fn begin)
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
                                     .tool = tool,
                                     .arguments = json_incref(arguments),
                                     .begin = begin};
    ordered->begin_by_ns = UINT64_MAX;
    if (kind == ORDER_RUN) {
        uint64_t wait_ms = jobs_wait_ms(orders->tools, arguments);
        if (wait_ms != UINT64_MAX) {
            ordered->begin_by_ns = rpc_call_since_ns(call) + wait_ms * CLOCK_NS_PER_MS;
        }
        const char *session = json_string_value(json_object_get(arguments, "session"));
        ordered->session = session ? session : SESSION_DEFAULT;
    }
    list_append(&orders->list, ordered);
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
        return;
    }
    stop_job_before(ordered);
    orders_arm(orders);
}

void orders_end(struct orders *orders)
{
    struct ordered_call *next = NULL;
    orders->ending = true;
    loop_task_cancel(&orders->task);
    loop_timer_disarm(&orders->timer);
    for (struct ordered_call *call = orders->list; call; call = next) {
        next = call->next;
        struct tool_work *work = call->call ? rpc_call_data(call->call) : NULL;
        if (!call->begun_ns) {
            content_refuse(call->call, "The server is stopping; the call did not start.");
        } else if (work && (call->kind == ORDER_READ || call->kind == ORDER_WRITE)) {
            work->cancel(work);
        }
    }
}

static struct ordered_call *orders_find(const struct orders *orders, const struct rpc_call *call)
{
    return list_find(orders->list, at, at->call == call);
}

void orders_set_job(struct orders *orders, const struct rpc_call *call, unsigned number)
{
    struct ordered_call *found = orders_find(orders, call);
    if (!found) {
        return;
    }
    found->job = number;
    found->has_run = true;
    if (orders->held > 0) {
        loop_task_queue(orders->tools->loop, &orders->task, orders_continue, orders);
    }
}

void orders_job_ended(struct orders *orders, unsigned number)
{
    struct ordered_call *call = list_find(orders->list, at, at->job == number);
    if (call) {
        order_remove(call);
    }
}

void orders_set_cell(struct orders *orders, const struct rpc_call *call, unsigned cell)
{
    struct ordered_call *found = orders_find(orders, call);
    if (found) {
        found->cell = cell;
        found->has_run = true;
    }
}

void orders_set_facts(struct orders *orders, const struct rpc_call *call, json_t *facts)
{
    struct ordered_call *found = orders_find(orders, call);
    json_decref(found ? found->facts : facts);
    if (found) {
        found->facts = facts;
    }
}

unsigned orders_stopped_job(const struct orders *orders, const struct rpc_call *call)
{
    const struct ordered_call *found = orders_find(orders, call);
    return found ? found->stopped : 0;
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
