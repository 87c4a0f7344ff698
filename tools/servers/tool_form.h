#pragma once
#include <jansson.h>

/* Forms that tool servers have the user fill in. Pure. */

/* New: what the user sees of the requestedSchema of an elicitation. Has only what the protocol
 * knows, with invisible characters escaped and long texts cut. NULL: the schema is no form, or has
 * such a text where the response must repeat it. */
json_t *tool_form_new(json_t *schema);
