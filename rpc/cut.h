#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "rpc/frame.h"

/* jansson parses a text in one step, which takes the better part of a second for 64 MiB. So the long
 * strings of a long line are decoded while it comes in, a piece with each read; jansson is given the
 * rest of the line with a mark in the place of each, and the strings are put back into what it made.
 *
 * A mark is a string of NUL and a number. A literal that begins with NUL itself is always cut out,
 * so that in the rest only marks do. A key is a literal too: jansson refuses NUL in keys, and the
 * whole line is then parsed in one step. A string that is not valid leaves a literal that is not
 * valid either, so that jansson reports the first mistake of the line as it would have. */

enum {
    CUT_LINE_BYTES = 1 << 20, /* shorter lines are parsed in one step, within some milliseconds */
    CUT_LITERAL_BYTES = 4096, /* shorter literals stay, with their quotes */
};

enum cut_state {
    CUT_REST,    /* between long literals */
    CUT_STRING,  /* inside one */
    CUT_SKIPPED, /* inside one that has shown not to be valid */
    CUT_FAILED,  /* there was no memory */
};

struct cut {
    size_t literal_bytes; /* shorter literals stay in the rest; keys that we know are shorter */
    size_t at;            /* bytes of the line that are done */
    enum cut_state state;
    struct buf rest;
    struct buf text; /* the string at which we are, decoded up to here */
    json_t *strings; /* an array of those that are complete; NULL: none */
};

#define CUT_EMPTY ((struct cut){.literal_bytes = CUT_LITERAL_BYTES})

/* Back to CUT_EMPTY. */
void cut_done(struct cut *cut);

/* Works on as far as the line has come in. line: from its first byte, each time; what was done is
 * not looked at again. whole: nothing will follow. 0, or -ENOMEM, from then on each time. */
int cut_line(struct cut *cut, struct span line, bool whole);

/* For jansson, once the line is whole. Borrowed until cut_done(). */
struct span cut_rest(const struct cut *cut);

/* Replaces the marks in what the rest was parsed to. value: stolen. New, or NULL without memory. */
json_t *cut_put_back(const struct cut *cut, json_t *value);
