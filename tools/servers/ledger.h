#pragma once
#include <stdbool.h>
#include <stdint.h>

struct buf;

/* What the cells of a session have called, for what cannot be taken back with them. */

struct ledger_row {
    unsigned cell;
    char *label;      /* "github.create_issue", as tool_label_new() has it */
    unsigned done;    /* a response came, of whatever kind */
    unsigned unknown; /* none came, or none has yet */
    uint64_t ns;      /* of all responses together */
    bool writes;      /* not all calls had a readOnlyHint: there is something to take back */
    bool gone;        /* the state after the cell is not a part of the present one */
};

struct ledger {
    struct ledger_row *rows;
    unsigned count;
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
    LEDGER_SINCE, /* of later cells */
    LEDGER_UNDO,  /* of later cells, but for those that have been taken back already */
};
/* Appends "not undone: github.create_issue x1", separator and "unknown: ..." about calls that a
 * restored state does not take back. But for LEDGER_ONE, cell is that of the present state from now
 * on. */
void ledger_take_back(struct ledger *ledger, enum ledger_scope scope, unsigned cell,
                      const char *separator, struct buf *text);
