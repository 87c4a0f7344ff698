#pragma once
#include "tools/servers/cell_elicitation.h"

struct rpc_client;
struct tool_call;

/* Elicitations of a tool server, which are passed on to the user while code calls it. */

struct tool_elicitations {
    const struct cell_asker *asker; /* NULL: all are declined. Borrowed, as are the next two */
    const char *name;               /* of the server */
    struct rpc_client *client;      /* while there are any */
    struct tool_elicitation *list;
    unsigned count;
};

/* call: on whose behalf the server asks; NULL: none, and it is declined. */
void tool_elicitations_receive(struct tool_elicitations *elicitations, struct tool_call *call,
                               const json_t *id, const json_t *params);
/* The call has ended (NULL: all have), and with it what was asked on its behalf. */
void tool_elicitations_drop(struct tool_elicitations *elicitations, const struct tool_call *call);
