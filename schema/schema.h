#pragma once
#include <jansson.h>
#include <stddef.h>

/* The tools' schema files, and what is enforced of them: what tools/list sends and what arguments
 * are checked against are the same object. One file a tool: {"name", "title", "description",
 * "inputSchema", "annotations", "_meta"}. */

/* Name of the index-th tool, in the order of tools/list; NULL past the last. */
const char *schema_name(size_t index);

/* Borrowed for the life of the process: the tool's whole file, parsed once, and its inputSchema.
 * NULL when there is no such tool (or no memory to parse it). */
const json_t *schema_tool(const char *name);
const json_t *schema_input(const char *name);

/* New: what the tool's structuredContent is like, in the structured form. NULL when there is no such
 * tool or no memory. */
json_t *schema_output(const char *name);

/* One placeholder of the descriptions: {key} is shown as text. */
struct schema_value {
    const char *key;
    const char *text;
};

/* New: the tool's entry of tools/list with all placeholders filled. values ends with a NULL key; a
 * placeholder without value stays as it is. NULL when there is no such tool or no memory. */
json_t *schema_describe(const char *name, const struct schema_value *values);

struct schema_violation {
    char pointer[128]; /* RFC 6901, "" is the arguments themselves; cut when longer */
    char text[384];    /* one sentence for a model, without the pointer */
};

/* Checks value against schema and fills the first max violations. Returns how many there are in
 * all; 0 means valid. An explicit null for an optional property counts as absent. Recursion is
 * bounded by the schema, whatever the value's depth. */
size_t schema_validate(const json_t *schema, const json_t *value,
                       struct schema_violation *violations, size_t max);

/* New: value with what hosts are known to send put right: null for an optional property is dropped,
 * a bare value where a list of such is wanted becomes a list of one, 3.0 where an integer is wanted
 * becomes 3. The same object, referenced, when nothing had to change. NULL when there is no
 * memory. */
json_t *schema_coerce(const json_t *schema, json_t *value);

/* The first keyword in schema that the validator lacks, or whose value it cannot use; NULL when all
 * are supported. */
const char *schema_unsupported(const json_t *schema);
