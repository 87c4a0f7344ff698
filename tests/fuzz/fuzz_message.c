/* Any line can be parsed, classified and written back, and the output is one line of JSON. */
#include <stdlib.h>
#include <string.h>

#include "rpc/message.h"
#include "rpc/text.h"
#include "tests/fuzz/fuzz.h"

static void check_line(const struct buf *out)
{
    json_t *value = json_loadb(buf_bytes(out), buf_size(out), JSON_ALLOW_NUL, NULL);
    if (!value || memchr(buf_bytes(out), '\n', buf_size(out))) {
        abort();
    }
    json_decref(value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span line = {(const char *)data, size};
    struct buf out = BUF_EMPTY;
    json_t *id = NULL;
    enum rpc_code code = RPC_PARSE_ERROR;
    const char *problem = NULL;
    bool marked = false;
    json_t *value = message_parse(line, &code, &problem, &id, &marked);
    if (value) {
        struct message message;
        message_classify(value, &message);
        if ((message.kind == MESSAGE_INVALID) != (message.problem != NULL) ||
            (message.kind == MESSAGE_REQUEST && !message.id) ||
            message_write_result(&out, message.id, value) < 0) {
            abort();
        }
        check_line(&out);
    } else if (!problem || message_write_error(&out, id, (int)code, problem, NULL) < 0) {
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
    json_decref(id);
    buf_done(&out);
    return 0;
}
