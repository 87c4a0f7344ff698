/* Lists the workspace's files for a client, a page at a time. A page holds no state: the walk goes
 * through the directories in the order of their names, and begins after the path in the cursor.
 * Init opens directories one after the other, with the guest's paths and rights. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/word.h"
#include "rpc/call.h"
#include "rpc/text.h"
#include "tools/box/tool.h"
#include "tools/content/app_view.h"
#include "tools/content/content.h"
#include "tools/content/mounts.h"
#include "tools/files/listing.h"
#include "tools/files/read_text.h"
#include "tools/order/order.h"

enum { PAGE_BYTES = 400000 /* hostile names could make a page too long for clients */ };

struct level {
    DIR *dir;
    struct listing listing;
    size_t at;
    size_t path_size; /* of the directory's own path, with a slash unless it is empty */
};

struct list_op {
    struct tools *tools;
    struct rpc_call *call;
    struct server_box_waiter waiter;
    char cursor[LIMIT_PATH_BYTES]; /* empty: from the beginning */
    char path[LIMIT_PATH_BYTES];   /* the current entry */
    char last[LIMIT_PATH_BYTES];   /* the last entry listed */
    struct level levels[LIMIT_RESOURCE_DEPTH];
    unsigned depth;
    unsigned directories;
    size_t bytes;
    json_t *page;
};

static void pop(struct list_op *op)
{
    struct level *level = &op->levels[--op->depth];
    listing_done(&level->listing);
    (void)closedir(level->dir);
}

static void list_free(struct list_op *op)
{
    while (op->depth > 0) {
        pop(op);
    }
    json_decref(op->page);
    free(op);
}

/* next: the path after which the next page begins, or NULL: this is the last one. */
static void list_end(struct list_op *op, const char *next)
{
    json_t *result = op->page ? json_pack("{s:O, s:o*}", "resources", op->page, "nextCursor",
                                          next ? resource_cursor(next) : NULL)
                              : NULL;
    rpc_call_respond(op->call, result);
    list_free(op);
}

static void list_fail(struct list_op *op, int code, const char *sentence)
{
    rpc_call_fail(op->call, code, sentence);
    list_free(op);
}

static void append_file(struct list_op *op, uint64_t size)
{
    char name[WORD_BYTES + 1]; /* clients show it to people */
    json_t *uri = resource_uri(op->path);
    op->bytes += json_string_length(uri) + strlen(op->path);
    json_t *file = json_pack("{s:o, s:s, s:I}", "uri", uri, "name",
                             word_show(op->path, strlen(op->path), name, sizeof name), "size",
                             (json_int_t)size);
    if (json_array_append_new(op->page, file) < 0) {
        json_decref(take_ptr(op->page));
        return;
    }
    (void)snprintf(op->last, sizeof op->last, "%s", op->path);
}

static void directory_opened(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS]);

enum list_step { LIST_ON, LIST_WAIT, LIST_ENDED };

/* Checks one entry of the innermost directory. */
static enum list_step list_entry(struct list_op *op, struct level *level)
{
    const char *name = level->listing.names[level->at++];
    struct stat st;
    size_t space = sizeof op->path - level->path_size;
    if (name[0] == '.' || strlen(name) >= space) {
        return LIST_ON; /* hidden, as in a shell */
    }
    memcpy(op->path + level->path_size, name, strlen(name) + 1);
    enum resource_place place =
        op->cursor[0] ? resource_place(op->path, op->cursor) : RESOURCE_BEHIND;
    if (place == RESOURCE_BEFORE ||
        fstatat(dirfd(level->dir), name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return LIST_ON;
    }
    bool directory = S_ISDIR(st.st_mode) && op->depth < LIMIT_RESOURCE_DEPTH;
    bool listed = S_ISREG(st.st_mode) && place == RESOURCE_BEHIND;
    bool full = json_array_size(op->page) >= LIMIT_RESOURCES || op->bytes >= PAGE_BYTES;
    if (full && (directory || listed)) {
        list_end(op, op->last);
        return LIST_ENDED;
    }
    if (listed) {
        append_file(op, (uint64_t)st.st_size);
    }
    if (!directory) {
        return LIST_ON;
    }
    if (op->directories++ ==
        LIMIT_RESOURCE_DIRECTORIES) { /* its content comes with the next page */
        list_end(op, op->path);
        return LIST_ENDED;
    }
    struct box *box = server_box_get(op->tools->server_box);
    return box && box_file_open(box, op->path, directory_opened, op) == 0 ? LIST_WAIT : LIST_ON;
}

static void list_go_on(struct list_op *op)
{
    enum list_step step = LIST_ON;
    while (step == LIST_ON) {
        struct level *level = op->depth > 0 ? &op->levels[op->depth - 1] : NULL;
        if (!level || !op->page) {
            list_end(op, NULL);
            return;
        }
        if (level->at < level->listing.count) {
            step = list_entry(op, level);
        } else {
            pop(op);
        }
    }
}

/* Skips a directory that it cannot open: it is the guest's own, or gone meanwhile. */
static void directory_opened(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    struct list_op *op = arg;
    struct level *level = &op->levels[op->depth];
    if (reply->error == ECONNRESET) {
        list_fail(op, RPC_INTERNAL_ERROR, "The sandbox exited meanwhile; try again");
        return;
    }
    DIR *dir = !reply->error && S_ISDIR(reply->file.mode) ? fd_directory(take_fd(&fds[0])) : NULL;
    if (dir && listing_read(dir, &level->listing) < 0) {
        (void)closedir(dir);
    } else if (dir) {
        size_t size = strlen(op->path);
        size_t slash = size > 0 && size < sizeof op->path - 1;
        memcpy(op->path + size, slash ? "/" : "", slash + 1);
        level->dir = dir;
        level->at = 0;
        level->path_size = size + slash;
        op->depth++;
    }
    list_go_on(op);
}

static void list_begin(void *arg, struct box *box, const struct fail *)
{
    struct list_op *op = arg;
    if (!box || box_file_open(box, ".", directory_opened, op) < 0) {
        list_fail(op, RPC_INTERNAL_ERROR, "The sandbox is not available");
    }
}

static void list(struct tools *tools, struct rpc_call *call, const json_t *arguments)
{
    const char *cursor = json_string_value(arguments);
    struct list_op *op = calloc(1, sizeof *op);
    if (!op) {
        rpc_call_respond(call, NULL);
        return;
    }
    op->tools = tools;
    op->call = call;
    op->page = json_array();
    if (!cursor && rpc_call_wants_view(call)) {
        (void)json_array_append_new(op->page, views_page(tools->views, NULL));
    }
    if (cursor && !resource_cursor_read(cursor, op->cursor)) {
        list_fail(op, RPC_INVALID_PARAMS, "Unknown cursor");
    } else if (!server_box_get(tools->server_box) && !tools->config.spec->workspace) {
        list_end(op, NULL); /* a workspace in memory begins empty: starts no sandbox for that */
    } else {
        server_box_wait(tools->server_box, &op->waiter, list_begin, op);
    }
}

static void resource_list(void *ctx, struct rpc_call *call, const char *cursor)
{
    struct tools *tools = ctx;
    json_auto_t *arguments = cursor ? json_string(cursor) : json_null();
    orders_add(tools->orders, call, ORDER_READ, /* tool= */ NULL, arguments, list);
}

/* Sends one of the workspace's files to a client that reads it by itself: as text, or else as
 * base64. */

struct fetch_op {
    struct tools *tools;
    struct rpc_call *call;
    struct server_box_waiter waiter;
    char path[LIMIT_PATH_BYTES];
    char *uri;
};

static void fetch_free(struct fetch_op *op)
{
    free(op->uri);
    free(op);
}

/* Whether text is still within its limit as a JSON string. */
static bool text_fits(const char *text, size_t size)
{
    size_t escaped = size;
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        escaped += c == '"' || c == '\\' || (c >= '\b' && c <= '\r') ? 1 : c < ' ' ? 5 : 0;
    }
    return escaped <= content_base64_size(LIMIT_RESOURCE_BYTES);
}

/* New: the one item of contents. */
static json_t *contents_of(const char *uri, const char *path, const char *bytes, size_t size)
{
    OWNED(buf_done) struct buf out = BUF_EMPTY;
    enum magic_kind kind = magic_of(bytes, size < MAGIC_BYTES ? size : MAGIC_BYTES).kind;
    bool is_text = kind == MAGIC_TEXT || kind == MAGIC_UTF16;
    if (is_text && text_decode(text_encoding_of(bytes, size), bytes, size, &out) < 0) {
        return NULL;
    }
    if (is_text && text_fits(buf_bytes(&out), buf_size(&out))) {
        return json_pack("{s:s, s:s, s:o}", "uri", uri, "mimeType", resource_text_type(path),
                         "text", rpc_text(buf_bytes(&out), buf_size(&out)));
    }
    buf_clear(&out, 0);
    const char *mime = content_image_type(bytes, size);
    if (content_base64_encode(bytes, size, &out) < 0) {
        return NULL;
    }
    return json_pack("{s:s, s:s, s:o}", "uri", uri, "mimeType",
                     mime ? mime : "application/octet-stream", "blob",
                     json_stringn(buf_bytes(&out), buf_size(&out)));
}

static void fetch_regular(struct fetch_op *op, int fd, uint64_t size)
{
    char text[128];
    char human[16];
    OWNED(buf_done) struct buf bytes = BUF_EMPTY;
    if (size > LIMIT_RESOURCE_BYTES) {
        (void)snprintf(text, sizeof text,
                       "The file has %s, too much for one response; read_file reads parts of it",
                       content_size(size, human));
        rpc_call_fail(op->call, RPC_INTERNAL_ERROR, text);
        return;
    }
    int r = content_read(fd, 0, (size_t)size, &bytes);
    json_t *contents =
        r < 0 ? NULL : contents_of(op->uri, op->path, buf_bytes(&bytes), buf_size(&bytes));
    rpc_call_respond(op->call, contents ? json_pack("{s:[o]}", "contents", contents) : NULL);
}

static void fetch_opened(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    struct fetch_op *op = arg;
    if (reply->error == ECONNRESET) {
        rpc_call_fail(op->call, RPC_INTERNAL_ERROR, "The sandbox exited meanwhile; try again");
    } else if (reply->error || !S_ISREG(reply->file.mode)) {
        rpc_call_not_found(op->call, op->uri);
    } else {
        fetch_regular(op, fds[0], reply->file.size_bytes);
    }
    fetch_free(op);
}

static void fetch_begin(void *arg, struct box *box, const struct fail *)
{
    struct fetch_op *op = arg;
    if (!box || box_file_open(box, op->path, fetch_opened, op) < 0) {
        rpc_call_fail(op->call, RPC_INTERNAL_ERROR, "The sandbox is not available");
        fetch_free(op);
    }
}

static void fetch(struct tools *tools, struct rpc_call *call, const json_t *arguments)
{
    const char *uri = json_string_value(arguments);
    struct fetch_op *op = calloc(1, sizeof *op);
    char *copy = op ? strdup(uri) : NULL;
    if (!copy) {
        free(op);
        rpc_call_respond(call, NULL);
        return;
    }
    op->tools = tools;
    op->call = call;
    op->uri = copy;
    if (!resource_path(uri, op->path)) {
        rpc_call_not_found(call, uri);
        fetch_free(op);
        return;
    }
    server_box_wait(tools->server_box, &op->waiter, fetch_begin, op);
}

static void resource_read(void *ctx, struct rpc_call *call, const char *uri)
{
    struct tools *tools = ctx;
    json_auto_t *arguments = json_string(uri);
    orders_add(tools->orders, call, ORDER_READ, /* tool= */ NULL, arguments, fetch);
}

static json_t *resource_templates(void *)
{
    return json_pack("[{s:s, s:s, s:s, s:s}]", "uriTemplate", RESOURCE_PREFIX "{+path}", "name",
                     "workspace", "title", "File of the sandbox", "description",
                     "A file in the workspace that run_python, write_file and read_file share; "
                     "path is relative to the workspace, percent-encoded.");
}

const struct rpc_resources workspace_resources = {
    .list = resource_list,
    .templates = resource_templates,
    .read = resource_read,
};
