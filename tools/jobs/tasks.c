#include "tools/jobs/jobs_internal.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/own.h"
#include "rpc/call.h"
#include "rpc/conn.h"

static struct job *find(const struct jobs *jobs, const char *id)
{
    struct job *job = jobs->list;
    while (job && (id[0] == '\0' || strcmp(job->task.id, id) != 0)) {
        job = job->next;
    }
    return job;
}

/* "job 1, 12 s: "epoch 3""; "job 1 ended after 93 s: ok"; the status line of one that was stopped.
 */
static void describe(const struct job *job, struct buf *text)
{
    const struct run *run = job->run;
    char step[sizeof run->doing + 8];
    if (job->ended_ns == 0) {
        job_describe_step(job, step, sizeof step);
        (void)buf_appendf(text, "job %u, %u s%s", run->job, job_seconds(job),
                          run->stop ? ": stopping" : step);
    } else if (run->end.outcome == RUN_STOPPED) {
        (void)run_compose_status(run, text);
    } else {
        (void)buf_appendf(text, "job %u ended after %u s: ", run->job, job_seconds(job));
        (void)run_append_outcome(run, text);
    }
}

/* text: keeps what ret_task points to. */
static void make_task(const struct job *job, struct buf *text, struct rpc_task *ret_task)
{
    uint64_t at_ns = job->ended_ns > 0 ? job->ended_ns : clock_now_ns();
    describe(job, text);
    *ret_task = (struct rpc_task){
        .id = job->task.id,
        .message = buf_text(text),
        .status = job->ended_ns == 0                     ? RPC_TASK_WORKING
                  : job->run->end.outcome == RUN_STOPPED ? RPC_TASK_CANCELLED
                                                         : RPC_TASK_COMPLETED,
        .created_ms = job->task.created_ms,
        .updated_ms = job->task.created_ms + (at_ns - job->task.created_ns) / CLOCK_NS_PER_MS,
        .ttl_ms = job->run->request.timeout_ms + LIMIT_TASK_MS,
    };
}

bool job_name(struct job *job)
{
    unsigned char random[16];
    if (job->task.id[0]) {
        return true;
    }
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
        return false;
    }
    size_t at = (size_t)snprintf(job->task.id, sizeof job->task.id, "job-%u-", job->run->job);
    for (size_t i = 0; i < sizeof random; i++, at += 2) {
        (void)snprintf(job->task.id + at, 3, "%02x", random[i]);
    }
    return true;
}

unsigned jobs_number_of(const struct jobs *jobs, const char *state)
{
    const struct job *job = find(jobs, state);
    return job ? job->run->job : 0;
}

bool task_begin(struct job *job, struct rpc_call *call)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    struct rpc_task task;
    if (!job_name(job)) {
        return false;
    }
    job->task.created_ns = clock_now_ns();
    job->task.created_ms = (uint64_t)clock_wall_ns() / CLOCK_NS_PER_MS;
    job->task.asks = rpc_call_can_elicit(call);
    job->unread = true;
    job->reported = true; /* its client learns of its end from the task */
    make_task(job, &text, &task);
    rpc_call_task(call, &task);
    return true;
}

static bool task_exists(void *ctx, const char *id)
{
    const struct tools *tools = ctx;
    return find(tools->jobs, id) != NULL;
}

static void task_get(void *ctx, struct rpc_call *call, const char *id)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    struct tools *tools = ctx;
    struct job *job = find(tools->jobs, id);
    struct rpc_task task;
    make_task(job, &text, &task);
    if (task.status == RPC_TASK_COMPLETED) {
        rpc_call_set_task(call, &task);
        job_send(job, call, "");
    } else {
        tools->jobs->hooks->polls(tools, job->run, call);
        rpc_call_task(call, &task);
    }
}

static void task_update(void *ctx, struct rpc_call *call, const char *id)
{
    struct tools *tools = ctx;
    const struct job *job = find(tools->jobs, id);
    if (job) {
        tools->jobs->hooks->polls(tools, job->run, call);
    }
}

static void task_cancel(void *ctx, const char *id)
{
    struct tools *tools = ctx;
    const struct job *job = find(tools->jobs, id);
    if (job) {
        jobs_stop(tools->jobs, job->run->job);
    }
}

const struct rpc_tasks job_tasks = {
    .exists = task_exists,
    .get = task_get,
    .update = task_update,
    .cancel = task_cancel,
};
