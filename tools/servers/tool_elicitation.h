#pragma once
#include "tools/servers/cell_elicitation.h"

struct tool_call;

/* Elicitations of a tool server, which are passed on to the user while code calls it. */

struct tool_elicitations {
    const struct cell_asker *asker; /* NULL: all are declined. Borrowed, as is the next */
    const char *name;               /* of the server */
    struct tool_elicitation *list;
    unsigned count;
};

/* id: of the elicitation. content: of the form; NULL: it is declined. Both are borrowed. */
typedef void (*tool_elicited_fn)(void *arg, const json_t *id, const json_t *content);

/* call: on whose behalf the server asks; NULL: none, and it is declined. params: of the request,
 * may be anything. fn: called once, maybe before this returns, unless it is dropped. */
void tool_elicitations_receive(struct tool_elicitations *elicitations, struct tool_call *call,
                               const json_t *id, const json_t *params, tool_elicited_fn fn,
                               void *arg);
/* The call has ended (NULL: all have), and with it what was asked on its behalf. */
void tool_elicitations_drop(struct tool_elicitations *elicitations, const struct tool_call *call);
