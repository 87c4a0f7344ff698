#include "rpc/message.h"

#include <errno.h>
#include <string.h>

#include "base/limits.h"
#include "base/own.h"
#include "rpc/text.h"

json_t *rpc_id(json_t *value)
{
    return json_is_string(value) || json_is_integer(value) ? value : NULL;
}

/* Not where the id may be cut off. */
json_t *message_id_of(struct span line)
{
    const size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DISABLE_EOF_CHECK;
    struct span rest = {};
    json_error_t error; /* its position is the end of the value */
    if (!scan_member(line, "id", &rest)) {
        return NULL;
    }
    json_auto_t *value = json_loadb(rest.bytes, rest.size, flags, &error);
    return value && (size_t)error.position < rest.size ? json_incref(rpc_id(value)) : NULL;
}

/* Not of a response: that id is one of ours. */
json_t *message_rescue_id(struct span line)
{
    struct span rest = {};
    bool is_response = scan_member(line, "result", &rest) || scan_member(line, "error", &rest);
    return is_response ? NULL : message_id_of(line);
}

static const char out_of_range[] = "Invalid request: a number is out of range";

static json_t *parse_once(struct span line, enum rpc_code *ret_code, const char **ret_problem,
                          json_t **ret_id, bool *ret_marked)
{
    json_error_t error;
    *ret_id = NULL;
    *ret_code = RPC_INVALID_REQUEST;
    enum scan_size size = scan_size(line, LIMIT_JSON_DEPTH, LIMIT_JSON_VALUES);
    if (size != SCAN_FITS) {
        *ret_problem = size == SCAN_TOO_DEEP ? "Invalid request: nested too deeply"
                                             : "Invalid request: more than 500,000 values";
        *ret_id = message_rescue_id(line);
        return NULL;
    }
    json_t *value = rpc_text_load_marked(line.bytes, line.size, &error, ret_marked);
    if (value) {
        return value;
    }
    switch ((int)json_error_code(&error)) {
    case json_error_duplicate_key:
        *ret_problem = "Invalid request: a key occurs twice in one object";
        break;
    case json_error_numeric_overflow:
        *ret_problem = out_of_range;
        break;
    case json_error_out_of_memory:
        *ret_code = RPC_INTERNAL_ERROR;
        *ret_problem = "Out of memory";
        break;
    default:
        *ret_code = RPC_PARSE_ERROR;
        *ret_problem = "Parse error: the line is not valid JSON";
        break;
    }
    *ret_id = message_rescue_id(line);
    return NULL;
}

/* Appends the text with a real in the place of each integer that may be beyond 64 bits. */
static void append_widened(struct buf *out, struct span text)
{
    enum { INTEGER_BYTES = 18, REAL_BYTES = 300 /* a double has no more than 308 digits */ };
    const char *end = text.bytes + text.size;
    struct span integer = {};
    while (scan_integer(text, INTEGER_BYTES, &integer)) {
        size_t kept = integer.size < REAL_BYTES ? integer.size : REAL_BYTES;
        (void)buf_append(out, text.bytes, (size_t)(integer.bytes - text.bytes) + kept);
        (void)buf_append_text(out, ".0");
        text.bytes = integer.bytes + integer.size;
        text.size = (size_t)(end - text.bytes);
    }
    (void)buf_append(out, text.bytes, text.size);
}

json_t *message_parse(struct span line, enum rpc_code *ret_code, const char **ret_problem,
                      json_t **ret_id, bool *ret_marked)
{
    OWNED(buf_done) struct buf wide = BUF_EMPTY;
    json_t *value = parse_once(line, ret_code, ret_problem, ret_id, ret_marked);
    if (value || *ret_problem != out_of_range) {
        return value;
    }
    append_widened(&wide, line);
    if (buf_error(&wide)) {
        return NULL;
    }
    json_decref(*ret_id);
    return parse_once((struct span){buf_bytes(&wide), buf_size(&wide)}, ret_code, ret_problem,
                      ret_id, ret_marked);
}

static const char *request_problem(const json_t *value, const struct message *message)
{
    const char *version = rpc_text_plain(json_object_get(value, "jsonrpc"));
    const json_t *id = json_object_get(value, "id");
    if (!version || strcmp(version, "2.0") != 0) {
        return "Invalid request: jsonrpc must be \"2.0\"";
    }
    if (id && !message->id) {
        return "Invalid request: id must be a string or an integer";
    }
    if (!message->method) {
        return "Invalid request: method must be a string";
    }
    return NULL;
}

void message_classify(json_t *value, struct message *ret_message)
{
    *ret_message = (struct message){.kind = MESSAGE_INVALID};
    if (!json_is_object(value)) {
        ret_message->problem = "Invalid request: not an object";
        return;
    }
    json_t *id = json_object_get(value, "id");
    ret_message->id = rpc_id(id);
    /* An error without an id is a response too: responding to it could go on for ever. */
    bool is_response = json_object_get(value, "error") || (json_object_get(value, "result") && id);
    if (is_response && !json_object_get(value, "method")) {
        ret_message->kind = MESSAGE_RESPONSE;
        return;
    }
    ret_message->method = rpc_text_plain(json_object_get(value, "method"));
    ret_message->problem = request_problem(value, ret_message);
    if (ret_message->problem) {
        return;
    }
    json_t *params = json_object_get(value, "params");
    ret_message->params = json_is_null(params) ? NULL : params;
    ret_message->kind = id ? MESSAGE_REQUEST : MESSAGE_NOTIFICATION;
}

/* Appends the envelope up to the value of key. */
static void write_head(struct buf *out, const json_t *id, const char *key)
{
    buf_append_text(out, "{\"jsonrpc\":\"2.0\",");
    if (id) {
        buf_append_text(out, "\"id\":");
        rpc_text_dump(out, id);
        buf_append_text(out, ",");
    }
    buf_append_text(out, key);
}

/* Ends a message, or takes it back. before: the size of out before it. */
static int write_end(struct buf *out, size_t before)
{
    if (buf_append_text(out, "}") < 0) {
        buf_cut(out, before);
        return -ENOMEM;
    }
    return 0;
}

int message_write_result(struct buf *out, const json_t *id, const json_t *result)
{
    size_t before = buf_size(out);
    write_head(out, id, "\"result\":");
    rpc_text_dump(out, result);
    return write_end(out, before);
}

int message_write_error(struct buf *out, const json_t *id, int code, const char *text,
                        const json_t *data)
{
    size_t before = buf_size(out);
    json_auto_t *error = json_pack("{s:i, s:o, s:O*}", "code", code, "message",
                                   rpc_text(text, strlen(text)), "data", data);
    write_head(out, id, "\"error\":");
    rpc_text_dump(out, error);
    return write_end(out, before);
}

int message_write_request(struct buf *out, const json_t *id, const char *method,
                          const json_t *params)
{
    size_t before = buf_size(out);
    json_auto_t *name = json_string(method);
    write_head(out, id, "\"method\":");
    rpc_text_dump(out, name);
    if (params) {
        buf_append_text(out, ",\"params\":");
        rpc_text_dump(out, params);
    }
    return write_end(out, before);
}

/* --- lines --- */

enum { FRAME_KEEP_BYTES = 1 << 20 };

void frame_done(struct frame *frame)
{
    buf_done(&frame->in);
    *frame = (struct frame){};
}

static void frame_drop(struct frame *frame, size_t size)
{
    buf_consume(&frame->in, size);
    frame->scanned = 0;
    frame->taken = 0;
}

static void frame_drop_taken(struct frame *frame)
{
    if (frame->taken > 0) {
        frame_drop(frame, frame->taken);
    }
}

int frame_reserve(struct frame *frame, size_t size, char **ret_space)
{
    frame_drop_taken(frame);
    if (buf_size(&frame->in) == 0) {
        buf_clear(&frame->in, FRAME_KEEP_BYTES);
    }
    return buf_reserve(&frame->in, size, ret_space);
}

void frame_commit(struct frame *frame, size_t size)
{
    buf_commit(&frame->in, size);
}

static const char mark[] = "\xEF\xBB\xBF";

/* Removes what is not part of the message: the byte order mark and the CR. */
static struct span frame_trim(struct frame *frame, struct span line)
{
    size_t size = sizeof mark - 1;
    if (!frame->started && line.size >= size && memcmp(line.bytes, mark, size) == 0) {
        line.bytes += size;
        line.size -= size;
    }
    frame->started = true;
    if (line.size > 0 && line.bytes[line.size - 1] == '\r') {
        line.size--;
    }
    return line;
}

static bool frame_blank(struct span line)
{
    for (size_t i = 0; i < line.size; i++) {
        if (line.bytes[i] != ' ' && line.bytes[i] != '\t' && line.bytes[i] != '\r') {
            return false;
        }
    }
    return true;
}

/* Drops the next bytes of a line that is too long. */
static void frame_skip(struct frame *frame, size_t size)
{
    if (!frame->skipping) {
        frame->outline = (struct scan_outline){};
    }
    frame->skipping = true;
    scan_outline(&frame->outline, (struct span){buf_bytes(&frame->in), size});
    frame_drop(frame, size);
}

static enum frame_result frame_skipped(struct frame *frame, struct span *ret_outline)
{
    frame->skipping = false;
    *ret_outline =
        (struct span){frame->outline.text, frame->outline.full ? 0 : frame->outline.size};
    return FRAME_TOO_LONG;
}

/* Finds the end of the first line. Returns its size with the LF, or 0 without an LF. */
static size_t frame_find(struct frame *frame, bool at_end)
{
    size_t size = buf_size(&frame->in);
    if (size == frame->scanned) {
        return at_end ? size : 0;
    }
    const char *bytes = buf_bytes(&frame->in);
    const char *end = memchr(bytes + frame->scanned, '\n', size - frame->scanned);
    if (end) {
        return (size_t)(end - bytes) + 1;
    }
    frame->scanned = size;
    return at_end ? size : 0;
}

enum frame_result frame_next(struct frame *frame, size_t max, bool at_end, struct span *ret_line)
{
    frame_drop_taken(frame);
    for (;;) {
        size_t take = frame_find(frame, at_end);
        if (take == 0) {
            bool ended = at_end && frame->skipping;
            /* What frame_trim may remove, so that a line passes however it was cut. */
            size_t most = max + 1 + (frame->started ? 0 : sizeof mark - 1);
            if (frame->skipping || buf_size(&frame->in) > most) {
                frame_skip(frame, buf_size(&frame->in));
            }
            return ended ? frame_skipped(frame, ret_line) : FRAME_NONE;
        }
        struct span line = {buf_bytes(&frame->in), take};
        line.size -= line.bytes[take - 1] == '\n';
        line = frame_trim(frame, line);
        if (frame->skipping || line.size > max) {
            frame_skip(frame, take);
            return frame_skipped(frame, ret_line);
        }
        if (!frame_blank(line)) {
            frame->taken = take;
            *ret_line = line;
            return FRAME_LINE;
        }
        frame_drop(frame, take);
    }
}
