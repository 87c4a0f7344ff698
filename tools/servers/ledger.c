#include "tools/servers/ledger.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/word.h"

enum { ROWS = 1 << 16, GROW = 16, SHOWN = 8 };
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
    for (unsigned i = ledger->count; ledger->count >= ROWS && i-- > 0;) {
        if (strcmp(ledger->rows[i].label, label) == 0) {
            ledger->rows[i].cell = cell;
            ledger->rows[i].gone = false;
            return &ledger->rows[i];
        }
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

/* What of a row is summed up. */
enum { DONE = 1, UNKNOWN = 2, TIME = 4 };

/* New: label → the sum of these parts of the chosen rows, in their order. */
static json_t *sum(const struct ledger *ledger,
                   bool (*chosen)(const struct ledger_row *row, const void *arg), const void *arg,
                   unsigned parts)
{
    json_t *sums = json_object();
    for (unsigned i = 0; i < ledger->count; i++) {
        const struct ledger_row *row = &ledger->rows[i];
        uint64_t more = (parts & DONE ? row->done : 0) + (parts & UNKNOWN ? row->unknown : 0) +
                        (parts & TIME ? row->ns : 0);
        if (more > 0 && chosen(row, arg)) {
            json_int_t before = json_integer_value(json_object_get(sums, row->label));
            (void)json_object_set_new(sums, row->label, json_integer(before + (json_int_t)more));
        }
    }
    return sums;
}

/* Appends counts, and before in front of the first. times: NULL, or in nanoseconds. Frees both. */
static void append_sums(struct buf *text, const char *before, json_t *counts, json_t *times)
{
    struct word_list list = {.out = text, .before = before, .most = SHOWN};
    const char *label = NULL;
    json_t *count = NULL;
    json_object_foreach (counts, label, count) {
        if (!word_list_next(&list)) {
            continue;
        }
        (void)buf_appendf(text, "%s " TIMES "%lld", label, json_integer_value(count));
        if (times) {
            double ns = (double)json_integer_value(json_object_get(times, label));
            (void)buf_appendf(text, " (%.1f s)", ns / (double)CLOCK_NS_PER_S);
        }
    }
    word_list_end(&list);
    json_decref(counts);
    json_decref(times);
}

static bool is_of_cell(const struct ledger_row *row, const void *cell)
{
    return row->cell == *(const unsigned *)cell;
}

void ledger_list(const struct ledger *ledger, unsigned cell, struct buf *text)
{
    append_sums(text, "", sum(ledger, is_of_cell, &cell, DONE | UNKNOWN),
                sum(ledger, is_of_cell, &cell, TIME));
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
    append_sums(text, "not undone: ", sum(ledger, is_taken_back, &chosen, DONE), NULL);
    char before[32];
    (void)snprintf(before, sizeof before, "%sunknown: ", buf_size(text) > 0 ? separator : "");
    append_sums(text, before, sum(ledger, is_taken_back, &chosen, UNKNOWN), NULL);
    for (unsigned i = 0; i < ledger->count; i++) {
        struct ledger_row *row = &ledger->rows[i];
        row->gone = row->cell > cell || !row->stays;
        row->stays = false;
    }
    ledger->newest = newest;
}
