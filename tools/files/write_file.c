#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/loop.h"
#include "base/own.h"
#include "base/word.h"
#include "rpc/call.h"
#include "rpc/text.h"
#include "schema/schema.h"
#include "tools/box/tool.h"
#include "tools/content/content.h"
#include "tools/content/mounts.h"
#include "tools/files/listing.h"
#include "tools/files/read_text.h"
#include "tools/order/order.h"
#include "tools/session/session.h"

/* One write, from the call to its result: decodes, waits for the sandbox, opens, writes
 * in pieces, commits. An edit first reads the file, and writes the whole of it anew. */
struct write_op {
    struct tool_work work;
    struct tools *tools;
    struct rpc_call *call;
    struct server_box_waiter waiter;
    char path[LIMIT_PATH_BYTES]; /* as in the call, then the one that it leads to */
    enum wire_write_mode mode;
    json_t *arguments;
    struct not_found not_found;
    bool respelled;        /* the path: it is that of a name with the same characters */
    struct edit edit;      /* an edit, if it has an old_text; of the arguments */
    int source_fd;         /* the file before the edit */
    struct stat source;    /* as it was when it was read */
    struct buf edited;     /* what it becomes, or what is appended, in the file's encoding */
    bool unfenced;         /* content had a code fence around all of it */
    const char *lost;      /* what an overwrite does not keep of the file's encoding, or NULL */
    struct buf edit_lines; /* which lines the edit changed */
    const char *bytes;
    size_t size;
    size_t done; /* of bytes */
    size_t lines;
    unsigned char *decoded;
    int fd;
    uint32_t token;
    bool existed;
    uint64_t before; /* size of the file that gets the bytes at its end */
    struct loop_task task;
};

enum { WRITE_A_TURN = 1 << 20 }; /* bytes; then the loop serves its other sources */

static void write_op_free(struct write_op *op)
{
    loop_task_cancel(&op->task);
    own_close(&op->fd);
    own_close(&op->source_fd);
    buf_done(&op->edited);
    buf_done(&op->edit_lines);
    json_decref(op->arguments);
    free(op->decoded);
    free(op);
}

/* Refuses a path that is read-only as it is named. Returns whether it was one; then it has ended
 * the op. */
static bool write_op_protected(struct write_op *op)
{
    const char *name = box_protected_path(op->tools->config.spec, op->path);
    if (name) {
        content_refuse(op->call,
                       "/path: %s is read-only in the workspace, because programs outside the "
                       "sandbox act on it. The user can allow it with --allow-write %s.",
                       name, name);
        write_op_free(op);
    }
    return name != NULL;
}

static const char other_form[] =
    ". The path is there in another Unicode form (NFC, NFD) than the one sent.";

static const char is_late[] = " was changed by another program during the edit; read it again.";

/* Removes a piece that was not written whole, unless another process has appended meanwhile. */
static void take_back_append(const struct write_op *op)
{
    struct stat st;
    if (op->done > 0 && fstat(op->fd, &st) == 0 && st.st_size >= 0 &&
        (uint64_t)st.st_size == op->before + op->done) {
        (void)ftruncate(op->fd, (off_t)op->before);
    }
}

/* Ends the call with what is said after the path. */
static void write_op_refuse(struct write_op *op, const char *said)
{
    char shown[WORD_BYTES + 1];
    struct box *box = server_box_get(op->tools->server_box);
    if (op->token && box) {
        box_file_abort(box, op->token);
    }
    content_refuse(op->call, "%s%s", word_show(op->path, strlen(op->path), shown, sizeof shown),
                   said);
    write_op_free(op);
}

/* error: an errno value. */
static void write_op_fail(struct write_op *op, int error)
{
    char text[WORD_BYTES + 212];
    struct box *box = server_box_get(op->tools->server_box);
    if (op->fd >= 0 && op->mode == WIRE_WRITE_APPEND) {
        take_back_append(op);
    }
    if (error == EISDIR && op->path[1] && op->path[strlen(op->path) - 1] == '/') {
        write_op_refuse(op, " ends with \"/\", as a directory does; send the path of a file.");
        return;
    }
    if (op->token && error != ECONNRESET && box) {
        box_file_abort(box, op->token);
    }
    (void)path_error(&op->tools->config.spec->paths, op->path, error, text, sizeof text);
    content_refuse(op->call, "%s%s", text, op->respelled ? &other_form[1] : "");
    write_op_free(op);
}

/* While it waits for init, it ends soon by itself. */
static void write_op_cancel(struct tool_work *work)
{
    struct write_op *op = (struct write_op *)work;
    if (op->task.loop) {
        write_op_fail(op, ECANCELED);
    }
}

/* Ends the call. bytes: the file's size. */
static void answer(struct write_op *op, const char *text, size_t size, uint64_t bytes)
{
    json_t *link = rpc_call_wants_links(op->call) ? resource_link(op->path, bytes) : NULL;
    if (op->tools->config.record) {
        char hash[SHA256_TEXT];
        orders_set_facts(op->tools->orders, op->call,
                         json_pack("{s:o, s:I, s:s}", "path", rpc_text(op->path, strlen(op->path)),
                                   "size", (json_int_t)op->size, "sha256",
                                   sha256_of(op->bytes, op->size, hash)));
    }
    content_end(op->call, json_pack("[o, o*]", content_text(text, size), link), text, size,
                /* is_error= */ false);
    write_op_free(op);
}

/* The file is no longer what a call has made of it, so no `undo` takes it back. */
static void note_written(const struct write_op *op)
{
    struct box *box = server_box_get(op->tools->server_box);
    if (box && op->path[0] != '/') {
        box_states_note(box, op->path);
        sessions_note_written(op->tools->sessions, op->path);
    }
}

/* Appends "created a.txt (3 lines, 40 B)", "edited a.txt (line 4, now 4-6; 90 lines in all, 2 kB)".
 */
static void describe_written(const struct write_op *op, struct buf *text)
{
    char size[16];
    char total[16];
    bool appended = op->mode == WIRE_WRITE_APPEND && op->existed;
    buf_append_text(text, op->edit.old_text ? "edited "
                          : appended        ? "appended to "
                          : op->existed     ? "overwrote "
                                            : "created ");
    word_append(text, op->path, strlen(op->path));
    buf_append_text(text, " (");
    if (op->edit.old_text) {
        buf_append_buf(text, &op->edit_lines);
        buf_append_text(text, ", ");
    } else if (!op->decoded || magic_of(op->bytes, op->size).kind == MAGIC_TEXT) {
        size_t count = op->lines + (op->size > 0 && op->bytes[op->size - 1] != '\n');
        buf_appendf(text, "%zu line%s, ", count, count == 1 ? "" : "s");
    }
    buf_append_text(text, content_size(op->size, size));
    if (appended) {
        buf_appendf(text, "; now %s", content_size(op->before + op->size, total));
    }
    size_t halves = rpc_call_halves(op->call);
    if (halves > 0) {
        buf_appendf(text, "; %zu unpaired surrogate%s written as U+FFFD", halves,
                    halves == 1 ? " was" : "s were");
    }
    buf_append_text(text, op->unfenced ? "; without the code fence around it" : "");
    buf_appendf(text, "%s%s)%s", op->lost ? "; " : "", op->lost ? op->lost : "",
                op->respelled ? other_form : "");
}

/* The directory of a new file is open: says if another name there differs from its name only in
 * capitals. */
static void beside_opened(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    struct write_op *op = arg;
    char directory[LIMIT_PATH_BYTES];
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    const char *name = op->path + path_split(op->path, strlen(op->path), directory);
    json_auto_t *names = reply->error ? NULL : listing_names(take_fd(&fds[0]));
    const char *key = NULL;
    json_t *value = NULL;
    describe_written(op, &text);
    json_object_foreach (names, key, value) {
        if (strcasecmp(key, name) == 0 && strcmp(key, name) != 0) {
            buf_append_text(&text, "; another file is ");
            word_append(&text, key, strlen(key));
            break;
        }
    }
    buf_append_text(&text, "\n");
    answer(op, buf_text(&text), buf_size(&text), op->before + op->size);
}

static void write_op_succeed(struct write_op *op)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    char directory[LIMIT_PATH_BYTES];
    note_written(op);
    if (!op->existed) {
        (void)path_split(op->path, strlen(op->path), directory);
        server_box_open_file(op->tools->server_box, directory, beside_opened, op);
        return;
    }
    describe_written(op, &text);
    buf_append_text(&text, "\n");
    answer(op, buf_text(&text), buf_size(&text), op->before + op->size);
}

static void write_op_committed(void *arg, const struct wire_reply *reply, int[WIRE_FDS])
{
    struct write_op *op = arg;
    if (reply->error) {
        op->token = 0;
        if (op->edit.old_text && reply->error == ESTALE) {
            write_op_refuse(op, is_late);
            return;
        }
        write_op_fail(op, reply->error);
    } else {
        write_op_succeed(op);
    }
}

/* Whether the file has changed since it was read: one that was replaced or removed has a changed
 * status too. */
static bool write_edit_is_late(const struct write_op *op)
{
    struct stat st;
    return fstat(op->source_fd, &st) < 0 || st.st_size != op->source.st_size ||
           st.st_nlink != op->source.st_nlink ||
           memcmp(&st.st_ctim, &op->source.st_ctim, sizeof st.st_ctim) != 0;
}

static void write_op_step(void *arg)
{
    struct write_op *op = arg;
    size_t part = op->size - op->done;
    part = part < WRITE_A_TURN ? part : WRITE_A_TURN;
    while (part > 0) {
        ssize_t size = TEMP_FAILURE_RETRY(write(op->fd, op->bytes + op->done, part));
        if (size < 0) {
            write_op_fail(op, errno);
            return;
        }
        op->lines += lines_ends(op->bytes + op->done, (size_t)size);
        op->done += (size_t)size;
        part -= (size_t)size;
    }
    if (op->done < op->size) {
        loop_task_queue(op->tools->loop, &op->task, write_op_step, op);
        return;
    }
    if (op->token == 0) {
        write_op_succeed(op);
        return;
    }
    if (op->edit.old_text && write_edit_is_late(op)) {
        write_op_refuse(op, is_late);
        return;
    }
    struct box *box = server_box_get(op->tools->server_box);
    const struct stat *replaced = op->edit.old_text ? &op->source : NULL;
    int r = box ? box_file_commit(box, op->token, replaced, write_op_committed, op) : -ECONNRESET;
    if (r < 0) {
        write_op_fail(op, -r);
    }
}

/* The file that gets op->bytes is open. */
static void write_op_opened(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    struct write_op *op = arg;
    if (reply->error == ELOOP) {
        write_op_refuse(op, " was replaced by a symlink meanwhile; try again.");
        return;
    }
    if (reply->error) {
        write_op_fail(op, reply->error);
        return;
    }
    op->fd = take_fd(&fds[0]);
    op->token = reply->token;
    op->existed = reply->file.existed;
    if (!op->existed && strchr(op->path, '\\')) {
        write_op_refuse(
            op, " has backslashes, which separate no directories here; send it with \"/\".");
        return;
    }
    op->before = op->mode == WIRE_WRITE_APPEND ? reply->file.size_bytes : 0;
    /* RLIMIT_FSIZE limits processes in the sandbox; this process writes for one. */
    if (op->before + op->size > op->tools->config.spec->limits.disk_bytes) {
        write_op_fail(op, EFBIG);
        return;
    }
    write_op_step(op);
}

static void write_op_resolve(struct write_op *op);

static const char no_character[] =
    " is not UTF-8, and its encoding lacks a character of the text; change it with Python, or "
    "write all of it, as UTF-8.";

/* The file is read: makes the new text and writes it. */
static void edit_source_read(struct write_op *op, const struct buf *text)
{
    OWNED(buf_done) struct buf decoded = BUF_EMPTY;
    OWNED(buf_done) struct buf changed = BUF_EMPTY;
    const char *bytes = buf_bytes(text);
    size_t size = buf_size(text);
    enum text_encoding encoding = text_encoding_of(bytes, size);
    if (encoding == TEXT_OTHER) {
        write_op_refuse(op, " is no text in UTF-8, UTF-16 or Latin-1; change it with Python.");
        return;
    }
    int r = text_decode(encoding, bytes, size, &decoded);
    r = r ? r
          : edit_apply(buf_bytes(&decoded), buf_size(&decoded), &op->edit, &changed,
                       &op->edit_lines);
    if (r > 0) {
        write_op_refuse(op, buf_text(&op->edit_lines));
        return;
    }
    buf_append(&op->edited, bytes, encoding == TEXT_UTF16 ? 2 : 0); /* the byte order mark */
    r = r ? r : text_encode(encoding, bytes, buf_bytes(&changed), buf_size(&changed), &op->edited);
    if (r == -EILSEQ) {
        write_op_refuse(op, no_character);
        return;
    }
    op->bytes = buf_bytes(&op->edited);
    op->size = buf_size(&op->edited);
    struct box *box = server_box_get(op->tools->server_box);
    r = r             ? -ENOMEM
        : box == NULL ? -ECONNRESET
                      : box_file_write(box, op->path, WIRE_WRITE_OVERWRITE, write_op_opened, op);
    if (r < 0) {
        write_op_fail(op, -r);
    }
}

static void write_op_open(struct write_op *op)
{
    struct box *box = server_box_get(op->tools->server_box);
    int r = box ? box_file_write(box, op->path, op->mode, write_op_opened, op) : -ECONNRESET;
    if (r < 0) {
        write_op_fail(op, -r);
    }
}

/* The path leads to no file: text says so. Goes on with another spelling of it, or makes the file.
 */
static void write_op_looked_up(void *arg, int error, const struct buf *text)
{
    struct write_op *op = arg;
    if (!error && !text) {
        op->respelled = true;
        write_op_resolve(op);
    } else if (op->edit.old_text && text) {
        content_refuse(op->call,
                       "%.*s%s To create it, send content, without old_text and new_text.",
                       (int)buf_size(text), buf_bytes(text),
                       strchr(".?", buf_bytes(text)[buf_size(text) - 1]) ? "" : ".");
        write_op_free(op);
    } else if (op->edit.old_text) {
        write_op_fail(op, error);
    } else {
        write_op_open(op);
    }
}

static void edit_source_opened(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    struct write_op *op = arg;
    char said[64];
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    op->source_fd = take_fd(&fds[0]);
    if (reply->error == ENOENT) {
        not_found_start(&op->not_found, op->tools, op->path, write_op_looked_up, op);
        return;
    }
    if (reply->error || S_ISDIR(reply->file.mode)) {
        write_op_fail(op, reply->error ? reply->error : EISDIR);
        return;
    }
    int r = fstat(op->source_fd, &op->source) < 0 ? -errno : 0;
    if (r == 0 && (uint64_t)op->source.st_size > LIMIT_EDIT_BYTES) {
        (void)snprintf(said, sizeof said, " is larger than %lu MiB; change it with Python.",
                       LIMIT_EDIT_BYTES >> 20);
        write_op_refuse(op, said);
        return;
    }
    r = r ? r : content_read(op->source_fd, 0, (size_t)op->source.st_size, &text);
    if (r < 0) {
        write_op_fail(op, -r);
        return;
    }
    edit_source_read(op, &text);
}

/* Reads the file that is edited, and has its new text written. */
static void write_edit_begin(struct write_op *op)
{
    server_box_open_file(op->tools->server_box, op->path, edit_source_opened, op);
}

/* What a text that replaces the file's does not keep, for a result; NULL: nothing. */
static const char *lost_encoding(const struct buf *old, enum text_encoding encoding, bool is_plain,
                                 const struct write_op *op)
{
    static const char mark[] = "\xef\xbb\xbf";
    size_t size = buf_size(old);
    bool had_mark = size >= 3 && memcmp(buf_bytes(old), mark, 3) == 0;
    bool has_mark = op->size >= 3 && memcmp(op->bytes, mark, 3) == 0;
    if (encoding == TEXT_UTF16) {
        return "in UTF-8 now, no longer in UTF-16";
    }
    if (encoding == TEXT_UTF8) {
        return had_mark && !has_mark ? "without the byte order mark that it had" : NULL;
    }
    return is_plain || magic_of(buf_bytes(old), size).kind != MAGIC_TEXT
               ? NULL
               : "in UTF-8 now, which it was not before";
}

static bool is_ascii(const char *bytes, size_t size)
{
    size_t i = 0;
    while (i < size && !(bytes[i] & 0x80)) {
        i++;
    }
    return i == size;
}

/* Text that is appended is UTF-8: it would spoil a file in another encoding. */
static void old_opened(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    enum { LOOKS = 64 << 10 };
    struct write_op *op = arg;
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    if (reply->error == ENOENT && !is_ascii(op->path, strlen(op->path))) {
        not_found_respell(&op->not_found, op->tools, op->path, write_op_looked_up, op);
        return;
    }
    if (op->mode == WIRE_WRITE_CREATE || op->decoded) {
        write_op_open(op);
        return;
    }
    uint64_t most = reply->file.size_bytes < LOOKS ? reply->file.size_bytes : LOOKS;
    if (!reply->error && S_ISREG(reply->file.mode)) {
        (void)content_read(fds[0], 0, (size_t)most, &text);
    }
    size_t size = buf_size(&text);
    bool is_cut = size == LOOKS;
    while (is_cut && size > 0 && buf_bytes(&text)[size - 1] & 0x80) {
        size--; /* of a character that is cut */
    }
    buf_cut(&text, size);
    bool is_plain = is_ascii(op->bytes, op->size);
    enum text_encoding encoding = text_encoding_of(buf_bytes(&text), size);
    if (op->mode == WIRE_WRITE_OVERWRITE) {
        op->lost = lost_encoding(&text, encoding, is_plain, op);
    } else if (encoding == TEXT_OTHER && !is_plain) {
        write_op_refuse(op,
                        " is not UTF-8, as the text that is to be appended is; append with "
                        "Python, in the file's encoding.");
        return;
    } else if (encoding == TEXT_UTF16 || encoding == TEXT_WINDOWS) {
        int r = text_encode(encoding, buf_bytes(&text), op->bytes, op->size, &op->edited);
        if (r < 0) {
            write_op_refuse(op, r == -EILSEQ ? no_character : ": the server is out of memory.");
            return;
        }
        op->bytes = buf_bytes(&op->edited);
        op->size = buf_size(&op->edited);
    }
    write_op_open(op);
}

static void refuse_outside(struct write_op *op, const char *leads_to)
{
    char shown[WORD_BYTES + 1];
    char said[WORD_BYTES + 100];
    (void)snprintf(said, sizeof said,
                   " leads by symlinks to %s, outside of the workspace; to write there, send that "
                   "path.",
                   word_show(leads_to, strlen(leads_to), shown, sizeof shown));
    write_op_refuse(op, said);
}

/* From here on the path is one of which nobody has another spelling: who keeps, lists, applies and
 * undoes changes goes by it. */
static void write_op_resolved(void *arg, const struct wire_reply *reply, int[WIRE_FDS])
{
    struct write_op *op = arg;
    struct box *box = server_box_get(op->tools->server_box);
    if (reply->error || !box) {
        write_op_fail(op, reply->error ? reply->error : ECONNRESET);
        return;
    }
    if (path_leads_out(&op->tools->config.spec->paths, op->path, reply->path)) {
        refuse_outside(op, reply->path);
        return;
    }
    (void)snprintf(op->path, sizeof op->path, "%s", reply->path);
    if (write_op_protected(op)) {
        return;
    }
    if (op->edit.old_text) {
        write_edit_begin(op);
        return;
    }
    server_box_open_file(op->tools->server_box, op->path, old_opened, op);
}

/* Finds the path that op->path leads to, and goes on with that. */
static void write_op_resolve(struct write_op *op)
{
    struct box *box = server_box_get(op->tools->server_box);
    int r = box ? box_file_resolve(box, op->path, write_op_resolved, op) : -ECONNRESET;
    if (r < 0) {
        write_op_fail(op, -r);
    }
}

static void write_op_begin(void *arg, struct box *box, const struct fail *why)
{
    struct write_op *op = arg;
    if (!box) {
        content_no_sandbox(op->call, why);
        write_op_free(op);
        return;
    }
    write_op_resolve(op);
}

/* The bytes are ready. */
static void write_op_wait(struct write_op *op, const void *bytes, size_t size)
{
    op->bytes = bytes;
    op->size = size;
    server_box_wait(op->tools->server_box, &op->waiter, write_op_begin, op);
}

/* The text in a code fence that is around all of a content, as run_python runs it; false: none is,
 * or the file is one of Markdown, which may begin and end with one. */
static bool strip_fence(const char *path, const char **text, size_t *size)
{
    static const char mark[] = "```";
    static const char *const markdown[] = {".md", ".markdown", ".mdx", ".qmd", ".rmd"};
    const char *suffix = strrchr(path, '.');
    for (unsigned i = 0; suffix && i < sizeof markdown / sizeof *markdown; i++) {
        if (strcasecmp(suffix, markdown[i]) == 0) {
            return false;
        }
    }
    const char *end = *text + *size;
    const char *line = memchr(*text, '\n', *size);
    while (end > *text && strchr(" \r\n", end[-1])) {
        end--;
    }
    if (!line || *size < 3 || memcmp(*text, mark, 3) != 0 || end - line < 4 ||
        memcmp(end - 4, "\n```", 4) != 0 || memchr(*text + 3, '`', (size_t)(line - *text) - 3) ||
        memmem(line, (size_t)(end - 4 - line), "\n```", 4)) {
        return false;
    }
    *text = line + 1;
    *size = (size_t)(end - 3 - *text);
    return true;
}

/* Decodes all of it before the first write, so that invalid base64 leaves the file unchanged. */
static void write_op_decode(struct write_op *op, const char *text, size_t size)
{
    size_t begin = content_base64_begin(text, size);
    op->decoded = malloc(size / 4 * 3 + 3);
    if (!op->decoded) {
        content_refuse(op->call, "The server is out of memory.");
        write_op_free(op);
    } else if (content_base64_decode(text + begin, size - begin, op->decoded, &op->size) < 0) {
        content_refuse(op->call,
                       "/content: is not base64; send plain text with encoding=\"utf-8\", or check "
                       "the encoding");
        write_op_free(op);
    } else {
        write_op_wait(op, op->decoded, op->size);
    }
}

/* Why the arguments are neither a write nor an edit, as a sentence; NULL: they are one. */
static const char *contradiction(const json_t *arguments)
{
    const json_t *old_text = json_object_get(arguments, "old_text");
    const json_t *new_text = json_object_get(arguments, "new_text");
    const char *mode = json_string_value(json_object_get(arguments, "mode"));
    const char *encoding = json_string_value(json_object_get(arguments, "encoding"));
    if (!old_text && !new_text) {
        return json_object_get(arguments, "content")
                   ? NULL
                   : "/content: is required but missing; send the whole content or the piece to "
                     "append, or old_text and new_text for an edit";
    }
    if (json_object_get(arguments, "content")) {
        return "/content: cannot be combined with old_text and new_text; send content for a whole "
               "file, or the other two for an edit";
    }
    if (!old_text || !new_text) {
        return old_text ? "/new_text: is required with old_text; send \"\" to remove the text"
                        : "/old_text: is required with new_text; send the text to replace";
    }
    if (json_string_length(old_text) == 0) {
        return "/old_text: is empty; send the text to replace";
    }
    if (json_equal(old_text, new_text)) {
        return "/new_text: is the same as old_text, so nothing would change";
    }
    return mode && strcmp(mode, "overwrite") != 0 ? "/mode: must be left out for an edit"
           : encoding && strcmp(encoding, "utf-8") != 0
               ? "/encoding: an edit is of UTF-8 text; change other files with Python"
               : NULL;
}

void write_file_call(struct tools *tools, struct rpc_call *call, const json_t *arguments)
{
    static const char *const modes[] = {[WIRE_WRITE_OVERWRITE] = "overwrite",
                                        [WIRE_WRITE_CREATE] = "create",
                                        [WIRE_WRITE_APPEND] = "append"};
    const char *mode = json_string_value(json_object_get(arguments, "mode"));
    const char *encoding = json_string_value(json_object_get(arguments, "encoding"));
    struct write_op *op = calloc(1, sizeof *op);
    if (!op) {
        rpc_call_fail(call, RPC_INTERNAL_ERROR, "out of memory");
        return;
    }
    op->work.cancel = write_op_cancel;
    op->tools = tools;
    op->call = call;
    rpc_call_set_data(call, op);
    op->fd = -1;
    op->source_fd = -1;
    op->arguments = json_incref((json_t *)(uintptr_t)arguments);
    const json_t *old_text = json_object_get(arguments, "old_text");
    const json_t *new_text = json_object_get(arguments, "new_text");
    op->edit = (struct edit){json_string_value(old_text), json_string_length(old_text),
                             json_string_value(new_text), json_string_length(new_text)};
    for (unsigned i = 0; mode && i < 3; i++) {
        if (strcmp(mode, modes[i]) == 0) {
            op->mode = (enum wire_write_mode)i;
        }
    }
    const char *error = path_take(tools->config.spec, json_object_get(arguments, "path"), op->path);
    error = error ? error : contradiction(arguments);
    if (error) {
        content_refuse(call, "%s", error);
        write_op_free(op);
        return;
    }
    if (write_op_protected(op)) {
        return;
    }
    if (op->edit.old_text) {
        server_box_wait(tools->server_box, &op->waiter, write_op_begin, op);
        return;
    }
    const json_t *content = json_object_get(arguments, "content");
    if (encoding && strcmp(encoding, "base64") == 0) {
        write_op_decode(op, json_string_value(content), json_string_length(content));
    } else {
        const char *text = json_string_value(content);
        size_t size = json_string_length(content);
        op->unfenced = op->mode != WIRE_WRITE_APPEND && strip_fence(op->path, &text, &size);
        write_op_wait(op, text, size);
    }
}
