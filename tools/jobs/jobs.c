#include "tools/jobs/jobs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/own.h"
#include "base/word.h"
#include "record/record.h"
#include "rpc/call.h"
#include "rpc/conn.h"
#include "tools/box/tool.h"
#include "tools/content/content.h"
#include "tools/content/mounts.h"
#include "tools/run/result.h"
#include "tools/session/session.h"

struct job {
    struct job *next;
    struct jobs *owner;
    struct run *run;
    struct job_wait *waits;
    json_t *images; /* content blocks of its figures, in which more come until it has ended */
    struct {
        const char *path; /* of those of the run, the one that is read */
        unsigned count;
        size_t bytes;
    } read;
    uint64_t ended_ns; /* 0: no result can be sent yet */
    bool at_once;      /* it becomes a job as soon as it has begun */
    bool returned;     /* by the session; what is left is to read files */
    bool reported;     /* a result has said that it ended */
    bool fetched;      /* a call has had its result */
    bool unread;       /* no result has had what it printed before it became a job */
    struct {
        char id[56]; /* "job-3-" and 32 hexadecimal digits, which nobody can guess; empty: none */
        uint64_t created_ns;
        uint64_t created_ms; /* the same moment, since 1970 */
        bool asks;           /* its client can ask the user, when it asks for the task */
    } task;
};

/* A call that waits for a run. */
struct job_wait {
    struct tool_work work;
    struct job_wait *next;
    struct job *job;
    struct rpc_call *call;
    struct loop_timer heartbeat; /* with a progress token */
    struct loop_timer over;
    uint64_t until_ns; /* when it is over at the latest; 0: never */
    uint64_t asks_ns;  /* since when the user is asked through it */
    bool is_for_task;  /* it becomes one sooner */
    bool is_late;      /* its time is over, and the run could become no job */
};

#define FOREVER UINT64_MAX
enum { ALMOST_MS = 5000, SLOT_MS = 500 };

static void wait_over(void *arg);

/* No call may wait for it. */
static void job_free(struct job *job)
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
    return list_find(jobs->list, job, number > 0 && job->run->job == number);
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

static unsigned job_seconds(const struct job *job)
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

/* Appends "4 jobs are running, which is the limit (--jobs): wait for or stop one of the ...". */
static void append_limit(const struct jobs *jobs, struct buf *text)
{
    const char *before = "";
    unsigned count = jobs_count_running(jobs);
    (void)buf_appendf(text, "%u job%s running, which is the limit (--jobs): wait for or stop %s ",
                      count, count == 1 ? " is" : "s are", count == 1 ? "job" : "one of the jobs");
    for (const struct job *job = jobs->list; job; job = job->next) {
        if (job_is_running(job) && job->run->job > 0) {
            (void)buf_appendf(text, "%s%u", before, job->run->job);
            before = ", ";
        }
    }
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

/* "[running: job 1, 25 s of at most 300 s, 212 MiB | wait: ... ]", once with what holds for all. */
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
    if (!run->request.fresh && !run->request.branch && !job->owner->explained) {
        job->owner->explained = true;
        buf_append_text(text,
                        " | until it ends, other calls of this session wait; \"branch\": true "
                        "runs beside it, with the variables from before it");
    }
    return buf_append_text(text, "]");
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

/* Appends what the run waits for, or the last line that it printed, after ": ". */
static void job_describe_step(const struct job *job, char *text, size_t size)
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

/* --- results of calls that wait --- */

/* The call no longer waits: returns it, to be ended. */
static struct rpc_call *job_wait_end(struct job_wait *wait)
{
    struct rpc_call *call = wait->call;
    list_remove(&wait->job->waits, wait);
    loop_timer_disarm(&wait->heartbeat);
    loop_timer_disarm(&wait->over);
    rpc_call_set_data(call, NULL);
    free(wait);
    return call;
}

/* Ends the call with the result of a job that has ended: the first time with what it has printed
 * since the last result about it, later with all output. first: what comes before it. */
static void job_send(struct job *job, struct rpc_call *call, const char *first)
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

/* --- the end of a run ---
 *
 * job_returned() waits for init to complete the overflow file if there is one,
 * job_read_images() for init to open each image, and job_end() sends the results. */

enum { PROTECTED_NEWS_BYTES = 256, PROTECTED_NOTE_MOST = 599 };

static void jobs_trim(struct jobs *jobs)
{
    struct job *oldest = NULL;
    unsigned ended = 0;
    for (struct job *job = jobs->list; job; job = job->next) {
        if (job->run->job > 0 && job->ended_ns > 0) {
            ended++;
            oldest = oldest && oldest->ended_ns <= job->ended_ns ? oldest : job;
        }
    }
    if (ended > JOBS_KEPT) {
        job_free(oldest);
    }
}

static void job_end(struct job *job)
{
    struct jobs *jobs = job->owner;
    unsigned number = job->run->job;
    job->ended_ns = clock_now_ns();
    run_end_line(job->run);
    recorded_result(job->run, job->images);
    const char *news = record_take_news(jobs->tools->config.record);
    if (news[0]) {
        run_add(job->run, RUN_NOTES, news, strlen(news));
    }
    bool fetched = false;
    while (job->waits) {
        fetched = fetched || !rpc_call_cancelled(job->waits->call);
        job_send(job, job_wait_end(job->waits), "");
    }
    job->fetched = fetched;
    if (number == 0) {
        job_free(job);
        return;
    }
    jobs->moved_ns = job->ended_ns;
    jobs_trim(jobs);
    jobs->hooks->ended(jobs->tools->orders, number);
}

/* The file may be replaced or grow while it is read: it is never trusted to be what it was. */
static void take_image(struct job *job, int fd, uint64_t size)
{
    OWNED(buf_done) struct buf content = BUF_EMPTY;
    if (size > LIMIT_IMAGES_BYTES - job->read.bytes ||
        content_read(fd, 0, (size_t)size, &content) < 0) {
        return;
    }
    size_t have = buf_size(&content);
    const char *mime = content_image_type(buf_bytes(&content), have);
    if (!content_image_fits(buf_bytes(&content), have)) {
        /* A client that was sent it could refuse the whole conversation. */
        if (mime && !magic_is_whole(buf_bytes(&content), have)) {
            OWNED(buf_done) struct buf text = BUF_EMPTY;
            buf_append_text(&text, "[");
            word_append(&text, job->read.path, strlen(job->read.path));
            buf_append_text(&text, " is incomplete or damaged, so it is not shown]\n");
            job->read.count++;
            (void)json_array_append_new(job->images,
                                        content_text(buf_bytes(&text), buf_size(&text)));
        }
        return;
    }
    job->read.bytes += have;
    job->read.count++;
    (void)json_array_append_new(job->images, content_image(buf_bytes(&content), have, mime));
}

static void job_read_images(struct job *job);

static void image_opened(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    struct job *job = arg;
    if (!reply->error && S_ISREG(reply->file.mode)) {
        take_image(job, fds[0], reply->file.size_bytes);
    }
    job_read_images(job);
}

/* Skips what is missing, too large or not an image, names what is damaged, and bounds the number
 * and bytes of the others. */
static void job_read_images(struct job *job)
{
    const char *next =
        job->run->cancelled ? NULL : run_next_item(job->run, RUN_IMAGES, job->read.path);
    if (next && job->images && job->read.count < LIMIT_IMAGES) {
        job->read.path = next;
        server_box_open_file(job->owner->tools->server_box, next, image_opened, job);
    } else {
        job_end(job);
    }
}

static void job_take_file(void *arg, const char *path, uint64_t size)
{
    struct job *job = arg;
    struct run *run = job->run;
    struct output *outputs[] = {&run->output, &run->errors};
    uint64_t total = run->output.total + run->errors.total;
    bool whole = size >= total;
    run->overflow = NULL;
    for (unsigned i = 0; path && i < 2; i++) {
        (void)snprintf(outputs[i]->file, sizeof outputs[i]->file, "%s", path);
        outputs[i]->file_size = whole ? outputs[i]->total : size;
    }
    if (path && whole) {
        (void)snprintf(run->news.file, sizeof run->news.file, "%s", path);
        run->news.file_size = total;
    }
    job_read_images(job);
}

/* The client gets the instructions before there is a sandbox. The first result therefore reports
 * protections that the self-test found degraded later. */
static void report_degraded(struct tools *tools, struct run *run)
{
    unsigned degraded = box_report_degraded(server_box_report(tools->server_box));
    degraded = degraded & ~tools->degraded_reported ? degraded : 0; /* all in one list */
    for (unsigned i = 0; degraded && i < BOX_PROTECTION_COUNT; i++) {
        if (degraded & 1U << i) {
            const char *before = run_fact(run, RUN_DEGRADED);
            run_addf(run, RUN_DEGRADED, "%s%s%s", before, before[0] ? ", " : "",
                     box_protection_name((enum box_protection)i));
        }
    }
    tools->degraded_reported |= degraded;
}

/* Code does not know the host's paths of the user's directories, and a model may have used one. */
static void explain_paths(const struct tools *tools, struct run *run)
{
    char hint[2 * WORD_BYTES + 64];
    const struct run_text *type = &run->facts[RUN_ERROR_TYPE];
    const struct run_text *message = &run->facts[RUN_ERROR_MESSAGE];
    if (run->end.outcome == RUN_ERROR && type->data && message->data &&
        strcmp(type->data, "FileNotFoundError") == 0 &&
        data_explain(tools->config.spec, message->data, hint, sizeof hint)) {
        run_add(run, RUN_HINT, hint, strlen(hint));
    }
}

/* arg: the job, whose run the session has returned: what is left is to read files. */
static void job_returned(void *arg, struct run *run)
{
    struct job *job = arg;
    struct tools *tools = job->owner->tools;
    job->returned = true;
    for (struct job_wait *wait = job->waits; wait; wait = wait->next) {
        loop_timer_disarm(&wait->heartbeat);
        loop_timer_disarm(&wait->over);
        rpc_call_set_data(wait->call, NULL); /* nothing is left to cancel */
        job->owner->hooks->has_cell(tools->orders, wait->call, run->cell);
    }
    if (run->end.outcome == RUN_REFUSED) {
        job_end(job);
        return;
    }
    explain_paths(tools, run);
    if (!run->cancelled) {
        report_degraded(tools, run);
        OWNED(buf_done) struct buf note = BUF_EMPTY;
        char news[PROTECTED_NEWS_BYTES];
        server_box_protection(tools->server_box, &note);
        run_addf(run, RUN_PROTECTED_NOTE, "%.*s", PROTECTED_NOTE_MOST, buf_text(&note));
        server_box_protected_news(tools->server_box, news, sizeof news);
        run_addf(run, RUN_PROTECTED_NEWS, "%s", news);
        job->owner->hooks->returned(tools, job->waits ? job->waits->call : NULL, run);
    }
    job->images = json_array();
    if (run->overflow) {
        overflow_finish(run->overflow, job_take_file, job);
    } else {
        job_read_images(job);
    }
}

/* --- tasks --- */

static struct job *find(const struct jobs *jobs, const char *id)
{
    return list_find(jobs->list, job, id[0] && strcmp(job->task.id, id) == 0);
}

/* "job 1, 12 s: "epoch 3""; "job 1 ended after 93 s: ok"; the status line of a stopped one. */
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

/* Gives the job an id unless it has one. Returns false when there are no random numbers. */
static bool job_name(struct job *job)
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

/* Makes a task of a job, and ends the call with it. Returns false, having done nothing, when there
 * are no random numbers. */
static bool task_begin(struct job *job, struct rpc_call *call)
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
        (void)jobs_stop(tools->jobs, job->run->job, NULL);
    }
}

const struct rpc_tasks job_tasks = {
    .exists = task_exists,
    .get = task_get,
    .update = task_update,
    .cancel = task_cancel,
};

/* --- the calls that wait --- */

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

/* Too many jobs run: the call waits until one has ended, or until the cell's own limit. */
static void wait_longer(struct job_wait *wait)
{
    struct jobs *jobs = wait->job->owner;
    if (!wait->is_late && clock_now_ns() >= wait->until_ns) {
        OWNED(buf_done) struct buf note = BUF_EMPTY;
        wait->is_late = true;
        (void)buf_append_text(&note, "the call took longer than wait_s: ");
        append_limit(jobs, &note);
        run_add(wait->job->run, RUN_NOTES, buf_text(&note), buf_size(&note));
    }
    loop_timer_in(jobs->tools->loop, &wait->over, SLOT_MS, wait_over, wait);
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
        wait_longer(wait);
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
    const struct job *job = list_find(jobs->list, at, at->run == run);
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

void jobs_begin(struct jobs *jobs, struct rpc_call *call, struct run *run, const json_t *arguments)
{
    struct tools *tools = jobs->tools;
    uint64_t wait_ms = jobs_wait_ms(tools, arguments);
    if (wait_ms == 0 && jobs_count_running(jobs) >= tools->config.jobs) {
        OWNED(buf_done) struct buf running = BUF_EMPTY;
        append_limit(jobs, &running);
        run_free(run);
        content_refuse(call, "[not run: %s]", buf_text(&running));
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
        if (r != -EMFILE) {
            content_refuse(call, "The server is out of memory.");
            return;
        }
        content_refuse(call, "Too many sessions: at most %u can be open. Use an existing session.",
                       LIMIT_SESSIONS);
    }
}

void jobs_wait(struct jobs *jobs, struct rpc_call *call, const json_t *arguments)
{
    const json_t *sent = json_object_get(arguments, "job");
    bool stops = json_is_true(json_object_get(arguments, "stop"));
    json_int_t number = json_integer_value(sent);
    struct job *only =
        jobs_count_running(jobs) == 1 ? list_find(jobs->list, at, job_is_running(at)) : NULL;
    struct job *job = !sent ? only
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
        (void)jobs_stop(jobs, job->run->job, NULL);
    } else {
        jobs->hooks->waits(jobs->tools, job->run);
    }
}

bool jobs_stop(struct jobs *jobs, unsigned number, const char *by)
{
    const struct job *job = jobs_find(jobs, number);
    if (!job || job->returned || job->run->stop) {
        return false;
    }
    job->run->given_up_by = by;
    sessions_stop(jobs->tools->sessions, job->run);
    return true;
}
