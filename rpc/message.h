#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "rpc/call.h"
#include "rpc/text.h"

/* A message whose params._meta has MCP_META_VERSION belongs to 2026-07-28 and is checked alone; all
 * others belong to the generation that starts with initialize. */
#define MCP_STATELESS_VERSION "2026-07-28"
#define MCP_META_PREFIX "io.modelcontextprotocol/"
#define MCP_META_VERSION MCP_META_PREFIX "protocolVersion"
#define MCP_META_CAPABILITIES MCP_META_PREFIX "clientCapabilities"
#define MCP_EXTENSION_TASKS MCP_META_PREFIX "tasks"
#define MCP_EXTENSION_UI MCP_META_PREFIX "ui"

/* Returns value if it can be a request id or a progress token: a string or an integer. Else
 * NULL. */
json_t *rpc_id(json_t *value);

enum message_kind {
    MESSAGE_REQUEST,
    MESSAGE_NOTIFICATION,
    MESSAGE_RESPONSE,
    MESSAGE_INVALID,
};

struct message {
    enum message_kind kind;
    /* Borrowed from the parsed line: */
    json_t *id; /* also of an invalid message, if it could be read; else NULL */
    const char *method;
    json_t *params;      /* NULL when absent or null */
    const char *problem; /* of an invalid message: one sentence */
};

/* New: the parsed line. NULL sets *ret_code and *ret_problem, and *ret_id: new, NULL unless the
 * text has an id in the right place. Integers beyond 64 bits are reals in the value, so that only
 * what needs an integer refuses them. *ret_marked: it has marks that rpc_text_unmark() removes; set
 * only then. */
json_t *message_parse(struct span line, enum rpc_code *ret_code, const char **ret_problem,
                      json_t **ret_id, bool *ret_marked);

/* New, or NULL. For lines that are refused before or by the parser: the response should still reach
 * its request, or the client waits until its own time limit. */
json_t *message_rescue_id(struct span line);
/* The same, also of a response. */
json_t *message_id_of(struct span line);

void message_classify(json_t *value, struct message *ret_message);

/* Append one message without LF. id: NULL, none is sent. data may be NULL. 0 or -ENOMEM; on failure
 * out is unchanged. */
int message_write_result(struct buf *out, const json_t *id, const json_t *result);
int message_write_error(struct buf *out, const json_t *id, int code, const char *text,
                        const json_t *data);
/* id: NULL: a notification. params: NULL: none. */
int message_write_request(struct buf *out, const json_t *id, const char *method,
                          const json_t *params);

/* --- lines --- */

/* Cuts a byte stream into lines. Starts zeroed. */
struct frame {
    struct buf in;
    size_t scanned; /* leading bytes known to hold no LF: a long line is searched only once */
    size_t taken;   /* leading bytes of the last line handed out */
    bool started;   /* past the place where a byte order mark may be */
    bool skipping;  /* inside a line that is too long, its start already dropped */
    struct scan_outline outline; /* of that line */
};

enum frame_result {
    FRAME_NONE,     /* more bytes are needed */
    FRAME_LINE,     /* *ret_line is set */
    FRAME_TOO_LONG, /* a line of more than max bytes was dropped; *ret_line is its outline */
};

void frame_done(struct frame *frame);

/* Where the next bytes go: space for at least size. 0 or -ENOMEM. Invalidates the last line. */
int frame_reserve(struct frame *frame, size_t size, char **ret_space);
void frame_commit(struct frame *frame, size_t size);

/* The next line that is not blank, without its LF or CRLF, borrowed until the next frame_ call.
 * at_end: no more bytes will come, so a last line without LF counts. */
enum frame_result frame_next(struct frame *frame, size_t max, bool at_end, struct span *ret_line);
