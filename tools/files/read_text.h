#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/loop.h"

struct buf;

/* Lines of text in memory. A line ends with "\n"; the last one may lack it. */

/* Number of line ends. */
size_t lines_ends(const char *bytes, size_t size);

/* Number of lines: a line end at the very end begins no further line. */
size_t lines_count(const char *bytes, size_t size);

/* Moves over *skip line ends. Returns the index after the last of them, and *skip becomes 0; or
 * size when there are fewer, and *skip is then what is still to skip. */
size_t lines_forward(const char *bytes, size_t size, size_t *skip);

/* The same from the end towards the front. Returns the index after the line end that made *skip 0,
 * or 0 when there are fewer. */
size_t lines_backward(const char *bytes, size_t size, size_t *skip);

/* How much of bytes goes into limit bytes: up to a line's end in the second half of them, else up
 * to a whole UTF-8 character. */
size_t lines_cut(const char *bytes, size_t size, size_t limit);

/* Files of other forms as text. */

/* How bytes stand for characters. TEXT_WINDOWS: Windows-1252, or Latin-1, which has the same
 * letters; a guess. TEXT_OTHER: of many bytes a character, or not known. */
enum text_encoding { TEXT_UTF8, TEXT_UTF16, TEXT_WINDOWS, TEXT_OTHER };

/* UTF-16 is known by its byte order mark, which its text begins with. */
enum text_encoding text_encoding_of(const char *bytes, size_t size);

/* What code passes to open(), in a clause for a model; of the first three. NULL: nothing. */
const char *text_encoding_clause(enum text_encoding encoding);

/* Appends text as UTF-8; U+FFFD replaces what is no character. UTF-8 stays as it is. 0 or -ENOMEM.
 */
int text_decode(enum text_encoding encoding, const char *bytes, size_t size, struct buf *out);

/* Appends UTF-8 text in an encoding. like: two bytes of UTF-16 at least, whose byte order is
 * taken; the mark itself is not added. 0, -ENOMEM or -EILSEQ: the encoding lacks a character. */
int text_encode(enum text_encoding encoding, const char *like, const char *text, size_t size,
                struct buf *out);

/* Whether a file of this name may have others in it as base64: a report in HTML, Markdown, SVG. */
bool embedding_is(const char *path);

/* Appends a text without the base64 of files in it, on the same lines. 0, -ENOMEM, or -EINVAL:
 * there is none of some length. */
int embedding_decode(const char *bytes, size_t size, struct buf *out);

bool ipynb_is(const char *path);

/* Appends a notebook of format 4 as text: its cells, and what they have printed; other outputs by
 * their types. 0, -ENOMEM, or -EINVAL: it is none. */
int ipynb_decode(const char *bytes, size_t size, struct buf *out);

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

/* Replaces one place of a text. */

struct edit {
    const char *old_text; /* must be at exactly one place */
    size_t old_size;      /* not 0 */
    const char *new_text;
    size_t new_size;
};

/* Appends the edited text to bytes and the lines to said: "lines 4-5, now 4-7; 90 lines in all".
 * Returns 1 if there is not exactly one place: said gets what to say after the file's name. Line
 * ends of old_text stand for those of the text, and new_text gets the same: clients show both kinds
 * alike. 0, 1 or -ENOMEM. */
int edit_apply(const char *text, size_t size, const struct edit *edit, struct buf *bytes,
               struct buf *said);
