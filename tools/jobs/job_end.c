/* The end of a run: job_returned() waits for init to complete the overflow file if there is one,
 * job_read_images() for init to open each image, and job_end() sends the results. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/word.h"
#include "record/record.h"
#include "rpc/call.h"
#include "tools/content/content.h"
#include "tools/content/magic.h"
#include "tools/content/mounts.h"
#include "tools/jobs/jobs_internal.h"
#include "tools/run/recorded.h"

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

/* --- images, one after the other --- */

/* A client that was sent it could refuse the whole conversation. */
static void name_damaged(struct job *job)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    buf_append_text(&text, "[");
    word_append(&text, job->read.path, strlen(job->read.path));
    buf_append_text(&text, " is incomplete or damaged, so it is not shown]\n");
    job->read.count++;
    (void)json_array_append_new(job->images, content_text(buf_bytes(&text), buf_size(&text)));
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
        if (mime && !magic_is_whole(buf_bytes(&content), have)) {
            name_damaged(job);
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

/* --- the file of what is too long --- */

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

/* --- facts of the end --- */

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

void job_returned(void *arg, struct run *run)
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
