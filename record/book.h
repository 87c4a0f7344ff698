#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/fail.h"
#include "record/reader.h"

/* A record as it is shown: each call with its result, and what became of its effect. */

enum record_fate {
    RECORD_LIVE,    /* its effect is in the final state of its session */
    RECORD_CUT,     /* the same, of what it did until it was interrupted */
    RECORD_UNDONE,  /* undo, restore or reset has gone back to before it */
    RECORD_GONE,    /* its process crashed or was killed; or its state was lost */
    RECORD_DROPPED, /* fresh */
    RECORD_BRANCH,  /* of the session, a copy that was discarded */
    RECORD_NOT_RUN, /* refused, or cancelled */
    RECORD_NO_END,  /* the record has no result of it */
};

struct record_entry {
    const json_t *event;
    const json_t *result; /* of a cell; NULL: none */
    const char *kind;
    enum record_fate fate; /* of a cell */
    size_t before;         /* the cell whose state it began with, as a position from 1; 0: none */
};

struct record_book {
    json_t *events;               /* owned */
    const json_t *start;          /* or NULL */
    const json_t *end;            /* or NULL */
    struct record_entry *entries; /* without start, end and results */
    size_t count;
    struct record_reading reading;
    char name[64]; /* of the file; escaped */
};

/* Reads a whole record. A line that is no event ends it: then reading.why is set. 0 or -errno with
 * ret_fail. */
int record_book_read(int dir_fd, const char *path, struct record_book *ret_book,
                     struct fail *ret_fail);
void record_book_done(struct record_book *book);

/* Of an event: the text, or "" where there is none; a number, or missing. object may be NULL. */
const char *record_text(const json_t *object, const char *name);
json_int_t record_number(const json_t *object, const char *name, json_int_t missing);

/* The sentence about a cell's fate; "": it is live. */
const char *record_fate_text(enum record_fate fate);

/* Whether the cell led to the final state of its session. */
bool record_is_live(const struct record_entry *entry);

/* "run_python" calls with these arguments set true. */
bool record_is_set(const struct record_entry *entry, const char *argument);
