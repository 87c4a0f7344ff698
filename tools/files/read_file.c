#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/word.h"
#include "guest/guest.h"
#include "rpc/call.h"
#include "rpc/text.h"
#include "tools/box/tool.h"
#include "tools/content/app_view.h"
#include "tools/content/content.h"
#include "tools/files/listing.h"
#include "tools/files/read_text.h"
#include "tools/order/order.h"
#include "tools/run/result.h"
#include "tools/run/run.h"
#include "tools/session/session.h"

/* Converts a file to what a result can show: a document to text, and an image that is too large, or
 * of a type that clients do not show, to one that fits. The user's interpreter does it, in a
 * session of its own with run_python's paths. */

enum convert_outcome {
    CONVERT_MADE,
    CONVERT_NO_TOOL, /* this interpreter lacks the library; the file may still be valid */
    CONVERT_FAILED,
};

/* bytes: at most LIMIT_DOCUMENT_BYTES of text, any bytes, or a PNG or JPEG image of at most
 * LIMIT_IMAGES_BYTES; borrowed, NULL when none was made. reason: then, why, as a clause. */
typedef void (*convert_fn)(void *arg, enum convert_outcome outcome, const void *bytes, size_t size,
                           const char *reason);

struct convert_document {
    const char *suffix;
    const char *library; /* the package that reads it */
    bool is_text;        /* convert_begin() turns it into text */
};

enum { CONVERT_TIMEOUT_MS = 10000, REASON_BYTES = 200 };

struct convert {
    convert_fn fn;
    void *arg;
    const struct convert_document *document; /* NULL: it is an image */
    bool installs;
    struct buf made; /* all that it wrote to stdout */
    char reason[REASON_BYTES];
    size_t reason_size;
};

static void convert_end(struct convert *convert, enum convert_outcome outcome, const char *reason)
{
    bool made = outcome == CONVERT_MADE;
    convert->fn(convert->arg, outcome, made ? buf_bytes(&convert->made) : NULL,
                made ? buf_size(&convert->made) : 0, reason);
    buf_done(&convert->made);
    free(convert);
}

/* The kind of document of a name's suffix, or NULL. */
static const struct convert_document *convert_document_of(const char *path)
{
    static const struct convert_document documents[] = {
        {".pdf", "pypdf", true},     {".docx", "python-docx", true},  {".xlsx", "openpyxl", true},
        {".xlsm", "openpyxl", true}, {".pptx", "python-pptx", false}, {".xls", "xlrd", false},
        {".odt", "odfpy", false},    {".parquet", "pyarrow", false},  {".h5", "h5py", false},
    };
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof documents / sizeof *documents; i++) {
        if (strcasecmp(dot, documents[i].suffix) == 0) {
            return &documents[i];
        }
    }
    return NULL;
}

/* What it writes is the guest's word: bounded here, and taken for an image by its bytes only. */
static void convert_output(void *arg, unsigned stream, const char *bytes, size_t size)
{
    struct convert *convert = arg;
    if (stream == BOX_STDOUT) {
        size_t most = convert->document ? LIMIT_DOCUMENT_BYTES : LIMIT_IMAGES_BYTES;
        if (buf_size(&convert->made) + size <= most) {
            (void)buf_append(&convert->made, bytes, size);
        }
        return;
    }
    size_t space = sizeof convert->reason - 1 - convert->reason_size;
    size = size < space ? size : space;
    memcpy(convert->reason + convert->reason_size, bytes, size);
    convert->reason_size += size;
}

/* A text may be empty. */
static bool is_made(const struct convert *convert)
{
    size_t size = buf_size(&convert->made);
    return convert->document ? size > 0 || convert->reason_size == 0
                             : content_image_fits(buf_bytes(&convert->made), size);
}

static void convert_done(void *arg, struct run *run)
{
    struct convert *convert = arg;
    char reason[REASON_BYTES + 64] = "";
    const char *library = convert->document ? convert->document->library : "Pillow";
    const char *work = convert->document ? "read it as text" : "scale it down";
    enum convert_outcome outcome = CONVERT_FAILED;
    if (run->end.outcome == RUN_EXIT && run->end.process.code == GUEST_EXIT_NO_LIBRARY) {
        outcome = CONVERT_NO_TOOL;
        (void)snprintf(reason, sizeof reason, "this Python has no %s to %s%s", library,
                       convert->document ? work : "convert it",
                       convert->installs ? ", install_package can add it" : "");
    } else if (run->end.outcome == RUN_OK && is_made(convert)) {
        outcome = CONVERT_MADE;
    } else if (run->end.outcome == RUN_TIMEOUT) {
        (void)snprintf(reason, sizeof reason, "it takes too long to %s", work);
    } else if (run->end.outcome == RUN_OOM) {
        (void)snprintf(reason, sizeof reason, "there is not enough memory to %s", work);
    } else if (convert->reason_size > 0) {
        (void)word_quote(convert->reason, convert->reason_size, reason, sizeof reason);
    } else {
        (void)snprintf(reason, sizeof reason, "it could not be %s",
                       convert->document ? "read as text" : "scaled down");
    }
    run_free(run);
    convert_end(convert, outcome, reason);
}

/* document: one that is_text; NULL: the file is an image. fn is called once, maybe before this
 * returns. */
static void convert_begin(struct tools *tools, const char *path,
                          const struct convert_document *document, convert_fn fn, void *arg)
{
    struct convert *convert = calloc(1, sizeof *convert);
    OWNED(buf_done) struct buf code = BUF_EMPTY;
    /* The file comes with the driver's, see guest/. */
    int r =
        buf_appendf(&code, "exec(open('%s/convert.py').read())\n", tools->config.spec->paths.run);
    struct run *run = r < 0 ? NULL : run_new(buf_bytes(&code), buf_size(&code), path, strlen(path));
    if (!convert || !run) {
        free(convert);
        run_free(run);
        fn(arg, CONVERT_FAILED, NULL, 0, "the server is out of memory");
        return;
    }
    *convert =
        (struct convert){.fn = fn, .arg = arg, .document = document, .installs = tools->installs};
    run->request.fresh = true;
    run->request.timeout_ms = CONVERT_TIMEOUT_MS;
    run->on_output = convert_output;
    run->on_done = convert_done;
    run->arg = convert;
    r = sessions_run(tools->sessions, NULL, run);
    if (r < 0) {
        run_free(run);
        convert_end(convert, CONVERT_FAILED,
                    document ? "too many sessions are running to read it as text"
                             : "too many sessions are running to scale it down");
    }
}

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

enum { BASE64_UNASKED_BYTES = 12000 /* 16,000 characters */ };

enum read_encoding { READ_AUTO, READ_TEXT, READ_BASE64 };

/* One read, from the call to its result: waits for the sandbox, opens the file, finds its kind, and
 * ends the call. */
struct read_op {
    struct tool_work work;
    struct tools *tools;
    struct rpc_call *call;
    struct server_box_waiter waiter;
    char path[LIMIT_PATH_BYTES];
    struct not_found not_found;
    enum read_encoding encoding;
    struct read_range range;
    int fd;
    uint64_t size;
    struct magic magic;
    struct buf image; /* its bytes, if they fit into a result */
    struct read_text text;
};

static void read_op_free(struct read_op *op)
{
    read_text_stop(&op->text);
    own_close(&op->fd);
    buf_done(&op->image);
    free(op);
}

static void read_op_fail(struct read_op *op, int error)
{
    char text[WORD_BYTES + 212];
    content_refuse(op->call, "%s",
                   path_error(&op->tools->config.spec->paths, op->path, error, text, sizeof text));
    read_op_free(op);
}

/* While it waits for init or for a smaller image, it ends soon by itself. */
static void read_op_cancel(struct tool_work *work)
{
    struct read_op *op = (struct read_op *)work;
    if (op->text.task.loop) {
        read_op_fail(op, ECANCELED);
    }
}

/* Ends the call with text, or with the failure of composing it. */
static void read_op_end(struct read_op *op, int r, const struct buf *text, bool is_error)
{
    r = r ? r : buf_error(text);
    if (r < 0) {
        read_op_fail(op, -r);
        return;
    }
    content_result(op->call, buf_bytes(text), buf_size(text), is_error);
    read_op_free(op);
}

/* --- images --- */

/* Ends the call with "[plot.png: PNG image, 640x480, 18 kB]", and the image if there are bytes of
 * one. note: more text for the line, or "". */
static void end_with_image(struct read_op *op, const void *bytes, size_t size, const char *note)
{
    char human[16];
    uint32_t width = 0;
    uint32_t height = 0;
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    buf_append_text(&text, "[");
    word_append(&text, op->path, strlen(op->path));
    buf_appendf(&text, ": %s, ", op->magic.name);
    if (magic_measure(buf_bytes(&op->image), buf_size(&op->image), &width, &height)) {
        buf_appendf(&text, "%ux%u, ", width, height);
    }
    buf_appendf(&text, "%s%s]\n", content_size(op->size, human), note);
    json_t *content =
        buf_error(&text) ? NULL : json_pack("[o]", content_text(buf_bytes(&text), buf_size(&text)));
    if (content && bytes &&
        json_array_append_new(content,
                              content_image(bytes, size, content_image_type(bytes, size))) < 0) {
        json_decref(content);
        content = NULL;
    }
    content_end(op->call, content, buf_bytes(&text), buf_size(&text), false);
    read_op_free(op);
}

/* Ends it with "[data.db is a binary file: SQLite database, 12 kB; …]". reason: why it is not shown
 * as text, or NULL. */
static void end_with_binary(struct read_op *op, const char *reason)
{
    char human[16];
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    const char *name = op->magic.name;
    const struct convert_document *document = convert_document_of(op->path);
    buf_append_text(&text, "[");
    word_append(&text, op->path, strlen(op->path));
    buf_appendf(&text, " is a binary file%s%s, %s; ", name ? ": " : "", name ? name : "",
                content_size(op->size, human));
    if (reason) {
        buf_appendf(&text, "not shown as text: %s; encoding=\"base64\" returns its bytes]\n",
                    reason);
    } else {
        buf_appendf(&text, "read it with Python%s%s, or its bytes with encoding=\"base64\"]\n",
                    document ? " and " : "", document ? document->library : "");
    }
    read_op_end(op, 0, &text, false);
}

/* Whether the bytes read are an image that a client accepts as it is. */
static bool is_showable(const struct read_op *op)
{
    size_t size = buf_size(&op->image);
    return size == op->size && content_image_fits(buf_bytes(&op->image), size);
}

/* Whether the image lacks its end, or has more bytes after it, so that it cannot be shown as it is
 * however small it is. Known only of one that was read whole. */
static bool is_damaged(const struct read_op *op)
{
    size_t size = buf_size(&op->image);
    return size == op->size && content_image_type(buf_bytes(&op->image), size) &&
           !magic_is_whole(buf_bytes(&op->image), size);
}

static void read_op_shrunk(void *arg, enum convert_outcome outcome, const void *bytes, size_t size,
                           const char *reason)
{
    struct read_op *op = arg;
    char note[256] = "";
    uint32_t width = 0;
    uint32_t height = 0;
    if (outcome == CONVERT_MADE) {
        if (magic_measure(bytes, size, &width, &height)) {
            (void)snprintf(note, sizeof note, "; shown as %ux%u", width, height);
        }
        end_with_image(op, bytes, size, note);
    } else if (outcome == CONVERT_NO_TOOL && is_damaged(op)) {
        end_with_image(op, NULL, 0, "; not shown: it is incomplete or damaged");
    } else {
        (void)snprintf(note, sizeof note, "; not shown: %s", reason);
        end_with_image(op, NULL, 0, note);
    }
}

/* Shows an image that fits as it is, and scales any other down. Reads the beginning of a larger one
 * too, because it holds the width and height. */
static void read_image(struct read_op *op)
{
    size_t wanted = op->size < LIMIT_IMAGES_BYTES ? (size_t)op->size : LIMIT_IMAGES_BYTES;
    int r = content_read(op->fd, 0, wanted, &op->image);
    if (r < 0) {
        read_op_fail(op, -r);
    } else if (is_showable(op)) {
        end_with_image(op, buf_bytes(&op->image), buf_size(&op->image), "");
    } else {
        convert_begin(op->tools, op->path, NULL, read_op_shrunk, op);
    }
}

/* --- bytes and text --- */

static void end_with_base64(struct read_op *op)
{
    OWNED(buf_done) struct buf bytes = BUF_EMPTY;
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    char further[40];
    uint64_t begin = op->range.offset;
    uint64_t length = op->range.length == UINT64_MAX          ? BASE64_UNASKED_BYTES
                      : op->range.length < LIMIT_BASE64_BYTES ? op->range.length
                                                              : LIMIT_BASE64_BYTES;
    int r = begin < op->size ? content_read(op->fd, begin, (size_t)length, &bytes) : 0;
    size_t size = buf_size(&bytes);
    if (r == 0 && size == 0 && begin > 0) {
        r = content_no_bytes(op->path, begin, op->size, &text);
        read_op_end(op, r, &text, true);
        return;
    }
    (void)snprintf(further, sizeof further, ", length up to %lu", LIMIT_BASE64_BYTES);
    r = r ? r : content_base64_encode(buf_bytes(&bytes), size, &text);
    if (r == 0 && size > 0 && size < op->size) {
        r = content_bytes_place(begin, size, op->size, further, &text);
        r = r ? r : buf_append_text(&text, "]\n");
    }
    read_op_end(op, r, &text, false);
}

static void read_op_text(void *arg, int error, const struct buf *text, bool is_error)
{
    read_op_end(arg, -error, text, is_error);
}

/* Goes on with a nameless file that holds this text instead. */
static int replace_with(struct read_op *op, const struct buf *text)
{
    int r = buf_error(text);
    defer_close int fd = r < 0 ? -1 : memfd_create("decoded", MFD_CLOEXEC);
    if (fd < 0) {
        return r < 0 ? r : -errno;
    }
    r = fd_write_all(fd, buf_bytes(text), buf_size(text));
    if (r == 0) {
        own_close(&op->fd);
        op->fd = take_fd(&fd);
    }
    return r;
}

static void show_text(struct read_op *op, int r)
{
    if (r < 0) {
        read_op_fail(op, -r);
    } else {
        read_text_start(&op->text, op->tools->loop, op->fd, &op->range, read_op_text, op);
    }
}

static int decode_utf16(const char *bytes, size_t size, struct buf *out)
{
    return text_decode(TEXT_UTF16, bytes, size, out);
}

static int decode(struct read_op *op, int (*fn)(const char *bytes, size_t size, struct buf *out))
{
    OWNED(buf_done) struct buf raw = BUF_EMPTY;
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    int r = content_read(op->fd, 0, (size_t)op->size, &raw);
    r = r ? r : fn(buf_bytes(&raw), buf_size(&raw), &text);
    return r ? r : replace_with(op, &text);
}

static void read_op_converted(void *arg, enum convert_outcome outcome, const void *bytes,
                              size_t size, const char *reason)
{
    struct read_op *op = arg;
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    if (outcome != CONVERT_MADE) {
        end_with_binary(op, reason);
        return;
    }
    buf_append_text(&text, "[text of ");
    word_append(&text, op->path, strlen(op->path));
    buf_append_text(&text, "; encoding=\"base64\" returns its bytes]\n");
    buf_append(&text, bytes, size);
    show_text(op, replace_with(op, &text));
}

static void read_regular(struct read_op *op)
{
    char head[MAGIC_BYTES];
    ssize_t have = fd_pread_all(op->fd, head, sizeof head, 0);
    if (have < 0) {
        read_op_fail(op, (int)-have);
        return;
    }
    op->magic = magic_of(head, (size_t)have);
    enum magic_kind kind = op->encoding == READ_TEXT ? MAGIC_TEXT : op->magic.kind;
    if (op->encoding == READ_BASE64) {
        end_with_base64(op);
    } else if (have == 0) {
        static const char empty[] = "[the file is empty]\n";
        content_result(op->call, empty, sizeof empty - 1, false);
        read_op_free(op);
    } else if ((kind == MAGIC_IMAGE || kind == MAGIC_PICTURE) && !op->range.has_bytes) {
        read_image(op);
    } else if (kind == MAGIC_IMAGE || kind == MAGIC_PICTURE || kind == MAGIC_BINARY ||
               (kind == MAGIC_UTF16 && op->size > LIMIT_UTF16_BYTES)) {
        const struct convert_document *document = convert_document_of(op->path);
        if (document && document->is_text) {
            convert_begin(op->tools, op->path, document, read_op_converted, op);
        } else {
            end_with_binary(op, NULL);
        }
    } else {
        bool may_decode =
            op->encoding == READ_AUTO && op->size <= LIMIT_IPYNB_BYTES && !op->range.has_bytes;
        op->range.decoded = kind == MAGIC_UTF16 ? text_encoding_clause(TEXT_UTF16) : NULL;
        int r = kind == MAGIC_UTF16                    ? decode(op, decode_utf16)
                : may_decode && ipynb_is(op->path)     ? decode(op, ipynb_decode)
                : may_decode && embedding_is(op->path) ? decode(op, embedding_decode)
                                                       : 0;
        show_text(op, r == -EINVAL ? 0 : r); /* -EINVAL: it is none, whatever its name is */
    }
}

/* --- opening the file --- */

static void refuse_bytes_of_directory(struct read_op *op)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    word_append(&text, op->path, strlen(op->path));
    buf_append_text(&text, " is a directory; start_line and end_line select entries.");
    read_op_end(op, 0, &text, true);
}

static void read_op_opened(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS]);

static void read_op_not_found(void *arg, int error, const struct buf *text)
{
    struct read_op *op = arg;
    if (error) {
        read_op_fail(op, error);
    } else if (text) {
        read_op_end(op, 0, text, true);
    } else {
        server_box_open_file(op->tools->server_box, op->path, read_op_opened, op);
    }
}

static void read_op_opened(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    struct read_op *op = arg;
    if (reply->error == ENOENT) {
        not_found_start(&op->not_found, op->tools, op->path, read_op_not_found, op);
        return;
    }
    if (reply->error) {
        read_op_fail(op, reply->error);
        return;
    }
    op->fd = take_fd(&fds[0]);
    op->size = reply->file.size_bytes;
    if (S_ISDIR(reply->file.mode) && op->range.has_bytes) {
        refuse_bytes_of_directory(op);
    } else if (S_ISDIR(reply->file.mode)) {
        OWNED(buf_done) struct buf text = BUF_EMPTY;
        int r = listing_compose(take_fd(&op->fd), op->path, op->range.start_line,
                                op->range.end_line, &text);
        read_op_end(op, r, &text, false);
    } else {
        orders_set_facts(op->tools->orders, op->call,
                         recorded_file(op->tools->config.record, op->path, op->fd, op->size));
        read_regular(op);
    }
}

static void read_op_begin(void *arg, struct box *box, const struct fail *why)
{
    struct read_op *op = arg;
    if (!box) {
        content_no_sandbox(op->call, why);
        read_op_free(op);
        return;
    }
    server_box_open_file(op->tools->server_box, op->path, read_op_opened, op);
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

/* Why the arguments contradict each other, as a sentence; NULL: they do not, and range has the
 * bytes or the lines that they name. A default that is sent contradicts nothing. */
static const char *take_range(const json_t *arguments, enum read_encoding encoding,
                              struct read_range *range)
{
    bool has_lines = range->start_line < 0 || range->start_line > 1 || range->end_line != 0;
    bool has_length = range->length != UINT64_MAX;
    if (has_lines && (range->offset > 0 || has_length)) {
        return has_length ? "/length: cannot be combined with start_line and end_line; send offset "
                            "and length for bytes, or the other two for lines"
                          : "/offset: cannot be combined with start_line and end_line; send offset "
                            "and length for bytes, or the other two for lines";
    }
    if (has_lines && encoding == READ_BASE64) {
        return range->start_line ? "/start_line: base64 has no lines; send offset and length"
                                 : "/end_line: base64 has no lines; send offset and length";
    }
    range->has_bytes = !has_lines && (has_length || json_object_get(arguments, "offset"));
    return NULL;
}

void read_file_call(struct tools *tools, struct rpc_call *call, const json_t *arguments)
{
    const char *encoding = json_string_value(json_object_get(arguments, "encoding"));
    struct read_op *op = calloc(1, sizeof *op);
    if (!op) {
        rpc_call_fail(call, RPC_INTERNAL_ERROR, "out of memory");
        return;
    }
    op->work.cancel = read_op_cancel;
    op->tools = tools;
    op->call = call;
    rpc_call_set_data(call, op);
    op->fd = -1;
    op->encoding = !encoding || strcmp(encoding, "auto") == 0 ? READ_AUTO
                   : strcmp(encoding, "base64") == 0          ? READ_BASE64
                                                              : READ_TEXT;
    op->range = (struct read_range){
        .path = op->path,
        .start_line = take_line(arguments, "start_line"),
        .end_line = take_line(arguments, "end_line"),
        .offset = take_count(arguments, "offset", 0),
        .length = take_count(arguments, "length", UINT64_MAX),
    };
    const char *error = path_take(tools->config.spec, json_object_get(arguments, "path"), op->path);
    error = error ? error : take_range(arguments, op->encoding, &op->range);
    if (error) {
        content_refuse(call, "%s", error);
        read_op_free(op);
        return;
    }
    server_box_wait(tools->server_box, &op->waiter, read_op_begin, op);
}
