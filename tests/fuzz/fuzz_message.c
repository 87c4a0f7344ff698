/* Any line: parsing, classifying and writing it back must hold, and what is written is one line of
 * JSON. */
#include <stdlib.h>
#include <string.h>

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span line = {(const char *)data, size};
    struct buf out = BUF_EMPTY;
    struct rpc_id id = {};
    enum rpc_code code = RPC_PARSE_ERROR;
    const char *problem = NULL;
    json_t *value = message_parse(line, &code, &problem, &id);
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
