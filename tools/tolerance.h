#pragma once
#include <jansson.h>

/* Arguments that models send although a tool's schema has another form for them. Only what can mean
 * nothing else is taken; the schemas stay short and do not mention it. */

/* arguments: an object that is changed only at its top. 0; -ENOMEM; -EFBIG: a file's content would
 * exceed LIMIT_FILE_BYTES. */
int tolerance_apply(const char *tool, json_t *arguments);

/* Which of our arguments, and which of our tools, does what that one of other servers does: a
 * sentence, or NULL. */
const char *tolerance_argument(const char *tool, const char *name);
const char *tolerance_tool(const char *name);
