#pragma once
#include "record/book.h"

struct buf;

/* A record as text for a terminal: whatever the session has printed is only text. */

/* Appends all of it. colours: with SGR sequences of our own. */
void record_show(const struct record_book *book, bool colours, struct buf *out);

/* Appends each refusal, limit and denial: what, why, and the setting that decides. cell: only of
 * cells with this number; 0: of all. Returns whether there is one. */
bool record_why(const struct record_book *book, json_int_t cell, struct buf *out);

/* Appends a line for `record list`: when, how long, how many cells, which host. */
void record_summary(const struct record_book *book, struct buf *out);

/* Appends what the chain says. Returns whether it is whole. */
bool record_verdict(const struct record_reading *reading, struct buf *out);

/* Appends what the entry is, on one line: "cell 3", "write_file data.csv". */
void record_title(const struct record_entry *entry, struct buf *out);

/* Appends text in which "{name}" stands for that member of object, a text or an integer. */
void record_fill(struct buf *out, const json_t *object, const char *text,
                 void (*escape)(struct buf *out, const char *text, size_t size));

/* Appends the time of day of an event, on one line: "10:15:02". */
void record_clock(const json_t *event, struct buf *out);
