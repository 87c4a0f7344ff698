#include "rpc/message.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/own.h"
#include "rpc/cut.h"
#include "rpc/scan.h"
#include "rpc/text.h"

void rpc_id_done(struct rpc_id *id)
{
    free(id->token);
    *id = (struct rpc_id){};
}

bool rpc_id_equal(const struct rpc_id *a, const struct rpc_id *b)
{
    return a->token && b->token && a->size == b->size && memcmp(a->token, b->token, a->size) == 0;
}

int rpc_id_read(const json_t *value, struct span raw, struct rpc_id *ret_id)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    int r = -EINVAL;
    if (json_is_string(value) || json_is_integer(value)) {
        r = rpc_text_dump(&text, value);
    } else if (json_is_real(value) && scan_is_integer(raw)) {
        r = buf_append(&text, raw.bytes, raw.size);
    }
    if (r < 0) {
        return r;
    }
    char *token = malloc(buf_size(&text));
    if (!token) {
        return -ENOMEM;
    }
    memcpy(token, buf_bytes(&text), buf_size(&text));
    *ret_id = (struct rpc_id){token, buf_size(&text)};
    return 0;
}

/* For lines that are refused before or by the parser: the answer should still reach its request, or
 * the host waits for it until its own time limit. Not where the id may be cut off, and not of a response:
 * that id is one of ours. */
static void rescue_id(struct span line, const struct cut *cut, struct rpc_id *ret_id)
{
    struct span answer = {};
    struct span raw = {};
    if (scan_member(line, "result", &answer) || scan_member(line, "error", &answer) ||
        !scan_member(line, "id", &raw) || raw.bytes + raw.size == line.bytes + line.size) {
        return;
    }
    json_auto_t *value = json_loadb(raw.bytes, raw.size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (cut) {
        value = cut_put_back(cut, value);
    }
    if (!value && scan_is_integer(raw)) {
        value = json_real(0); /* any real: the raw text is what counts */
    }
    (void)rpc_id_read(value, raw, ret_id);
}

/* New, or NULL with *ret_error. */
static json_t *load(struct span line, enum json_error_code *ret_error)
{
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL;
    json_error_t error;
    json_t *value = json_loadb(line.bytes, line.size, flags, &error);
    if (!value && json_error_code(&error) == json_error_numeric_overflow) {
        OWNED(buf_done) struct buf wide = BUF_EMPTY;
        if (scan_widen(line, &wide) == 0) {
            value = json_loadb(buf_bytes(&wide), buf_size(&wide), flags, &error);
        }
    }
    if (!value) {
        *ret_error = json_error_code(&error);
    }
    return value;
}

json_t *message_parse(struct span line, const struct cut *cut, enum rpc_code *ret_code,
                      const char **ret_problem, struct rpc_id *ret_id)
{
    struct span text = cut ? cut_rest(cut) : line;
    enum json_error_code error = json_error_out_of_memory;
    *ret_id = (struct rpc_id){};
    *ret_code = RPC_INVALID_REQUEST;
    if (!scan_depth_within(text, LIMIT_JSON_DEPTH)) {
        *ret_problem = "Invalid request: nested too deeply";
        rescue_id(text, cut, ret_id);
        return NULL;
    }
    json_t *value = load(text, &error);
    if (!value && cut && error == json_error_null_byte_in_key) {
        return message_parse(line, NULL, ret_code, ret_problem, ret_id); /* it may be a mark's */
    }
    if (value && cut) {
        value = cut_put_back(cut, value);
    }
    if (value) {
        return value;
    }
    switch ((int)error) {
    case json_error_duplicate_key:
        *ret_problem = "Invalid request: a key occurs twice in one object";
        break;
    case json_error_numeric_overflow:
        *ret_problem = "Invalid request: a number is out of range";
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
    rescue_id(text, cut, ret_id);
    return NULL;
}

static const char *request_problem(const json_t *value, const struct message *message)
{
    const char *version = rpc_text_plain(json_object_get(value, "jsonrpc"));
    const json_t *id = json_object_get(value, "id");
    if (!version || strcmp(version, "2.0") != 0) {
        return "Invalid request: jsonrpc must be \"2.0\"";
    }
    if (id && !message->id.token) {
        return "Invalid request: id must be a string or an integer";
    }
    if (!message->method) {
        return "Invalid request: method must be a string";
    }
    return NULL;
}

void message_classify(json_t *value, struct span raw, struct message *ret_message)
{
    *ret_message = (struct message){.kind = MESSAGE_INVALID};
    if (!json_is_object(value)) {
        ret_message->problem = "Invalid request: not an object";
        return;
    }
    const json_t *id = json_object_get(value, "id");
    struct span raw_id = {};
    if (json_is_real(id)) {
        (void)scan_member(raw, "id", &raw_id);
    }
    (void)rpc_id_read(id, raw_id, &ret_message->id);
    /* An error about nothing we can name is a response too: answering it could go on for ever. */
    bool answers = json_object_get(value, "error") || (json_object_get(value, "result") && id);
    if (answers && !json_object_get(value, "method")) {
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

void message_done(struct message *message)
{
    rpc_id_done(&message->id);
}

/* Appends the envelope up to where key's value stands. */
static int write_head(struct buf *out, const struct rpc_id *id, const char *key)
{
    if (buf_append_text(out, "{\"jsonrpc\":\"2.0\",") < 0) {
        return -ENOMEM;
    }
    if (id->token && (buf_append_text(out, "\"id\":") < 0 ||
                      buf_append(out, id->token, id->size) < 0 || buf_append(out, ",", 1) < 0)) {
        return -ENOMEM;
    }
    return buf_append_text(out, key);
}

int message_write_result(struct buf *out, const struct rpc_id *id, const json_t *result)
{
    size_t before = buf_size(out);
    if (write_head(out, id, "\"result\":") < 0 || rpc_text_dump(out, result) < 0 ||
        buf_append(out, "}", 1) < 0) {
        out->end = out->start + before;
        return -ENOMEM;
    }
    return 0;
}

int message_write_error(struct buf *out, const struct rpc_id *id, int code, const char *text,
                        const json_t *data)
{
    size_t before = buf_size(out);
    json_auto_t *error =
        json_pack("{s:i, s:o}", "code", code, "message", rpc_text(text, strlen(text)));
    if (!error || (data && json_object_set(error, "data", (json_t *)(uintptr_t)data) < 0) ||
        write_head(out, id, "\"error\":") < 0 || rpc_text_dump(out, error) < 0 ||
        buf_append(out, "}", 1) < 0) {
        out->end = out->start + before;
        return -ENOMEM;
    }
    return 0;
}

int message_write_progress(struct buf *out, const struct rpc_id *token, double progress,
                           const char *text)
{
    static const char head[] =
        "\"method\":\"notifications/progress\",\"params\":{\"progressToken\":";
    size_t before = buf_size(out);
    json_auto_t *number = json_real(progress);
    json_auto_t *words = text ? rpc_text(text, strlen(text)) : NULL;
    if (!number || (text && !words) || write_head(out, &(struct rpc_id){}, head) < 0 ||
        buf_append(out, token->token, token->size) < 0 ||
        buf_append_text(out, ",\"progress\":") < 0 || rpc_text_dump(out, number) < 0 ||
        (words && (buf_append_text(out, ",\"message\":") < 0 || rpc_text_dump(out, words) < 0)) ||
        buf_append(out, "}}", 2) < 0) {
        out->end = out->start + before;
        return -ENOMEM;
    }
    return 0;
}
