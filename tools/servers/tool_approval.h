#pragma once
#include <jansson.h>

struct buf;

/* What the user reads for a grant with `ask` before a call leaves. Its words are those
 * of the code, which would like the user to misread it. */

enum { TOOL_APPROVAL_BYTES = 1000 /* of the arguments; nobody reads more */ };

/* Appends, with a NUL, what asks for a call of label (tool_label_new()) with these arguments.
 * Returns NULL, or why the user cannot be asked, a static sentence. */
const char *tool_approval_write(struct buf *text, const char *label, const json_t *arguments);
