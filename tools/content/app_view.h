#pragma once
#include <jansson.h>

#include "tools/tools.h"

/* The view of MCP Apps: a page in which a client shows results to its user, and the data for it.
 * Some clients pass a result's _meta on to the page, others only let the page call read_file:
 * therefore the data of the last results is kept under a key that the page can compute. */

struct views;

/* NULL: out of memory. */
struct views *views_new(enum tools_ui ui);
void views_free(struct views *views);

/* Names the view in a tool's definition, if that tool has one. 0, or -1 when out of memory. */
int views_link(struct views *views, json_t *tool);

/* New: the page as a member of resources/read's contents, or for uri NULL of resources/list; NULL:
 * uri is not the view's. */
json_t *views_page(struct views *views, const char *uri);

/* Keeps the data of a result. arguments: of its call. content: the result's. */
void views_keep(struct views *views, const json_t *arguments, const json_t *content,
                const json_t *data);

/* Keeps the parts of a result's data (an array, stolen) and tells each where the next one is. New:
 * the first; NULL: there is none. */
json_t *views_keep_parts(struct views *views, json_t *parts);

#define VIEW_META "sandpiper/view"
#define VIEW_DATA_PREFIX "sandpiper://view/"
#define VIEW_LIBRARY_PREFIX "sandpiper://lib"

/* The data that is kept under a URI, borrowed; NULL: none. */
const json_t *views_find(const struct views *views, const char *uri);
