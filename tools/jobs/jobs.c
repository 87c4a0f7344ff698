#include "tools/jobs/jobs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/own.h"
#include "base/word.h"
#include "rpc/call.h"
#include "tools/box/tool.h"
#include "tools/content/content.h"
#include "tools/jobs/jobs_internal.h"
#include "tools/run/recorded.h"
#include "tools/run/result.h"
#include "tools/session/session.h"

#define FOREVER UINT64_MAX
enum { ALMOST_MS = 5000 };

void jobs_init(struct jobs *jobs, struct tools *tools, const struct jobs_hooks *hooks)
{
    *jobs = (struct jobs){.tools = tools, .hooks = hooks};
}

void job_free(struct job *job)
{
    list_remove(&job->owner->list, job);
    run_free(job->run);
    json_decref(job->images);
    free(job);
}

void jobs_done(struct jobs *jobs)
{
    while (jobs->list) {
        job_free(jobs->list);
    }
}

static bool job_is_running(const struct job *job)
{
    return (job->run->job > 0 || (job->at_once && !job->run->cancelled)) && !job->returned;
}

static unsigned jobs_count_running(const struct jobs *jobs)
{
    unsigned count = 0;
    for (const struct job *job = jobs->list; job; job = job->next) {
        count += job_is_running(job);
    }
    return count;
}

static struct job *jobs_find(const struct jobs *jobs, unsigned number)
{
    struct job *job = jobs->list;
    while (job && (number == 0 || job->run->job != number)) {
        job = job->next;
    }
    return job;
}

uint64_t jobs_quiet_ms(const struct jobs *jobs)
{
    return jobs_count_running(jobs) > 0 ? 0
           : jobs->moved_ns             ? (clock_now_ns() - jobs->moved_ns) / CLOCK_NS_PER_MS
                                        : UINT64_MAX;
}

uint64_t jobs_wait_ms(const struct tools *tools, const json_t *arguments)
{
    const json_t *wait = json_object_get(arguments, "wait_s");
    double ms = json_number_value(wait) * 1000;
    uint64_t most_ms = tools->config.max_timeout_ms;
    if (tools->config.wait_ms == 0) {
        return FOREVER;
    }
    return !wait ? tools->config.wait_ms : ms > (double)most_ms ? most_ms : (uint64_t)ms;
}

/* --- what results say of jobs --- */

unsigned job_seconds(const struct job *job)
{
    const struct run *run = job->run;
    uint64_t ns = job->returned         ? run->end.duration_ns
                  : run->started_ns > 0 ? clock_now_ns() - run->started_ns
                                        : 0;
    return clock_seconds(ns); /* a wait of 1 s ends a little earlier */
}

/* Appends the lines about jobs that have ended, which no result has said yet. */
static void append_ended(struct jobs *jobs, struct buf *text)
{
    for (struct job *job = jobs->list; job; job = job->next) {
        if (job->run->job > 0 && job->ended_ns > 0 && !job->reported) {
            job->reported = true;
            (void)buf_appendf(text, "[job %u ended after %u s: ", job->run->job, job_seconds(job));
            (void)run_append_outcome(job->run, text);
            (void)buf_appendf(text, "; fetch it with {\"job\": %u}]\n", job->run->job);
        }
    }
}

/* Appends "4 jobs are running (1, 2, 5, 7)". */
static void append_running(const struct jobs *jobs, struct buf *text)
{
    const char *before = "";
    unsigned count = jobs_count_running(jobs);
    (void)buf_appendf(text, "%u job%s running (", count, count == 1 ? " is" : "s are");
    for (const struct job *job = jobs->list; job; job = job->next) {
        if (job_is_running(job) && job->run->job > 0) {
            (void)buf_appendf(text, "%s%u", before, job->run->job);
            before = ", ";
        }
    }
    (void)buf_append_text(text, ")");
}

static void append_what_to_do(unsigned number, struct buf *text)
{
    buf_appendf(text, " | wait: {\"job\": %u} | stop: {\"job\": %u, \"stop\": true}", number,
                number);
}

int jobs_describe(const struct jobs *jobs, unsigned number, struct buf *text)
{
    const struct job *job = jobs_find(jobs, number);
    buf_appendf(text, "job %u has been running for %u s", number, job ? job_seconds(job) : 0);
    append_what_to_do(number, text);
    return buf_append_text(text,
                           " | \"branch\": true runs beside it, with the variables "
                           "from before it");
}

/* "[running: job 1, 25 s of at most 300 s, 212 MiB | wait: ... ]" */
static int append_status(const struct job *job, struct buf *text)
{
    const struct run *run = job->run;
    char path[OVERFLOW_PATH_BYTES];
    struct box *box = server_box_get(job->owner->tools->server_box);
    uint64_t bytes = box ? box_memory_used(box, 0) : 0;
    buf_appendf(text, "[%s: job %u, %u s of at most %g s", run->stop ? "stopping" : "running",
                run->job, job_seconds(job), (double)run->request.timeout_ms / 1000);
    buf_append_text(text, run_fact(run, RUN_CAPPED)[0] ? " (timeout_s: capped)" : "");
    if (bytes > 0) {
        buf_appendf(text, ", %u MiB", (unsigned)(bytes >> 20));
    }
    append_what_to_do(run->job, text);
    if (run->overflow && overflow_path(run->overflow, path)) {
        buf_appendf(text, " | all output: %s", path);
    }
    if (!run->request.fresh && !run->request.branch) {
        buf_append_text(text,
                        " | until it ends, other calls of this session wait; \"branch\": true "
                        "runs beside it, with the variables from before it");
    }
    return buf_append_text(text, "]");
}

/* No further job may begin. */
static void refuse_another(const struct jobs *jobs, struct rpc_call *call)
{
    OWNED(buf_done) struct buf running = BUF_EMPTY;
    append_running(jobs, &running);
    content_refuse(call,
                   "[not run: %s | that is the limit (--jobs): stop one, or wait for its end: "
                   "{\"job\": N}]",
                   buf_text(&running));
}

/* There is no such job: lists those there are. */
static void refuse_number(const struct jobs *jobs, struct rpc_call *call, uint64_t number)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    const char *before = " Jobs: ";
    if (number > 0) {
        (void)buf_appendf(&text, "There is no job %llu%s.", (unsigned long long)number,
                          number <= jobs->last_number ? " any more" : "");
    } else {
        (void)buf_append_text(&text, jobs_count_running(jobs) ? "Which job? Send its number as job."
                                                              : "No job is running.");
    }
    for (const struct job *job = jobs->list; job; job = job->next) {
        if (job->run->job > 0) {
            (void)buf_appendf(&text, "%s%u (", before, job->run->job);
            if (job->returned) {
                (void)run_append_outcome(job->run, &text);
                (void)buf_append_text(&text, ")");
            } else {
                (void)buf_appendf(&text, "running for %u s)", job_seconds(job));
            }
            before = ", ";
        }
    }
    (void)buf_append_text(&text, *before == ',' ? "." : "");
    content_result(call, buf_bytes(&text), buf_size(&text), /* is_error= */ true);
}

void job_describe_step(const struct job *job, char *text, size_t size)
{
    const struct run *run = job->run;
    char line[200];
    char printed[240];
    (void)output_last_line(&run->output, line, sizeof line);
    const char *doing = run->doing[0] ? run->doing
                        : line[0]     ? word_quote(line, strlen(line), printed, sizeof printed)
                                      : "";
    (void)snprintf(text, size, "%s%s", doing[0] ? ": " : "", doing);
}

/* --- the calls that wait --- */

struct rpc_call *job_wait_end(struct job_wait *wait)
{
    struct rpc_call *call = wait->call;
    list_remove(&wait->job->waits, wait);
    loop_timer_disarm(&wait->heartbeat);
    loop_timer_disarm(&wait->over);
    rpc_call_set_data(call, NULL);
    free(wait);
    return call;
}

void job_send(struct job *job, struct rpc_call *call, const char *first)
{
    OWNED(buf_done) struct buf ended = BUF_EMPTY;
    (void)buf_append_text(&ended, first);
    if (job->run->end.outcome == RUN_REFUSED) {
        job->reported = true;
        content_refuse(call, "%s", run_fact(job->run, RUN_REFUSAL));
        return;
    }
    if (!rpc_call_cancelled(call)) {
        job->reported = true;
        append_ended(job->owner, &ended);
    }
    job->run->only_news = job->run->job > 0 && !job->unread && !job->fetched;
    result_send(call, job->run, job->images, buf_text(&ended));
}

/* Ends the call with what the job has printed since the last result about it. */
static void job_send_running(struct job *job, struct rpc_call *call, const struct output *printed)
{
    OWNED(buf_done) struct buf ended = BUF_EMPTY;
    OWNED(buf_done) struct buf status = BUF_EMPTY;
    append_ended(job->owner, &ended);
    if (append_status(job, &status) < 0) {
        rpc_call_fail(call, RPC_INTERNAL_ERROR, "out of memory");
        return;
    }
    result_send_running(call, job->run, printed, buf_text(&status), buf_text(&ended));
}

/* The client has cancelled the call: only that of a run which is no job takes the run with it. */
static void wait_cancel(struct tool_work *work)
{
    struct job_wait *wait = (struct job_wait *)work;
    struct job *job = wait->job;
    if (job->run->job == 0) {
        loop_timer_disarm(&wait->over); /* it must not become a job that nobody knows */
        sessions_cancel(job->owner->tools->sessions, job->run);
    } else {
        rpc_call_fail(job_wait_end(wait), RPC_INTERNAL_ERROR, "the call waits no longer");
    }
}

/* Reports to the client how long the call has taken and what was printed last. */
static void wait_beat(void *arg)
{
    struct job_wait *wait = arg;
    uint64_t seconds = (clock_now_ns() - rpc_call_since_ns(wait->call)) / CLOCK_NS_PER_MS / 1000;
    char step[sizeof wait->job->run->doing + 8];
    char text[sizeof step + 24];
    job_describe_step(wait->job, step, sizeof step);
    (void)snprintf(text, sizeof text, "%u s%s", (unsigned)seconds, step);
    rpc_call_progress(wait->call, (double)seconds, text);
    loop_timer_in(wait->job->owner->tools->loop, &wait->heartbeat, LIMIT_PROGRESS_EVERY_MS,
                  wait_beat, wait);
}

/* Too many jobs run: the cell cannot go on without its call. */
static void job_give_up(struct job *job, const struct rpc_call *call)
{
    struct run *run = job->run;
    OWNED(buf_done) struct buf note = BUF_EMPTY;
    (void)buf_append_text(&note, "cell interrupted: no free job slot (--jobs): ");
    append_running(job->owner, &note);
    run_add(run, RUN_NOTES, buf_text(&note), buf_size(&note));
    run->request.timeout_ms = (clock_now_ns() - rpc_call_since_ns(call)) / CLOCK_NS_PER_MS;
    run->job_limit_ms = 0;
    sessions_stop(job->owner->tools->sessions, run, RUN_STOP_NO_JOB);
}

/* Whether the cell's own limit, which is no longer than the wait, ends it soon. The wait began
 * earlier, and is over first: without this, an endless loop would always cost a second call. */
static bool is_almost_over(const struct run *run, const struct rpc_call *call)
{
    uint64_t now_ns = clock_now_ns();
    uint64_t limit_ns = run->request.timeout_ms * CLOCK_NS_PER_MS;
    return run->started_ns > 0 && limit_ns <= now_ns - rpc_call_since_ns(call) &&
           run->started_ns + limit_ns <= now_ns + ALMOST_MS * CLOCK_NS_PER_MS;
}

static void become_job(struct job *job, const struct rpc_call *call)
{
    const struct tools *tools = job->owner->tools;
    job->run->job = ++job->owner->last_number;
    job->owner->hooks->is_job(tools->orders, call, job->run->job);
    recorded_job(job->run);
    sessions_write_output(tools->sessions, job->run);
}

static void wait_over(void *arg)
{
    struct job_wait *wait = arg;
    struct job *job = wait->job;
    struct run *run = job->run;
    struct tools *tools = job->owner->tools;
    if (run->job > 0 && rpc_call_state(wait->call) && rpc_call_wants_task(wait->call)) {
        (void)task_begin(job, job_wait_end(wait)); /* it has a name */
        return;
    }
    if (run->job > 0) {
        if (run->news.total == 0 || job->unread) {
            run_end_line(run);
        }
        job_send_running(job, job_wait_end(wait), job->unread ? &run->output : &run->news);
        job->unread = false;
        output_done(&run->news);
        output_init(&run->news);
        return;
    }
    if (is_almost_over(run, wait->call)) {
        return; /* its result comes by itself */
    }
    if (!job->at_once && jobs_count_running(job->owner) >= tools->config.jobs) {
        if (clock_now_ns() < wait->until_ns) {
            loop_timer_arm(tools->loop, &wait->over, wait->until_ns, wait_over, wait);
            return;
        }
        job_give_up(job, wait->call);
        return;
    }
    become_job(job, wait->call);
    struct rpc_call *call = job_wait_end(wait);
    if (!rpc_call_wants_task(call) || !task_begin(job, call)) {
        job_send_running(job, call, &run->output);
    }
}

/* Beside the call that began the run there may be others, which wait for its job. The one that is
 * made again with the user's response comes first. */
static struct job_wait *wait_that_asks(const struct job *job)
{
    struct job_wait *found = NULL;
    for (struct job_wait *wait = job->waits; wait; wait = wait->next) {
        if (rpc_call_can_elicit(wait->call) &&
            (!found || (rpc_call_state(wait->call) && !rpc_call_state(found->call)))) {
            found = wait;
        }
    }
    return found;
}

/* Whether the cell can go on without the call, whose client makes it again. */
static bool outlives_call(struct job *job, const struct rpc_call *call)
{
    if (job->run->job == 0) {
        if (!job->at_once && jobs_count_running(job->owner) >= job->owner->tools->config.jobs) {
            return false;
        }
        become_job(job, call);
        job->unread = true;
        job->reported = true;
    }
    return job_name(job);
}

struct rpc_call *jobs_ask(struct jobs *jobs, const struct run *run, const char **ret_text)
{
    const struct job *job = jobs->list;
    while (job && job->run != run) {
        job = job->next;
    }
    struct job_wait *wait = job ? wait_that_asks(job) : NULL;
    if (!wait && job && job->task.asks) {
        *ret_text = NULL;
        return NULL;
    }
    *ret_text =
        "It needs the user's approval, and no waiting call of this client can ask for it. The "
        "user can allow it without: by removing ask from its grant in the file of --tools.";
    if (!wait) {
        return NULL;
    }
    bool meanwhile = rpc_call_elicits_meanwhile(wait->call);
    if (!meanwhile && !outlives_call(wait->job, wait->call)) {
        *ret_text =
            "It needs the user's approval, for which the cell must become a job, and no "
            "further one can begin (--jobs).";
        return NULL;
    }
    *ret_text = meanwhile ? NULL : wait->job->task.id;
    wait->asks_ns = clock_now_ns();
    loop_timer_disarm(&wait->over);
    return wait->call;
}

static void arm_over(struct job_wait *wait)
{
    uint64_t soon_ns = clock_now_ns() + LIMIT_TASK_AFTER_MS * CLOCK_NS_PER_MS;
    bool sooner = wait->is_for_task && soon_ns < wait->until_ns;
    loop_timer_arm(wait->job->owner->tools->loop, &wait->over, sooner ? soon_ns : wait->until_ns,
                   wait_over, wait);
}

void jobs_asked(struct rpc_call *call)
{
    struct job_wait *wait = rpc_call_data(call);
    if (wait && wait->until_ns > 0) {
        wait->until_ns += clock_now_ns() - wait->asks_ns;
        arm_over(wait);
    }
}

void jobs_left(struct rpc_call *call)
{
    struct job_wait *wait = rpc_call_data(call);
    if (wait) {
        (void)job_wait_end(wait);
    }
}

/* Returns false when there is no memory, and has ended the call then. */
static bool wait_add(struct job *job, struct rpc_call *call, const json_t *arguments)
{
    uint64_t wait_ms = jobs_wait_ms(job->owner->tools, arguments);
    struct job_wait *wait = calloc(1, sizeof *wait);
    struct loop *loop = job->owner->tools->loop;
    if (!wait) {
        rpc_call_fail(call, RPC_INTERNAL_ERROR, "out of memory");
        return false;
    }
    *wait =
        (struct job_wait){.work.cancel = wait_cancel, .next = job->waits, .job = job, .call = call};
    job->waits = wait;
    rpc_call_set_data(call, wait);
    if (job->returned) {
        return true;
    }
    if (wait_ms != FOREVER) {
        wait->until_ns = rpc_call_since_ns(call) + wait_ms * CLOCK_NS_PER_MS;
        wait->is_for_task = rpc_call_wants_task(call) && !json_object_get(arguments, "wait_s") &&
                            (job->run->job == 0 || rpc_call_state(call));
        arm_over(wait);
    }
    if (rpc_call_wants_progress(call)) {
        loop_timer_in(loop, &wait->heartbeat, LIMIT_PROGRESS_FIRST_MS, wait_beat, wait);
    }
    return true;
}

/* --- calls --- */

/* error: of sessions_run(). */
static void refuse(struct rpc_call *call, int error)
{
    if (error == -EMFILE) {
        content_refuse(call, "Too many sessions: at most %u can be open. Use an existing session.",
                       LIMIT_SESSIONS);
    } else {
        content_refuse(call, "The server is out of memory.");
    }
}

void jobs_begin(struct jobs *jobs, struct rpc_call *call, struct run *run, const json_t *arguments)
{
    struct tools *tools = jobs->tools;
    uint64_t wait_ms = jobs_wait_ms(tools, arguments);
    if (wait_ms == 0 && jobs_count_running(jobs) >= tools->config.jobs) {
        run_free(run);
        refuse_another(jobs, call);
        return;
    }
    struct job *job = calloc(1, sizeof *job);
    if (!job) {
        run_free(run);
        rpc_call_fail(call, RPC_INTERNAL_ERROR, "out of memory");
        return;
    }
    *job = (struct job){.owner = jobs, .run = run, .at_once = wait_ms == 0};
    list_append(&jobs->list, job);
    if (!wait_add(job, call, arguments)) {
        job_free(job);
        return;
    }
    if (wait_ms == FOREVER && json_object_get(arguments, "wait_s")) {
        static const char note[] = "wait_s is ignored: the server runs with --wait off";
        run_add(run, RUN_NOTES, note, sizeof note - 1);
    }
    bool knows = wait_ms == FOREVER || json_object_get(arguments, "timeout_s");
    run->job_limit_ms = knows ? 0 : tools->config.max_timeout_ms;
    run->on_done = job_returned;
    run->arg = job;
    int r = sessions_run(tools->sessions, json_string_value(json_object_get(arguments, "session")),
                         run);
    if (r < 0) {
        (void)job_wait_end(job->waits);
        job_free(job);
        refuse(call, r);
    }
}

static struct job *only_running(const struct jobs *jobs)
{
    struct job *job = jobs->list;
    while (job && !job_is_running(job)) {
        job = job->next;
    }
    return jobs_count_running(jobs) == 1 ? job : NULL;
}

void jobs_wait(struct jobs *jobs, struct rpc_call *call, const json_t *arguments)
{
    const json_t *sent = json_object_get(arguments, "job");
    bool stops = json_is_true(json_object_get(arguments, "stop"));
    json_int_t number = json_integer_value(sent);
    struct job *job = !sent ? only_running(jobs)
                      : number > 0 && number < (json_int_t)UINT32_MAX
                          ? jobs_find(jobs, (unsigned)number)
                          : NULL;
    if (job && job->run->job == 0) {
        wait_over(job->waits); /* it was about to become one */
    }
    if (!job) {
        refuse_number(jobs, call, number > 0 ? (uint64_t)number : 0);
        return;
    }
    if (job->ended_ns > 0) {
        job_send(job, call, stops ? "[the job had already ended]\n" : "");
        job->fetched = true;
        return;
    }
    if (!wait_add(job, call, arguments)) {
        return;
    }
    if (stops) {
        jobs_stop(jobs, job->run->job);
    } else {
        jobs->hooks->waits(jobs->tools, job->run);
    }
}

void jobs_stop(struct jobs *jobs, unsigned number)
{
    struct job *job = jobs_find(jobs, number);
    if (job && !job->returned) {
        sessions_stop(jobs->tools->sessions, job->run, RUN_STOP_REQUESTED);
    }
}
