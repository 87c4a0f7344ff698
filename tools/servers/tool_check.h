#pragma once
#include <jansson.h>

#include "tools/servers/tool_server.h"

/* Whether a call may leave: the checks, in the order that docs/TOOLS.md has, but for the user's
 * approval. */

enum { TOOL_REASON_BYTES = 1200 };

/* How a call ends. The guest raises an exception by this word. */
#define SAID_RESULT "ok"
#define SAID_TOOL "tool"       /* ToolError */
#define SAID_DENIED "denied"   /* PermissionError */
#define SAID_UNKNOWN "unknown" /* AttributeError */
#define SAID_INVALID "invalid" /* TypeError */
#define SAID_REFUSED "refused" /* RuntimeError */

/* A call; all is borrowed. */
struct tool_check {
    const struct tool_server *server;
    const struct tools_file *file;
    const char *tool;
    const char *label; /* for sentences */
    const json_t *arguments;
    /* Of a refusal: */
    const char *said;
    char text[TOOL_REASON_BYTES];
};

/* A word of others in a sentence. */
#define TOOL_SHOWN(word) word_show((word), strlen(word), (char[WORD_BYTES]){}, WORD_BYTES)

/* New: "github.create_issue"; names that could be read as something else are in quotes. NULL: out
 * of memory. */
char *tool_label_new(const char *server, const char *tool);

bool tool_check_passes(struct tool_check *check);

struct buf;

/* What the user reads for a grant with `ask` before a call leaves. Its words are those
 * of the code, which would like the user to misread it. */

enum { TOOL_APPROVAL_BYTES = 1000 /* of the arguments; nobody reads more */ };

/* Appends, with a NUL, what asks for a call of label (tool_label_new()) with these arguments.
 * Returns NULL, or why the user cannot be asked, a static sentence. */
const char *tool_approval_write(struct buf *text, const char *label, const json_t *arguments);
