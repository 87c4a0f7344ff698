#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/word.h"
#include "rpc/call.h"
#include "rpc/code.h"
#include "schema/near.h"
#include "tools/content.h"
#include "tools/data.h"
#include "tools/listing.h"
#include "tools/magic.h"
#include "tools/path.h"
#include "tools/read_text.h"
#include "tools/thumbnail.h"
#include "tools/tool.h"
#include "tools/utf16.h"

enum {
    CLIMBS_MOST = 16,
    NEIGHBOURS_SHOWN = 10,
    BASE64_UNASKED_BYTES = 12000 /* 16,000 characters */
};

enum read_encoding { READ_AUTO, READ_TEXT, READ_BASE64 };

/* One read, from the call to its answer: wait for the box, open, see what it is, answer. */
struct read_job {
    struct tools *tools;
    struct rpc_call *call;
    struct workspace_waiter waiter;
    char path[LIMIT_PATH_BYTES];
    size_t missing;  /* of path: the beginning that does not exist */
    unsigned climbs; /* how often that was shortened */
    enum read_encoding encoding;
    struct read_range range;
    int fd;
    uint64_t size;
    struct magic magic;
    struct buf image; /* its bytes, where they fit into an answer */
    struct read_text text;
};

static void read_job_free(struct read_job *job)
{
    read_text_stop(&job->text);
    if (job->fd >= 0) {
        (void)close(job->fd);
    }
    buf_done(&job->image);
    free(job);
}

static void read_job_fail(struct read_job *job, int error)
{
    char text[WORD_BYTES + 212];
    content_refuse(job->call, "%s",
                   path_error(&job->tools->config.spec->view, job->path, error, text, sizeof text));
    read_job_free(job);
}

/* Answers with text, or with the failure of composing it. */
static void read_job_end(struct read_job *job, int r, const struct buf *text, bool is_error)
{
    if (r < 0) {
        read_job_fail(job, -r);
        return;
    }
    content_answer(job->call, buf_bytes(text), buf_size(text), is_error);
    read_job_free(job);
}

/* --- images --- */

/* "[plot.png: PNG image, 640x480, 18 kB]", and the image. note: what else is to be said, or "". */
static void answer_image(struct read_job *job, const void *bytes, size_t size, const char *note)
{
    char human[16];
    uint32_t width = 0;
    uint32_t height = 0;
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    int r = buf_append_text(&text, "[");
    r = r ? r : word_append(&text, job->path, strlen(job->path));
    r = r ? r : buf_appendf(&text, ": %s, ", job->magic.name);
    if (r == 0 && magic_measure(buf_bytes(&job->image), buf_size(&job->image), &width, &height)) {
        r = buf_appendf(&text, "%ux%u, ", width, height);
    }
    r = r ? r : buf_appendf(&text, "%s%s]\n", content_size(job->size, human), note);
    json_t *content = r == 0 ? json_array() : NULL;
    if (content &&
        (json_array_append_new(content, content_text(buf_bytes(&text), buf_size(&text))) < 0 ||
         json_array_append_new(content,
                               content_image(bytes, size, content_image_type(bytes, size))) < 0)) {
        json_decref(content);
        content = NULL;
    }
    content_end(job->call, content, buf_bytes(&text), buf_size(&text), false);
    read_job_free(job);
}

/* "[data.db is a binary file: SQLite database, 12 kB; …]" */
static void answer_binary(struct read_job *job, const char *reason)
{
    char human[16];
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    const char *name = job->magic.name;
    int r = buf_append_text(&text, "[");
    r = r ? r : word_append(&text, job->path, strlen(job->path));
    r = r ? r
          : buf_appendf(&text, " is a binary file%s%s, %s; %s%sread it with Python%s]\n",
                        name ? ": " : "", name ? name : "", content_size(job->size, human),
                        reason ? reason : "", reason ? "; " : "",
                        reason ? "" : ", or its bytes with encoding=\"base64\"");
    read_job_end(job, r, &text, false);
}

/* Whether the bytes that are there make an image that a host can take. */
static bool is_showable(const struct read_job *job, uint32_t side_limit)
{
    size_t size = buf_size(&job->image);
    return size == job->size && content_image_fits(buf_bytes(&job->image), size, side_limit);
}

static void read_job_shrunk(void *arg, enum thumbnail_outcome outcome, const void *bytes,
                            size_t size, const char *reason)
{
    struct read_job *job = arg;
    char note[256] = "";
    uint32_t width = 0;
    uint32_t height = 0;
    if (outcome == THUMBNAIL_MADE) {
        if (magic_measure(bytes, size, &width, &height)) {
            (void)snprintf(note, sizeof note, "; shown as %ux%u", width, height);
        }
        answer_image(job, bytes, size, note);
    } else if (outcome == THUMBNAIL_NO_TOOL && is_showable(job, LIMIT_IMAGE_SIDE_MOST)) {
        (void)snprintf(note, sizeof note, "; shown as it is: %s", reason);
        answer_image(job, buf_bytes(&job->image), buf_size(&job->image), note);
    } else {
        answer_binary(job, reason);
    }
}

/* One that fits is shown as it is, any other made smaller. The beginning of a larger one is read too,
 * because it holds the width and height. */
static void read_image(struct read_job *job)
{
    char *space = NULL;
    size_t wanted = job->size < LIMIT_IMAGES_BYTES ? (size_t)job->size : LIMIT_IMAGES_BYTES;
    int r = buf_reserve(&job->image, wanted, &space);
    ssize_t have = r < 0 ? r : fd_pread_all(job->fd, space, wanted, 0);
    if (have < 0) {
        read_job_fail(job, (int)-have);
        return;
    }
    buf_commit(&job->image, (size_t)have);
    if (is_showable(job, LIMIT_IMAGE_SIDE)) {
        answer_image(job, buf_bytes(&job->image), buf_size(&job->image), "");
    } else {
        thumbnail_make(job->tools, job->path, read_job_shrunk, job);
    }
}

/* --- bytes and text --- */

static void answer_base64(struct read_job *job)
{
    OWNED(buf_done) struct buf bytes = BUF_EMPTY;
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    char *space = NULL;
    uint64_t begin = job->range.offset < job->size ? job->range.offset : job->size;
    uint64_t length = job->range.length == UINT64_MAX          ? BASE64_UNASKED_BYTES
                      : job->range.length < LIMIT_BASE64_BYTES ? job->range.length
                                                               : LIMIT_BASE64_BYTES;
    int r = buf_reserve(&bytes, (size_t)length, &space);
    ssize_t have = r < 0 ? r : fd_pread_all(job->fd, space, (size_t)length, begin);
    r = have < 0 ? (int)have : content_base64_encode(space, (size_t)have, &text);
    uint64_t end = begin + (uint64_t)(have < 0 ? 0 : have);
    if (r == 0 && (begin > 0 || end < job->size)) {
        r = buf_appendf(&text, "\n[bytes %llu-%llu of %llu", (unsigned long long)begin,
                        (unsigned long long)end, (unsigned long long)job->size);
        if (r == 0 && end < job->size) {
            r = buf_appendf(&text, "; continue with offset=%llu, length up to %lu",
                            (unsigned long long)end, LIMIT_BASE64_BYTES);
        }
        r = r ? r : buf_append_text(&text, "]\n");
    }
    read_job_end(job, r, &text, false);
}

static void read_job_text(void *arg, int error, const struct buf *text, bool is_error)
{
    read_job_end(arg, -error, text, is_error);
}

static void read_text(struct read_job *job)
{
    read_text_start(&job->text, job->tools->loop, job->fd, &job->range, read_job_text, job);
}

/* Reads the file, and goes on with a nameless one that holds the same as UTF-8. */
static int decode_utf16(struct read_job *job)
{
    OWNED(buf_done) struct buf raw = BUF_EMPTY;
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    char *space = NULL;
    int r = buf_reserve(&raw, (size_t)job->size, &space);
    if (r < 0) {
        return r;
    }
    ssize_t have = fd_pread_all(job->fd, space, (size_t)job->size, 0);
    if (have < 0) {
        return (int)have;
    }
    r = utf16_decode(space, (size_t)have, &text);
    defer_close int fd = r < 0 ? -1 : memfd_create("utf16", MFD_CLOEXEC);
    if (fd < 0) {
        return r < 0 ? r : -errno;
    }
    r = fd_write_all(fd, buf_bytes(&text), buf_size(&text));
    if (r == 0) {
        int old = job->fd;
        job->fd = take_fd(&fd);
        fd = old;
    }
    return r;
}

static void read_regular(struct read_job *job)
{
    char head[MAGIC_BYTES];
    ssize_t have = fd_pread_all(job->fd, head, sizeof head, 0);
    if (have < 0) {
        read_job_fail(job, (int)-have);
        return;
    }
    job->magic = magic_of(head, (size_t)have);
    enum magic_kind kind = job->encoding == READ_TEXT ? MAGIC_TEXT : job->magic.kind;
    if (job->encoding == READ_BASE64) {
        answer_base64(job);
    } else if (have == 0) {
        static const char empty[] = "[the file is empty]\n";
        content_answer(job->call, empty, sizeof empty - 1, false);
        read_job_free(job);
    } else if (kind == MAGIC_IMAGE || kind == MAGIC_PICTURE) {
        read_image(job);
    } else if (kind == MAGIC_BINARY || (kind == MAGIC_UTF16 && job->size > LIMIT_UTF16_BYTES)) {
        answer_binary(job, NULL);
    } else {
        int r = kind == MAGIC_UTF16 ? decode_utf16(job) : 0;
        if (r < 0) {
            read_job_fail(job, -r);
        } else {
            read_text(job);
        }
    }
}

/* --- names --- */

static void read_job_look_up(struct read_job *job);

static int append_path(struct buf *text, const char *path, size_t size, const char *name)
{
    char whole[LIMIT_PATH_BYTES + NAME_MAX + 1];
    int length = snprintf(whole, sizeof whole, "%.*s%s", (int)size, path, name);
    return word_append(text, whole, (size_t)length);
}

static int append_neighbours(const json_t *names, struct buf *text)
{
    unsigned count = 0;
    const char *key = NULL;
    json_t *value = NULL;
    int r = 0;
    json_object_foreach ((json_t *)(uintptr_t)names, key, value) {
        if (r == 0 && count < NEIGHBOURS_SHOWN) {
            r = buf_append_text(text, count ? ", " : " ");
            r = r ? r : word_append(text, key, strlen(key));
        }
        count++;
    }
    return r == 0 && count > NEIGHBOURS_SHOWN
               ? buf_appendf(text, " and %u more", count - NEIGHBOURS_SHOWN)
               : r;
}

/* "data/sales.csv not found. In data: 2023.csv, 2024.csv" or the name that may be meant. */
static int describe_neighbours(const struct read_job *job, const char *name, size_t parent_size,
                               const json_t *names, struct buf *text)
{
    const char *work = job->tools->config.spec->view.work;
    bool is_folder = job->path[job->missing] == '/';
    const char *near = near_key(names, name);
    int r = append_path(text, job->path, strlen(job->path), "");
    r = r ? r : buf_append_text(text, " not found");
    if (r == 0 && is_folder) {
        r = buf_append_text(text, ": there is no folder ");
        r = r ? r : append_path(text, job->path, job->missing, "");
    }
    r = r ? r : buf_append_text(text, ".");
    if (r == 0 && near) {
        r = buf_append_text(text, " Did you mean ");
        r = r ? r : append_path(text, job->path, parent_size, near);
        return r ? r : buf_append_text(text, "?");
    }
    if (r < 0 || json_object_size(names) == 0) {
        return r;
    }
    r = buf_append_text(text, " In ");
    r = r ? r
          : append_path(text, parent_size ? job->path : work,
                        parent_size ? parent_size - (parent_size > 1) : strlen(work), "");
    r = r ? r : buf_append_text(text, ":");
    return r ? r : append_neighbours(names, text);
}

static void read_job_parent_opened(void *arg, int error, int fd, const struct box_file *file)
{
    struct read_job *job = arg;
    (void)file;
    size_t end = job->missing;
    const char *slash = memrchr(job->path, '/', end);
    size_t parent_size = slash ? (size_t)(slash - job->path) + 1 : 0;
    if (error == ENOENT && parent_size > 1 && job->climbs++ < CLIMBS_MOST) {
        job->missing = parent_size - 1;
        read_job_look_up(job);
        return;
    }
    json_auto_t *names = error ? NULL : listing_names(fd);
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    char name[LIMIT_PATH_BYTES];
    (void)snprintf(name, sizeof name, "%.*s", (int)(end - parent_size), job->path + parent_size);
    if (!names || describe_neighbours(job, name, parent_size, names, &text) < 0) {
        read_job_fail(job, ENOENT);
        return;
    }
    read_job_end(job, 0, &text, true);
}

/* A path of the host, of which the user spoke, or one without the folder's own name in front. Returns
 * whether it was one, which ends the job. */
static bool read_job_guess(struct read_job *job)
{
    char guess[LIMIT_PATH_BYTES];
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    if (!data_guess(job->tools->config.spec, job->path, guess, sizeof guess)) {
        return false;
    }
    int r = append_path(&text, job->path, strlen(job->path), "");
    r = r ? r : buf_append_text(&text, " not found. Did you mean ");
    r = r ? r : append_path(&text, guess, strlen(guess), "");
    r = r ? r : buf_append_text(&text, "?");
    read_job_end(job, r, &text, true);
    return true;
}

/* Opens the folder in which path[0 … missing) should be. */
static void read_job_look_up(struct read_job *job)
{
    char parent[LIMIT_PATH_BYTES];
    struct box *box = workspace_box(job->tools->workspace);
    const char *slash = memrchr(job->path, '/', job->missing);
    size_t size = slash == job->path ? 1 : slash ? (size_t)(slash - job->path) : 0;
    (void)snprintf(parent, sizeof parent, "%.*s", size ? (int)size : 1, size ? job->path : ".");
    if (!box || box_file_open(box, parent, read_job_parent_opened, job) < 0) {
        read_job_fail(job, ENOENT);
    }
}

/* --- the way to the file --- */

static void read_job_opened(void *arg, int error, int fd, const struct box_file *file)
{
    struct read_job *job = arg;
    if (error == ENOENT) {
        job->missing = strlen(job->path);
        while (job->missing > 1 && job->path[job->missing - 1] == '/') {
            job->path[--job->missing] = '\0';
        }
        if (!read_job_guess(job)) {
            read_job_look_up(job);
        }
        return;
    }
    if (error) {
        read_job_fail(job, error);
        return;
    }
    job->fd = fd;
    job->size = file->size_bytes;
    if (S_ISDIR(file->mode)) {
        OWNED(buf_done) struct buf text = BUF_EMPTY;
        int r = listing_compose(take_fd(&job->fd), job->path, job->range.start_line,
                                job->range.end_line, &text);
        read_job_end(job, r, &text, false);
        return;
    }
    read_regular(job);
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

/* No file has as many lines as the bound, and sums of two such numbers do not overflow. */
static long long take_line(const json_t *arguments, const char *name)
{
    static const long long most = 1LL << 60;
    long long line = json_integer_value(json_object_get(arguments, name));
    return line > most ? most : line < -most ? -most : line;
}

void read_file_call(struct tools *tools, struct rpc_call *call, const json_t *arguments)
{
    const char *encoding = json_string_value(json_object_get(arguments, "encoding"));
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
    job->range = (struct read_range){
        .path = job->path,
        .has_bytes = json_object_get(arguments, "offset") || json_object_get(arguments, "length"),
        .start_line = take_line(arguments, "start_line"),
        .end_line = take_line(arguments, "end_line"),
        .offset = take_count(arguments, "offset", 0),
        .length = take_count(arguments, "length", UINT64_MAX),
    };
    const char *trouble = path_take(json_object_get(arguments, "path"), job->path);
    if (trouble) {
        content_refuse(call, "%s", trouble);
        read_job_free(job);
        return;
    }
    workspace_wait(tools->workspace, &job->waiter, read_job_begin, job);
}
