#pragma once
#include <jansson.h>
#include <stddef.h>

/* The tools' schema files: what tools/list sends and what arguments are checked against are the
 * same object. One file a tool: {"name", "title", "description", "inputSchema", "annotations",
 * "_meta"}. */

/* Name of the index-th tool, in the order of tools/list; NULL past the last. */
const char *schema_name(size_t index);

/* Borrowed as long as the process lives: the tool's whole file, parsed once, and its inputSchema.
 * NULL when there is no such tool, or no memory to parse it. */
const json_t *schema_tool(const char *name);
const json_t *schema_input(const char *name);

/* New: the schema of the tool's structuredContent. NULL when there is no such tool or no memory. */
json_t *schema_output(const char *name);

/* One placeholder of the descriptions: {key} is shown as text. */
struct schema_value {
    const char *key;
    const char *text;
};

/* New: the tool's entry of tools/list with all placeholders filled. values ends with a NULL key; a
 * placeholder without a value stays. NULL when there is no such tool or no memory. */
json_t *schema_describe(const char *name, const struct schema_value *values);

struct schema_violation {
    char pointer[128]; /* RFC 6901, "" is the arguments themselves; cut when longer */
    char text[384];    /* one sentence for a model, without the pointer */
};

/* Checks value against schema and fills the first max violations. Returns how many there are in
 * all, as far as it has got; 0 means valid. An explicit null for an optional property counts as
 * absent. Recursion is bounded by the schema, whatever the value's depth. */
size_t schema_validate(const json_t *schema, const json_t *value,
                       struct schema_violation *violations, size_t max);

/* New: value with known mistakes of clients corrected: drops null for an optional property, and ""
 * for one that is no free text; makes a bare value a list of one where the schema has a list of
 * such; takes numbers and truth values that were sent as strings; and makes 3.0 an integer where
 * the schema has integers, the nearest there is. The same object, referenced, if nothing changed.
 * NULL when out of memory. */
json_t *schema_coerce(const json_t *schema, json_t *value);

/* New: what schema_validate() knows of a schema of somebody else's, which may be anything: keywords
 * with values that it can rely on. Nothing refers elsewhere, and patterns are bounded. NULL when
 * out of memory. */
json_t *schema_foreign(const json_t *schema);

/* New: those items of an array that are strings; of anything else, none. */
json_t *schema_strings(const json_t *array);

/* The key of object that word most probably means, or NULL. Borrowed from object. */
const char *near_key(const json_t *object, const char *word);
