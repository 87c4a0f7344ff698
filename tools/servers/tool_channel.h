#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "tools/servers/tool_server.h"

struct buf;
struct channel_call;

/* What the cells of a session have called, for what cannot be taken back with them. */

struct ledger_row {
    unsigned cell;
    char *label;      /* "github.create_issue", as tool_label_new() has it */
    unsigned done;    /* a response came, of whatever kind */
    unsigned unknown; /* none came, or none has yet */
    uint64_t ns;      /* of all responses together */
    bool writes;      /* not all calls had a readOnlyHint: there is something to take back */
    bool gone;        /* what the cell did is not a part of the present state */
    bool stays;       /* while a state is restored: that has it */
    unsigned before;  /* what newest was when the row was added */
};

struct ledger {
    struct ledger_row *rows;
    unsigned count;
    unsigned newest; /* row of the present state, from 1 on; 0: it has none. See before */
};

void ledger_done(struct ledger *ledger);

/* A call leaves: it counts as one without a response. Returns false when out of memory. */
bool ledger_add(struct ledger *ledger, unsigned cell, const char *label, bool reads);
/* Its response has come. */
void ledger_responded(struct ledger *ledger, unsigned cell, const char *label, uint64_t ns);

/* Appends what this cell has called: "github.search_issues x12 (0.9 s)", with a multiplication
 * sign. Nothing if it has called nothing. */
void ledger_list(const struct ledger *ledger, unsigned cell, struct buf *text);

enum ledger_scope {
    LEDGER_ONE,   /* of that cell */
    LEDGER_UNDO,  /* of the present state that the restored one does not have */
    LEDGER_SINCE, /* these, and all of later cells */
};
/* Appends "not undone: github.create_issue x1", separator and "unknown: ..." about calls that a
 * restored state does not take back. cell: that has made this state. newest: of the ledger at that
 * time. The state is the present one from now on. */
void ledger_take_back(struct ledger *ledger, enum ledger_scope scope, unsigned cell,
                      unsigned newest, const char *separator, struct buf *text);

/* The calls of one session: frames of its code, checked against the grants, and their results.
 * docs/GUEST.md has the frames. What code sends is hostile, and what a tool server sends goes back
 * to the code unread. */

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
