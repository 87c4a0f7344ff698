#include "tools/servers/ledger.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/own.h"

enum { ROWS = 4096, GROW = 16, SHOWN = 8 };
#define TIMES "\xC3\x97"

void ledger_done(struct ledger *ledger)
{
    for (unsigned i = 0; i < ledger->count; i++) {
        free(ledger->rows[i].label);
    }
    free(ledger->rows);
    *ledger = (struct ledger){};
}

static struct ledger_row *find(const struct ledger *ledger, unsigned cell, const char *label)
{
    for (unsigned i = ledger->count; i-- > 0;) {
        if (ledger->rows[i].cell == cell && strcmp(ledger->rows[i].label, label) == 0) {
            return &ledger->rows[i];
        }
    }
    return NULL;
}

/* A ledger that is full counts the call for the newest cell that has called the tool: so it names
 * too many rather than too few. */
static struct ledger_row *add_row(struct ledger *ledger, unsigned cell, const char *label)
{
    if (ledger->count == ROWS) {
        for (unsigned i = ledger->count; i-- > 0;) {
            if (strcmp(ledger->rows[i].label, label) == 0) {
                ledger->rows[i].cell = cell;
                ledger->rows[i].gone = false;
                return &ledger->rows[i];
            }
        }
        return NULL;
    }
    if (ledger->count % GROW == 0) {
        struct ledger_row *grown =
            realloc(ledger->rows, (ledger->count + GROW) * sizeof *ledger->rows);
        if (!grown) {
            return NULL;
        }
        ledger->rows = grown;
    }
    char *copy = strdup(label);
    if (!copy) {
        return NULL;
    }
    ledger->rows[ledger->count] =
        (struct ledger_row){.cell = cell, .label = copy, .before = ledger->newest};
    ledger->newest = ++ledger->count;
    return &ledger->rows[ledger->newest - 1];
}

bool ledger_add(struct ledger *ledger, unsigned cell, const char *label, bool reads)
{
    struct ledger_row *row = find(ledger, cell, label);
    row = row ? row : add_row(ledger, cell, label);
    if (row) {
        row->unknown++;
        row->writes = row->writes || !reads;
    }
    return row != NULL;
}

void ledger_responded(struct ledger *ledger, unsigned cell, const char *label, uint64_t ns)
{
    struct ledger_row *row = find(ledger, cell, label);
    if (row && row->unknown > 0) {
        row->unknown--;
        row->done++;
        row->ns += ns;
    }
}

/* A sum over several cells, or of one. */
struct line {
    const char *label;
    unsigned count;
    uint64_t ns;
};

/* What a list is of: rows that are chosen, and which of their numbers. */
struct list {
    bool (*chosen)(const struct ledger_row *row, const void *arg);
    const void *arg;
    unsigned (*number)(const struct ledger_row *row);
    bool timed;
};

static struct line sum_of(const struct ledger *ledger, const struct list *list, unsigned first)
{
    struct line line = {.label = ledger->rows[first].label};
    for (unsigned i = 0; i < ledger->count; i++) {
        const struct ledger_row *row = &ledger->rows[i];
        if (list->chosen(row, list->arg) && strcmp(row->label, line.label) == 0) {
            if (i < first && list->number(row) > 0) {
                return (struct line){}; /* it has been listed there */
            }
            line.count += list->number(row);
            line.ns += row->ns;
        }
    }
    return line;
}

/* Appends the sums, and before in front of the first. */
static void append_list(const struct ledger *ledger, const struct list *list, const char *before,
                        struct buf *text)
{
    unsigned shown = 0;
    unsigned more = 0;
    for (unsigned i = 0; i < ledger->count; i++) {
        if (!list->chosen(&ledger->rows[i], list->arg)) {
            continue;
        }
        struct line line = sum_of(ledger, list, i);
        more += line.count > 0 && shown == SHOWN;
        if (line.count == 0 || shown == SHOWN) {
            continue;
        }
        (void)buf_append_text(text, shown++ ? ", " : before);
        (void)buf_append_text(text, line.label);
        (void)buf_appendf(text, " " TIMES "%u", line.count);
        if (list->timed) {
            (void)buf_appendf(text, " (%.1f s)", (double)line.ns / (double)CLOCK_NS_PER_S);
        }
    }
    if (more > 0) {
        (void)buf_appendf(text, " and %u more", more);
    }
}

static unsigned number_of_all(const struct ledger_row *row)
{
    return row->done + row->unknown;
}

static unsigned number_of_done(const struct ledger_row *row)
{
    return row->done;
}

static unsigned number_of_unknown(const struct ledger_row *row)
{
    return row->unknown;
}

static bool is_of_cell(const struct ledger_row *row, const void *cell)
{
    return row->cell == *(const unsigned *)cell;
}

void ledger_list(const struct ledger *ledger, unsigned cell, struct buf *text)
{
    append_list(ledger, &(struct list){is_of_cell, &cell, number_of_all, true}, "", text);
}

struct scope {
    enum ledger_scope scope;
    unsigned cell;
};

static bool is_taken_back(const struct ledger_row *row, const void *arg)
{
    const struct scope *scope = arg;
    bool later = row->cell > scope->cell;
    bool now = !row->gone && (later || !row->stays);
    bool chosen = scope->scope == LEDGER_ONE    ? row->cell == scope->cell
                  : scope->scope == LEDGER_UNDO ? now
                                                : now || later;
    return chosen && row->writes;
}

void ledger_take_back(struct ledger *ledger, enum ledger_scope scope, unsigned cell,
                      unsigned newest, const char *separator, struct buf *text)
{
    const struct scope chosen = {scope, cell};
    for (unsigned at = newest; at > 0; at = ledger->rows[at - 1].before) {
        ledger->rows[at - 1].stays = true;
    }
    append_list(ledger, &(struct list){is_taken_back, &chosen, number_of_done, false},
                "not undone: ", text);
    char before[32];
    (void)snprintf(before, sizeof before, "%sunknown: ", buf_size(text) > 0 ? separator : "");
    append_list(ledger, &(struct list){is_taken_back, &chosen, number_of_unknown, false}, before,
                text);
    for (unsigned i = 0; i < ledger->count; i++) {
        struct ledger_row *row = &ledger->rows[i];
        row->gone = row->cell > cell || !row->stays;
        row->stays = false;
    }
    ledger->newest = newest;
}
