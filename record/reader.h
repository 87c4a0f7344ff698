#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/fail.h"
#include "base/sha256.h"

/* Reads a record, whoever made it: a regular file, with bounded lines, whose members have the types
 * that a server writes. */

struct record_reader;

enum record_read {
    RECORD_READ_EVENT,
    RECORD_READ_END,
    RECORD_READ_BAD, /* the rest cannot be read: why says it */
};

struct record_reading {
    size_t lines;           /* so far, whole ones */
    char hash[SHA256_TEXT]; /* of the last */
    size_t altered;         /* number of the first line that does not follow from others; 0: none */
    bool torn;              /* the file ends within a line */
    bool ended;             /* the last event is of kind "end" */
    size_t unreadable;      /* number of the first line that is no event; 0: none */
    char why[200];          /* of it: "line 3: seq is missing" */
};

/* dir_fd as in openat(2). 0 or -errno with ret_fail. */
int record_reader_open(int dir_fd, const char *path, struct record_reader **ret_reader,
                       struct fail *ret_fail);
void record_reader_free(struct record_reader *reader);

/* Passes lines that are no events. *ret_event: new, of RECORD_READ_EVENT. */
enum record_read record_reader_next(struct record_reader *reader, json_t **ret_event);

const struct record_reading *record_reader_state(const struct record_reader *reader);
