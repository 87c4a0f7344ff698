#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/loop.h"

struct buf;

/* Finds a range of lines or bytes in a text file and reads only that, however large the file is. */

struct read_range {
    const char *path;     /* the file's name for sentences */
    const char *decoded;  /* what code opens the file with: it was decoded from that; or NULL */
    bool has_bytes;       /* offset and length, instead of lines */
    long long start_line; /* from 1; negative: from the end; 0: from the first */
    long long end_line;   /* that line included; 0: to the end */
    uint64_t offset;
    uint64_t length; /* UINT64_MAX: as much as fits */
};

/* error: 0 or an errno value. text: borrowed, NULL on error; the text of the result. is_error: text
 * is a sentence that says why there is no such part. */
typedef void (*read_text_fn)(void *arg, int error, const struct buf *text, bool is_error);

enum read_search { READ_COUNT, READ_BEGIN, READ_END };

struct read_text {
    struct loop *loop;
    struct loop_task task;
    read_text_fn fn;
    void *arg;
    int fd;
    struct read_range range;
    uint64_t size;
    uint64_t lines; /* in the whole file; 0: not counted */
    uint64_t begin; /* the part, in bytes */
    uint64_t end;
    enum read_search search; /* the current one, */
    uint64_t at;             /* its offset, */
    size_t skip;             /* and the line ends that it still skips */
};

/* fd: a regular file; borrowed, as the path, until fn is called, maybe before this returns. */
void read_text_start(struct read_text *reading, struct loop *loop, int fd,
                     const struct read_range *range, read_text_fn fn, void *arg);
void read_text_stop(struct read_text *reading);
