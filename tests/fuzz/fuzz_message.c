/* Any line: parsing, classifying and writing it back must hold, and what is written is one line of
 * JSON. Cut in pieces, with its strings taken out, it means the same. */
#include <stdlib.h>
#include <string.h>

#include "rpc/cut.h"
#include "rpc/message.h"
#include "rpc/text.h"
#include "tests/fuzz/fuzz.h"

static void check_line(const struct buf *out)
{
    json_t *value = json_loadb(buf_bytes(out), buf_size(out), JSON_ALLOW_NUL, NULL);
    /* An id or a real that jansson cannot hold is still right on the wire. */
    if (memchr(buf_bytes(out), '\n', buf_size(out))) {
        abort();
    }
    json_decref(value);
}

/* Reals that differ in their text only are equal: what is compared is what was parsed. */
static void check_cut(struct span line, const json_t *value, enum rpc_code code,
                      const char *problem, const struct rpc_id *id)
{
    struct cut cut = CUT_EMPTY;
    struct rpc_id cut_id = {};
    enum rpc_code cut_code = RPC_PARSE_ERROR;
    const char *cut_problem = NULL;
    cut.literal_bytes = 5 + line.size % 7; /* "id" stays, with its quotes */
    for (size_t at = 0; at < line.size; at += 1 + (uint8_t)line.bytes[at] % 13U) {
        if (cut_line(&cut, (struct span){line.bytes, at}, /* whole= */ false) < 0) {
            abort();
        }
    }
    if (cut_line(&cut, line, /* whole= */ true) < 0) {
        abort();
    }
    json_t *cut_value = message_parse(line, &cut, &cut_code, &cut_problem, &cut_id);
    if (value
            ? !json_equal(value, cut_value)
            : cut_value || code != cut_code || problem != cut_problem || id->size != cut_id.size ||
                  (id->size > 0 && memcmp(id->token, cut_id.token, id->size) != 0)) {
        abort();
    }
    json_decref(cut_value);
    rpc_id_done(&cut_id);
    cut_done(&cut);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span line = {(const char *)data, size};
    struct buf out = BUF_EMPTY;
    struct rpc_id id = {};
    enum rpc_code code = RPC_PARSE_ERROR;
    const char *problem = NULL;
    json_t *value = message_parse(line, NULL, &code, &problem, &id);
    check_cut(line, value, code, problem, &id);
    if (value) {
        struct message message;
        message_classify(value, line, &message);
        if ((message.kind == MESSAGE_INVALID) != (message.problem != NULL) ||
            (message.kind == MESSAGE_REQUEST && !message.id.token) ||
            message_write_result(&out, &message.id, value) < 0) {
            abort();
        }
        check_line(&out);
        message_done(&message);
    } else if (!problem || message_write_error(&out, &id, (int)code, problem, NULL) < 0) {
        abort();
    } else {
        check_line(&out);
    }
    json_t *text = rpc_text((const char *)data, size);
    if (!text) {
        abort();
    }
    json_decref(text);
    json_decref(value);
    rpc_id_done(&id);
    buf_done(&out);
    return 0;
}
