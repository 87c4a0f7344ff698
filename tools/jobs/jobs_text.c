/* What results say of jobs. */
#include <stdint.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/own.h"
#include "tools/box/tool.h"
#include "tools/content/content.h"
#include "tools/jobs/jobs_internal.h"
#include "tools/run/run.h"

unsigned job_seconds(const struct job *job)
{
    const struct run *run = job->run;
    uint64_t ns = job->returned         ? run->end.duration_ns
                  : run->started_ns > 0 ? clock_now_ns() - run->started_ns
                                        : 0;
    return (unsigned)(ns / CLOCK_NS_PER_MS / 1000);
}

void jobs_append_ended(struct jobs *jobs, struct buf *text)
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

void jobs_append_running(const struct jobs *jobs, struct buf *text)
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
    return buf_append_text(text, " | \"branch\": true works beside it");
}

int job_append_status(const struct job *job, struct buf *text)
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
                        " | the session belongs to the job until it ends; \"branch\": true "
                        "works beside it");
    }
    return buf_append_text(text, "]");
}

void jobs_refuse_another(const struct jobs *jobs, struct rpc_call *call)
{
    OWNED(buf_done) struct buf running = BUF_EMPTY;
    jobs_append_running(jobs, &running);
    content_refuse(call,
                   "[not run: %s | that is the limit (--jobs): stop one, or wait for its end: "
                   "{\"job\": N}]",
                   buf_text(&running));
}

void jobs_refuse_number(const struct jobs *jobs, struct rpc_call *call, uint64_t number)
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
