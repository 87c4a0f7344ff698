#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "rpc/code.h"
#include "rpc/frame.h"

struct cut;

/* A request id or progress token as JSON text in one spelling, so that equal ids have equal bytes.
 * Text, because an integer of any length must come back as it was sent. Zeroed: none. */
struct rpc_id {
    char *token;
    size_t size;
};

void rpc_id_done(struct rpc_id *id);
bool rpc_id_equal(const struct rpc_id *a, const struct rpc_id *b);

/* value: a parsed string or integer; raw: the same as it was sent, looked at only where jansson
 * could not keep it. 0, -EINVAL when it is something else, or -ENOMEM. */
int rpc_id_read(const json_t *value, struct span raw, struct rpc_id *ret_id);

enum message_kind {
    MESSAGE_REQUEST,
    MESSAGE_NOTIFICATION,
    MESSAGE_RESPONSE,
    MESSAGE_INVALID,
    MESSAGE_KIND_COUNT,
};

struct message {
    enum message_kind kind;
    struct rpc_id id;    /* also of an invalid message, where it could be read */
    const char *method;  /* borrowed from the parsed line */
    json_t *params;      /* borrowed, NULL when absent or null */
    const char *problem; /* of an invalid message: one sentence */
};

/* New: the parsed line. cut: of a long line, else NULL. NULL sets *ret_code and *ret_problem, and
 * *ret_id when the text has an id in the right place. */
json_t *message_parse(struct span line, const struct cut *cut, enum rpc_code *ret_code,
                      const char **ret_problem, struct rpc_id *ret_id);

/* raw: the text that value was parsed from. ret_message must be given to message_done(). */
void message_classify(json_t *value, struct span raw, struct message *ret_message);
void message_done(struct message *message);

/* Append one message without LF. id without token: none is sent. 0 or -ENOMEM; on failure out is as
 * before. data may be NULL. */
int message_write_result(struct buf *out, const struct rpc_id *id, const json_t *result);
int message_write_error(struct buf *out, const struct rpc_id *id, int code, const char *text,
                        const json_t *data);
int message_write_progress(struct buf *out, const struct rpc_id *token, double progress,
                           const char *text);
