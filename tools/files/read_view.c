#include "tools/files/read_view.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/utf8.h"
#include "rpc/call.h"
#include "rpc/text.h"
#include "tools/box/tool.h"
#include "tools/content/app_view.h"
#include "tools/content/content.h"

struct library_op {
    struct rpc_call *call; /* cancelled or not, it ends soon by itself */
    struct server_box_waiter waiter;
    uint64_t part;
    char path[LIMIT_PATH_BYTES];
};

/* Appends the characters that begin in the part. Empty: there is no such part. */
static int read_part(int fd, uint64_t part, struct buf *out)
{
    enum { INNER_BYTES = 3 }; /* of the last character, RFC 3629 */
    int r = content_read(fd, part * LIMIT_VIEW_LIBRARY_PART_BYTES,
                         LIMIT_VIEW_LIBRARY_PART_BYTES + INNER_BYTES, out);
    size_t size = buf_size(out);
    size_t end = size < LIMIT_VIEW_LIBRARY_PART_BYTES ? size : LIMIT_VIEW_LIBRARY_PART_BYTES;
    size_t begin = 0;
    while (r == 0 && end < size && utf8_is_inner(buf_bytes(out)[end])) {
        end++;
    }
    while (r == 0 && begin < end && utf8_is_inner(buf_bytes(out)[begin])) {
        begin++;
    }
    buf_cut(out, end);
    buf_consume(out, begin);
    return r;
}

static void library_opened(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    struct library_op *op = arg;
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    struct rpc_call *call = op->call;
    if (!reply->error && S_ISREG(reply->file.mode) && read_part(fds[0], op->part, &text) == 0) {
        content_result(call, buf_size(&text) ? buf_bytes(&text) : "", buf_size(&text), false);
    } else {
        content_refuse(call, "The library is not in the sandbox.");
    }
    free(op);
}

static void library_begin(void *arg, struct box *box, const struct fail *)
{
    struct library_op *op = arg;
    if (!box || box_file_open(box, op->path, library_opened, op) < 0) {
        library_opened(op, &(struct wire_reply){.error = ENOENT}, NULL);
    }
}

/* Only this one file of a package: a model that learns of the path must not fill its context. */
static bool take_library(const char *path, struct library_op *op)
{
    static const char end[] = "/plotly.min.js?part=";
    const char *at = strstr(path, end);
    size_t size = at ? (size_t)(at - path) + strcspn(at, "?") : 0;
    if (!at || size >= sizeof op->path || parse_u64(at + sizeof end - 1, &op->part) < 0 ||
        op->part > LIMIT_VIEW_LIBRARY_PARTS) {
        return false;
    }
    memcpy(op->path, path, size);
    return true;
}

static void read_library(struct tools *tools, struct rpc_call *call, const char *path)
{
    struct library_op *op = calloc(1, sizeof *op);
    if (!op || !take_library(path, op)) {
        free(op);
        content_refuse(call, "There is no such library.");
        return;
    }
    op->call = call;
    server_box_wait(tools->server_box, &op->waiter, library_begin, op);
}

bool read_view(struct tools *tools, struct rpc_call *call, const json_t *arguments)
{
    const char *path = json_string_value(json_object_get(arguments, "path"));
    bool is_library = strncmp(path, VIEW_LIBRARY_PREFIX "/", strlen(VIEW_LIBRARY_PREFIX "/")) == 0;
    bool is_data = strncmp(path, VIEW_DATA_PREFIX, strlen(VIEW_DATA_PREFIX)) == 0;
    if (tools->config.ui == TOOLS_UI_OFF || (!is_library && !is_data)) {
        return false;
    }
    if (is_library) {
        read_library(tools, call, path + strlen(VIEW_LIBRARY_PREFIX));
        return true;
    }
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    const json_t *data = views_find(tools->views, path);
    if (data && rpc_text_dump(&text, data) == 0) {
        content_result(call, buf_bytes(&text), buf_size(&text), false);
    } else {
        content_refuse(call, "The data of this result is no longer kept.");
    }
    return true;
}
