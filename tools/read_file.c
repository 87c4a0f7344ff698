#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/loop.h"
#include "base/own.h"
#include "rpc/call.h"
#include "rpc/code.h"
#include "schema/near.h"
#include "tools/content.h"
#include "tools/listing.h"
#include "tools/path.h"
#include "tools/tool.h"

enum {
    READ_A_TURN = 1 << 20,   /* then the loop serves the others */
    READ_TEXT_BYTES = 24000, /* of text in one answer */
    READ_BASE64_BYTES = 480000,
};

enum read_encoding { READ_AUTO, READ_TEXT, READ_BASE64 };

/* One read, from the call to its answer: wait for the box, open, read in pieces, answer. */
struct read_job {
    struct tools *tools;
    struct rpc_call *call;
    struct workspace_waiter waiter;
    char path[LIMIT_PATH_BYTES];
    enum read_encoding encoding;
    bool has_start;
    bool has_end;
    bool has_bytes; /* offset or length */
    long long start_line;
    long long end_line;
    uint64_t offset;
    uint64_t length;
    int fd;
    uint64_t file_size;
    struct buf content;
    struct loop_task task;
};

static void read_job_free(struct read_job *job)
{
    loop_task_cancel(&job->task);
    if (job->fd >= 0) {
        (void)close(job->fd);
    }
    buf_done(&job->content);
    free(job);
}

static void read_job_fail(struct read_job *job, int error)
{
    char text[512];
    content_refuse(job->call, "%s", path_error(job->path, error, text, sizeof text));
    read_job_free(job);
}

/* Answers with text, or with the failure of composing it. */
static void read_job_end(struct read_job *job, int r, const struct buf *text)
{
    if (r < 0) {
        read_job_fail(job, ENOMEM);
        return;
    }
    content_answer(job->call, buf_bytes(text), buf_size(text), false);
    read_job_free(job);
}

/* --- what it is --- */

/* Text, for a reader: no NUL in its first part. */
static bool looks_binary(const char *bytes, size_t size)
{
    return memchr(bytes, '\0', size < 8192 ? size : 8192) != NULL;
}

/* --- answers --- */

static void answer_image(struct read_job *job, const char *mime)
{
    char size[16];
    char text[LIMIT_PATH_BYTES + 64];
    (void)snprintf(text, sizeof text, "[%s: %s, %s]\n", job->path, mime,
                   content_size(buf_size(&job->content), size));
    json_t *content = json_array();
    (void)json_array_append_new(content, content_text(text, strlen(text)));
    (void)json_array_append_new(
        content, content_image(buf_bytes(&job->content), buf_size(&job->content), mime));
    rpc_call_result(job->call, content, NULL, false);
    read_job_free(job);
}

static void answer_base64(struct read_job *job)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    size_t size = buf_size(&job->content);
    uint64_t offset = job->offset < size ? job->offset : size;
    uint64_t left = size - offset;
    uint64_t length = job->has_bytes && job->length < left ? job->length : left;
    length = length < READ_BASE64_BYTES ? length : READ_BASE64_BYTES;
    uint64_t end = offset + length;
    int r = content_base64_encode(buf_bytes(&job->content) + offset, (size_t)length, &text);
    if (r == 0 && length < size) {
        r = buf_appendf(&text, "\n[bytes %llu-%llu of %zu", (unsigned long long)offset,
                        (unsigned long long)end, size);
        if (r == 0 && end < size) {
            r = buf_appendf(&text, "; continue with offset=%llu", (unsigned long long)end);
        }
        r = r ? r : buf_append_text(&text, "]\n");
    }
    read_job_end(job, r, &text);
}

static void answer_binary(struct read_job *job)
{
    char size[16];
    char text[LIMIT_PATH_BYTES + 160];
    (void)snprintf(text, sizeof text,
                   "[%s is a binary file, %s; read it with encoding=\"base64\", or with Python]\n",
                   job->path, content_size(buf_size(&job->content), size));
    content_answer(job->call, text, strlen(text), false);
    read_job_free(job);
}

static size_t count_lines(const char *bytes, size_t size)
{
    size_t lines = 0;
    for (const char *at = bytes; (at = memchr(at, '\n', size - (size_t)(at - bytes)));) {
        lines++;
        at++;
        if (at == bytes + size) {
            return lines;
        }
    }
    return lines + (size > 0);
}

/* Byte where line number line (from 1) begins; size when there are fewer. */
static size_t line_start(const char *bytes, size_t size, size_t line)
{
    size_t at = 0;
    for (; line > 1 && at < size; line--) {
        const char *newline = memchr(bytes + at, '\n', size - at);
        at = newline ? (size_t)(newline - bytes) + 1 : size;
    }
    return at;
}

/* Cuts [*begin, *end) to what one answer takes, at a line's end where there is one. */
static size_t cut_text(const char *bytes, size_t begin, size_t end)
{
    if (end - begin <= READ_TEXT_BYTES) {
        return end;
    }
    end = begin + READ_TEXT_BYTES;
    for (size_t at = end; at > begin + READ_TEXT_BYTES / 2; at--) {
        if (bytes[at - 1] == '\n') {
            return at;
        }
    }
    while (end > begin && ((unsigned char)bytes[end] & 0xc0) == 0x80) {
        end--;
    }
    return end;
}

static void answer_lines(struct read_job *job)
{
    const char *bytes = buf_bytes(&job->content);
    size_t size = buf_size(&job->content);
    size_t lines = count_lines(bytes, size);
    char human[16];
    size_t first = 1;
    if (job->has_start && job->start_line > 0) {
        first = (size_t)job->start_line;
    } else if (job->has_start && job->start_line < 0) {
        size_t back = (size_t)-job->start_line;
        first = back < lines ? lines - back + 1 : 1;
    }
    size_t last = job->has_end && job->end_line >= 0 && (size_t)job->end_line < lines
                      ? (size_t)job->end_line
                      : lines;
    if (size > 0 && (first > lines || last < first)) {
        content_refuse(job->call, "%.300s has %zu lines; there are no lines %zu to %zu.", job->path,
                       lines, first, last);
        read_job_free(job);
        return;
    }
    size_t begin = line_start(bytes, size, first);
    size_t end = cut_text(bytes, begin, line_start(bytes, size, last + 1));
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    int r = buf_append(&text, bytes + begin, end - begin);
    size_t shown = count_lines(bytes + begin, end - begin);
    bool whole_line = end == size || (end > begin && bytes[end - 1] == '\n');
    if (r == 0 && (begin > 0 || end < size)) {
        r = buf_appendf(&text, "%s[lines %zu-%zu of %zu, %s", whole_line && end != size ? "" : "\n",
                        first, first + shown - (shown > 0), lines, content_size(size, human));
        if (r == 0 && end < size && whole_line) {
            r = buf_appendf(&text, "; continue with start_line=%zu", first + shown);
        } else if (r == 0 && end < size) {
            r = buf_appendf(&text, "; the line goes on: continue with offset=%zu", end);
        }
        r = r ? r : buf_append_text(&text, "]\n");
    }
    read_job_end(job, r, &text);
}

/* Text by offset and length, in bytes. */
static void answer_bytes(struct read_job *job)
{
    const char *bytes = buf_bytes(&job->content);
    size_t size = buf_size(&job->content);
    size_t begin = job->offset < size ? (size_t)job->offset : size;
    size_t end = job->length < size - begin ? begin + (size_t)job->length : size;
    end = cut_text(bytes, begin, end);
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    int r = buf_append(&text, bytes + begin, end - begin);
    r = r ? r : buf_appendf(&text, "\n[bytes %zu-%zu of %zu", begin, end, size);
    if (r == 0 && end < size) {
        r = buf_appendf(&text, "; continue with offset=%zu", end);
    }
    r = r ? r : buf_append_text(&text, "]\n");
    read_job_end(job, r, &text);
}

static void read_job_answer(struct read_job *job)
{
    const char *bytes = buf_bytes(&job->content);
    size_t size = buf_size(&job->content);
    const char *mime = job->encoding == READ_AUTO ? content_image_type(bytes, size) : NULL;
    if (job->encoding == READ_BASE64) {
        answer_base64(job);
    } else if (mime && size <= LIMIT_IMAGES_BYTES) {
        answer_image(job, mime);
    } else if (size == 0) {
        static const char empty[] = "[the file is empty]\n";
        content_answer(job->call, empty, sizeof empty - 1, false);
        read_job_free(job);
    } else if (job->encoding == READ_AUTO && looks_binary(bytes, size)) {
        answer_binary(job);
    } else if (job->has_bytes) {
        answer_bytes(job);
    } else {
        answer_lines(job);
    }
}

/* --- reading --- */

static void read_job_step(void *arg)
{
    struct read_job *job = arg;
    size_t left = READ_A_TURN;
    while (left > 0) {
        char *space = NULL;
        size_t have = buf_size(&job->content);
        size_t part = left < 65536 ? left : 65536;
        if (have >= LIMIT_FILE_BYTES || buf_reserve(&job->content, part, &space) < 0) {
            break;
        }
        ssize_t size = pread(job->fd, space, part, (off_t)have);
        if (size < 0 && errno == EINTR) {
            continue;
        }
        if (size < 0) {
            read_job_fail(job, errno);
            return;
        }
        if (size == 0) {
            read_job_answer(job);
            return;
        }
        buf_commit(&job->content, (size_t)size);
        left -= (size_t)size;
    }
    if (left > 0) {
        content_refuse(job->call, "%.300s is larger than %lu MiB; read it with Python, in parts.",
                       job->path, LIMIT_FILE_BYTES >> 20);
        read_job_free(job);
        return;
    }
    loop_task_queue(job->tools->loop, &job->task, read_job_step, job);
}

/* Nothing has that name: says which of its neighbours may be meant. */
static void read_job_parent_opened(void *arg, int error, int fd, const struct box_file *file)
{
    struct read_job *job = arg;
    (void)file;
    const char *slash = strrchr(job->path, '/');
    json_auto_t *names = error ? NULL : listing_names(fd);
    const char *near = names ? near_key(names, slash ? slash + 1 : job->path) : NULL;
    if (!near) {
        read_job_fail(job, ENOENT);
        return;
    }
    content_refuse(job->call, "%.300s not found. Did you mean %.*s%.300s?", job->path,
                   slash ? (int)(slash + 1 - job->path) : 0, job->path, near);
    read_job_free(job);
}

static void read_job_not_found(struct read_job *job)
{
    char parent[LIMIT_PATH_BYTES];
    struct box *box = workspace_box(job->tools->workspace);
    (void)snprintf(parent, sizeof parent, "%s", job->path);
    char *slash = strrchr(parent, '/');
    if (slash) {
        slash[slash == parent ? 1 : 0] = '\0';
    }
    if (!box || box_file_open(box, slash ? parent : ".", read_job_parent_opened, job) < 0) {
        read_job_fail(job, ENOENT);
    }
}

static void read_job_opened(void *arg, int error, int fd, const struct box_file *file)
{
    struct read_job *job = arg;
    if (error == ENOENT) {
        read_job_not_found(job);
        return;
    }
    if (error) {
        read_job_fail(job, error);
        return;
    }
    job->fd = fd;
    job->file_size = file->size_bytes;
    if (S_ISDIR(file->mode)) {
        OWNED(buf_done) struct buf text = BUF_EMPTY;
        int r = listing_compose(take_fd(&job->fd), job->path, &text);
        if (r < 0) {
            read_job_fail(job, -r);
            return;
        }
        content_answer(job->call, buf_bytes(&text), buf_size(&text), false);
        read_job_free(job);
        return;
    }
    if (file->size_bytes > LIMIT_FILE_BYTES) {
        char size[16];
        content_refuse(job->call,
                       "%.300s is %s, larger than %lu MiB; read it with Python, in parts.",
                       job->path, content_size(file->size_bytes, size), LIMIT_FILE_BYTES >> 20);
        read_job_free(job);
        return;
    }
    read_job_step(job);
}

static void read_job_begin(void *arg, struct box *box, const struct fail *why)
{
    struct read_job *job = arg;
    if (!box) {
        content_no_sandbox(job->call, why);
        read_job_free(job);
        return;
    }
    int r = box_file_open(box, job->path, read_job_opened, job);
    if (r < 0) {
        read_job_fail(job, -r);
    }
}

static uint64_t take_count(const json_t *arguments, const char *name, uint64_t otherwise)
{
    const json_t *value = json_object_get(arguments, name);
    return json_is_integer(value) && json_integer_value(value) >= 0
               ? (uint64_t)json_integer_value(value)
               : otherwise;
}

void read_file_call(struct tools *tools, struct rpc_call *call, const json_t *arguments)
{
    const char *encoding = json_string_value(json_object_get(arguments, "encoding"));
    const json_t *start = json_object_get(arguments, "start_line");
    const json_t *end = json_object_get(arguments, "end_line");
    struct read_job *job = calloc(1, sizeof *job);
    if (!job) {
        rpc_call_fail(call, RPC_INTERNAL_ERROR, "out of memory");
        return;
    }
    job->tools = tools;
    job->call = call;
    job->fd = -1;
    job->encoding = !encoding || strcmp(encoding, "auto") == 0 ? READ_AUTO
                    : strcmp(encoding, "base64") == 0          ? READ_BASE64
                                                               : READ_TEXT;
    job->has_start = start != NULL;
    job->has_end = end != NULL;
    job->start_line = json_integer_value(start);
    job->end_line = json_integer_value(end);
    job->has_bytes = json_object_get(arguments, "offset") || json_object_get(arguments, "length");
    job->offset = take_count(arguments, "offset", 0);
    job->length = take_count(arguments, "length", UINT64_MAX);
    const char *trouble = path_take(json_object_get(arguments, "path"), job->path);
    if (trouble) {
        content_refuse(call, "%s", trouble);
        read_job_free(job);
        return;
    }
    workspace_wait(tools->workspace, &job->waiter, read_job_begin, job);
}
