#pragma once
#include "tools/servers/ledger.h"
#include "tools/servers/tool_server.h"

/* The calls of one session: frames of its code, checked against the grants, and their results.
 * docs/GUEST.md has the frames. What code sends is hostile, and what a tool server sends goes back
 * to the code unread. */

struct channel_call;

struct tool_channel {
    struct tool_servers *servers; /* NULL: without --tools */
    uint32_t session;             /* its number, which no other has */
    struct box_session *guest;    /* NULL: none */
    struct run *run;              /* NULL: none, and nothing can be called */
    struct channel_call *calls;
    unsigned count;
    size_t bytes; /* of the arguments of all */
    struct ledger ledger;
};

/* A frame of the code. */
void tool_channel_receive(struct tool_channel *channel, const struct box_message *message);

/* A cell begins; calls may come. */
void tool_channel_begin(struct tool_channel *channel, struct box_session *guest, struct run *run);
/* It has ended, or is about to be taken back: its calls get no response any more, and what has left
 * without one stays unknown. */
void tool_channel_end(struct tool_channel *channel);
void tool_channel_done(struct tool_channel *channel);
