#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/loop.h"
#include "base/own.h"
#include "base/word.h"
#include "rpc/call.h"
#include "rpc/code.h"
#include "tools/content.h"
#include "tools/lines.h"
#include "tools/path.h"
#include "tools/tool.h"

enum { WRITE_A_TURN = 1 << 20 }; /* bytes; then the loop serves the others */

/* One write, from the call to its answer: decode in pieces, wait for the box, open, write in pieces,
 * commit. */
struct write_job {
    struct tools *tools;
    struct rpc_call *call;
    struct workspace_waiter waiter;
    char path[LIMIT_PATH_BYTES];
    enum box_write_mode mode;
    json_t *content; /* a string, as it came */
    const char *bytes;
    size_t size;
    size_t done; /* of the content while it is decoded, then of bytes */
    size_t lines;
    struct content_base64 base64;
    unsigned char *decoded;
    int fd;
    uint32_t token;
    bool existed;
    uint64_t before; /* size of the file that is appended to */
    struct loop_task task;
};

static void write_job_free(struct write_job *job)
{
    loop_task_cancel(&job->task);
    if (job->fd >= 0) {
        (void)close(job->fd);
    }
    json_decref(job->content);
    free(job->decoded);
    free(job);
}

/* A piece that does not fit is taken back whole, unless somebody else has appended meanwhile. */
static void take_back_append(const struct write_job *job)
{
    struct stat st;
    if (job->done > 0 && fstat(job->fd, &st) == 0 && st.st_size >= 0 &&
        (uint64_t)st.st_size == job->before + job->done) {
        (void)ftruncate(job->fd, (off_t)job->before);
    }
}

static void write_job_fail(struct write_job *job, int error)
{
    char text[WORD_BYTES + 212];
    struct box *box = workspace_box(job->tools->workspace);
    if (job->fd >= 0 && job->mode == BOX_WRITE_APPEND) {
        take_back_append(job);
    }
    if (job->token && error != ECONNRESET && box) {
        box_file_abort(box, job->token);
    }
    content_refuse(job->call, "%s",
                   path_error(&job->tools->config.spec->view, job->path, error, text, sizeof text));
    write_job_free(job);
}

static void write_job_succeed(struct write_job *job)
{
    char size[16];
    char total[16];
    char now[40] = "";
    char shown[WORD_BYTES + 1];
    char text[sizeof shown + 160];
    const char *verb = job->mode == BOX_WRITE_APPEND && job->existed ? "appended to"
                       : job->existed                                ? "overwrote"
                                                                     : "created";
    if (job->mode == BOX_WRITE_APPEND && job->existed) {
        (void)snprintf(now, sizeof now, "; now %s", content_size(job->before + job->size, total));
    }
    size_t lines = job->lines + (job->size > 0 && job->bytes[job->size - 1] != '\n');
    (void)word_show(job->path, strlen(job->path), shown, sizeof shown);
    int length = snprintf(text, sizeof text, "%s %s (%zu line%s, %s%s)\n", verb, shown, lines,
                          lines == 1 ? "" : "s", content_size(job->size, size), now);
    content_answer(job->call, text, (size_t)length, false);
    write_job_free(job);
}

static void write_job_committed(void *arg, int error, int fd, const struct box_file *file)
{
    struct write_job *job = arg;
    (void)fd;
    (void)file;
    if (error) {
        job->token = 0;
        write_job_fail(job, error);
    } else {
        write_job_succeed(job);
    }
}

static void write_job_step(void *arg)
{
    struct write_job *job = arg;
    size_t part = job->size - job->done;
    part = part < WRITE_A_TURN ? part : WRITE_A_TURN;
    while (part > 0) {
        ssize_t size = write(job->fd, job->bytes + job->done, part);
        if (size < 0) {
            if (errno == EINTR) {
                continue;
            }
            write_job_fail(job, errno);
            return;
        }
        job->lines += lines_ends(job->bytes + job->done, (size_t)size);
        job->done += (size_t)size;
        part -= (size_t)size;
    }
    if (job->done < job->size) {
        loop_task_queue(job->tools->loop, &job->task, write_job_step, job);
        return;
    }
    if (job->token == 0) {
        write_job_succeed(job);
        return;
    }
    struct box *box = workspace_box(job->tools->workspace);
    int r = box ? box_file_commit(box, job->token, write_job_committed, job) : -ECONNRESET;
    if (r < 0) {
        write_job_fail(job, -r);
    }
}

static void write_job_opened(void *arg, int error, int fd, const struct box_file *file)
{
    struct write_job *job = arg;
    if (error) {
        write_job_fail(job, error);
        return;
    }
    job->fd = fd;
    job->token = file->token;
    job->existed = file->existed;
    job->before = job->mode == BOX_WRITE_APPEND ? file->size_bytes : 0;
    /* RLIMIT_FSIZE holds for what runs in the box; this process writes for it. */
    if (job->before + job->size > job->tools->config.spec->limits.disk_bytes) {
        write_job_fail(job, EFBIG);
        return;
    }
    write_job_step(job);
}

static void write_job_begin(void *arg, struct box *box, const struct fail *why)
{
    struct write_job *job = arg;
    if (!box) {
        content_no_sandbox(job->call, why);
        write_job_free(job);
        return;
    }
    int r = box_file_write(box, job->path, job->mode, write_job_opened, job);
    if (r < 0) {
        write_job_fail(job, -r);
    }
}

/* The bytes are there. */
static void write_job_wait(struct write_job *job, const void *bytes, size_t size)
{
    job->bytes = bytes;
    job->size = size;
    job->done = 0;
    workspace_wait(job->tools->workspace, &job->waiter, write_job_begin, job);
}

/* All of it before the first write: what is no base64 leaves the file alone. */
static void write_job_decode(void *arg)
{
    struct write_job *job = arg;
    const char *text = json_string_value(job->content);
    size_t left = json_string_length(job->content) - job->done;
    size_t part = left < WRITE_A_TURN ? left : WRITE_A_TURN;
    int r = content_base64_more(&job->base64, text + job->done, part, job->decoded, &job->size);
    job->done += part;
    if (r == 0 && part < left) {
        loop_task_queue(job->tools->loop, &job->task, write_job_decode, job);
        return;
    }
    if (r < 0 || content_base64_end(&job->base64, job->decoded, &job->size) < 0) {
        content_refuse(job->call,
                       "/content: is not base64; send plain text with encoding=\"utf-8\", or check "
                       "the encoding");
        write_job_free(job);
        return;
    }
    write_job_wait(job, job->decoded, job->size);
}

void write_file_call(struct tools *tools, struct rpc_call *call, const json_t *arguments)
{
    static const char *const modes[] = {[BOX_WRITE_OVERWRITE] = "overwrite",
                                        [BOX_WRITE_CREATE] = "create",
                                        [BOX_WRITE_APPEND] = "append"};
    const char *mode = json_string_value(json_object_get(arguments, "mode"));
    const char *encoding = json_string_value(json_object_get(arguments, "encoding"));
    struct write_job *job = calloc(1, sizeof *job);
    if (!job) {
        rpc_call_fail(call, RPC_INTERNAL_ERROR, "out of memory");
        return;
    }
    job->tools = tools;
    job->call = call;
    job->fd = -1;
    for (unsigned i = 0; mode && i < 3; i++) {
        if (strcmp(mode, modes[i]) == 0) {
            job->mode = (enum box_write_mode)i;
        }
    }
    const char *trouble = path_take(json_object_get(arguments, "path"), job->path);
    if (trouble) {
        content_refuse(call, "%s", trouble);
        write_job_free(job);
        return;
    }
    const char *name = box_protected_path(tools->config.spec, job->path);
    if (name) {
        content_refuse(call,
                       "/path: %s is read-only in the workspace, because programs outside of the "
                       "sandbox act on it. The user can allow it: --allow-write %s.",
                       name, name);
        write_job_free(job);
        return;
    }
    job->content = json_incref(json_object_get(arguments, "content"));
    size_t size = json_string_length(job->content);
    if (!encoding || strcmp(encoding, "base64") != 0) {
        write_job_wait(job, json_string_value(job->content), size);
        return;
    }
    job->decoded = malloc(size / 4 * 3 + 3);
    if (!job->decoded) {
        content_refuse(call, "The server is out of memory.");
        write_job_free(job);
        return;
    }
    write_job_decode(job);
}
