/* Finds lines by reading the file in pieces, some of them a turn of the loop:
 *
 *   count   all line ends, if the file is not too large; then every number of the range is one
 *           from the front
 *   begin   where the first line begins: from the front, or in an uncounted file also from the end
 *   end     where the last line ends, in an uncounted file and from the end; else the part itself
 *           has it
 *
 * The file may grow, shrink or change meanwhile: each piece is used as it is read, and nothing is
 * read twice to be trusted the second time. */
#include "tools/files/read_text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/utf8.h"
#include "base/word.h"
#include "tools/content/content.h"
#include "tools/files/decode.h"

enum { PIECE = 65536, PIECES_A_TURN = 16 };

static void end_with(struct read_text *reading, int r, const struct buf *text, bool is_error)
{
    r = r || !text ? r : buf_error(text);
    read_text_stop(reading);
    reading->fn(reading->arg, -r, r < 0 ? NULL : text, is_error);
}

static void refuse(struct read_text *reading, const char *sentence)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    word_append(&text, reading->range.path, strlen(reading->range.path));
    buf_appendf(&text, " %s", sentence);
    end_with(reading, 0, &text, true);
}

/* --- the result --- */

/* What code has to know to open the file; NULL: nothing. Replacement characters stand for bytes
 * that are not UTF-8. */
static const char *encoding_of(const struct read_text *reading, const struct buf *shown)
{
    const char *bytes = buf_bytes(shown);
    size_t size = buf_size(shown);
    if (reading->range.decoded) {
        return reading->range.decoded;
    }
    if (reading->begin == 0 && size >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0) {
        return "begins with a byte order mark: open() needs encoding=\"utf-8-sig\"";
    }
    const char *clause = text_encoding_clause(text_encoding_of(bytes, size));
    return utf8_is_whole(bytes, size) ? NULL
           : clause && !reading->range.has_bytes
               ? clause
               : "not UTF-8: bytes that do not fit are shown as \xEF\xBF\xBD";
}

static void append_encoding(const struct read_text *reading, const struct buf *shown,
                            struct buf *text)
{
    const char *encoding = encoding_of(reading, shown);
    if (encoding) {
        buf_appendf(text, "; %s", encoding);
    }
}

static size_t least(uint64_t a, size_t b)
{
    return a < b ? (size_t)a : b;
}

/* Appends "[lines 3-7 of 90, 4.1 kB; continue with start_line=8]" below the text. */
static void append_place(const struct read_text *reading, const struct buf *shown, struct buf *text)
{
    char human[16];
    size_t size = buf_size(shown);
    bool more = reading->begin + size < reading->size;
    bool whole_line = size > 0 && buf_bytes(shown)[size - 1] == '\n';
    long long first = reading->range.start_line;
    size_t count = lines_count(buf_bytes(shown), size);
    long long next = first + (long long)count;
    buf_append_text(text, whole_line ? "" : "\n");
    /* No dash between numbers from the end: "-20--11" is hard to read. */
    buf_appendf(text, first < 0 ? "[lines %lld to %lld" : "[lines %lld-%lld", first, next - 1);
    if (reading->lines) {
        buf_appendf(text, " of %llu", (unsigned long long)reading->lines);
    }
    buf_appendf(text, ", %s", content_size(reading->size, human));
    if (more && whole_line) {
        buf_appendf(text, "; continue with start_line=%lld", next);
    } else if (more) {
        unsigned long long end = reading->begin + size;
        buf_appendf(text, "; the line is longer: continue with offset=%llu", end);
    }
    append_encoding(reading, shown, text);
    buf_append_text(text, "]\n");
}

static void say_missing_lines(struct read_text *reading)
{
    char sentence[160];
    const struct read_range *range = &reading->range;
    if (reading->lines && range->start_line > (long long)reading->lines) {
        (void)snprintf(sentence, sizeof sentence, "has %llu line%s; there is no line %lld.",
                       (unsigned long long)reading->lines, reading->lines == 1 ? "" : "s",
                       range->start_line);
    } else {
        (void)snprintf(sentence, sizeof sentence, "has no lines from %lld to %lld.",
                       range->start_line, range->end_line ? range->end_line : -1);
    }
    refuse(reading, sentence);
}

/* begin is known, and end if it was counted from the back. */
static void end_with_lines(struct read_text *reading)
{
    OWNED(buf_done) struct buf shown = BUF_EMPTY;
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    const struct read_range *range = &reading->range;
    if (reading->begin >= reading->end) {
        say_missing_lines(reading);
        return;
    }
    size_t space = least(reading->end - reading->begin, LIMIT_TEXT_BYTES + 1);
    int r = content_read(reading->fd, reading->begin, space, &shown);
    if (r < 0) {
        end_with(reading, r, NULL, false);
        return;
    }
    size_t size = buf_size(&shown);
    if (range->end_line > 0) {
        size_t skip = (size_t)(range->end_line - range->start_line) + 1;
        size = lines_forward(buf_bytes(&shown), size, &skip);
    }
    size = lines_cut(buf_bytes(&shown), size, LIMIT_TEXT_BYTES);
    buf_cut(&shown, size);
    r = text_decode(reading->range.decoded ? TEXT_UTF8 : text_encoding_of(buf_bytes(&shown), size),
                    buf_bytes(&shown), size, &text);
    if (size < reading->size || encoding_of(reading, &shown)) {
        append_place(reading, &shown, &text);
    }
    end_with(reading, r, &text, false);
}

static void end_with_bytes(struct read_text *reading)
{
    OWNED(buf_done) struct buf shown = BUF_EMPTY;
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    const struct read_range *range = &reading->range;
    size_t space = least(range->length, LIMIT_TEXT_BYTES + 4);
    int r =
        range->offset < reading->size ? content_read(reading->fd, range->offset, space, &shown) : 0;
    size_t size = lines_cut(buf_bytes(&shown), buf_size(&shown), LIMIT_TEXT_BYTES);
    if (r == 0 && size == 0) {
        r = content_no_bytes(range->path, range->offset, reading->size, &text);
        end_with(reading, r, &text, true);
        return;
    }
    buf_cut(&shown, size);
    buf_append_buf(&text, &shown);
    content_bytes_place(range->offset, size, reading->size, "", &text);
    append_encoding(reading, &shown, &text);
    buf_append_text(&text, "]\n");
    end_with(reading, r, &text, false);
}

/* --- the search --- */

static bool is_too_far(struct read_text *reading, uint64_t passed)
{
    char sentence[160];
    if (passed < LIMIT_SCAN_BYTES) {
        return false;
    }
    (void)snprintf(sentence, sizeof sentence,
                   "is too large, %llu bytes: the requested lines are more than %lu MiB away; use "
                   "offset and length.",
                   (unsigned long long)reading->size, LIMIT_SCAN_BYTES >> 20);
    refuse(reading, sentence);
    return true;
}

/* Searches one piece: skips line ends, or counts them. Returns 1 at the end of the search, when at
 * is after the last line end to skip, or at the file's end; else 0 or -errno. */
static int forward_piece(struct read_text *reading)
{
    char piece[PIECE];
    ssize_t size = fd_pread_all(reading->fd, piece, sizeof piece, reading->at);
    if (size <= 0) {
        return size < 0 ? (int)size : 1;
    }
    if (reading->search == READ_COUNT) {
        reading->at += (uint64_t)size;
        reading->lines += reading->at >= reading->size ? lines_count(piece, (size_t)size)
                                                       : lines_ends(piece, (size_t)size);
        return 0;
    }
    reading->at += lines_forward(piece, (size_t)size, &reading->skip);
    return reading->skip == 0;
}

/* The same with the piece before at. */
static int backward_piece(struct read_text *reading)
{
    char piece[PIECE];
    size_t size = least(reading->at, sizeof piece);
    ssize_t have = fd_pread_all(reading->fd, piece, size, reading->at - size);
    if (have < 0) {
        return (int)have;
    }
    if (reading->at == reading->size && have > 0 && piece[have - 1] == '\n') {
        reading->skip++; /* the end of the last line begins no further one */
    }
    size_t index = lines_backward(piece, (size_t)have, &reading->skip);
    reading->at -= size - (reading->skip == 0 ? index : 0);
    return reading->skip == 0 || reading->at == 0;
}

static void found(struct read_text *reading);

static void search(void *arg)
{
    struct read_text *reading = arg;
    bool back = reading->search == READ_END ||
                (reading->search == READ_BEGIN && reading->range.start_line < 0);
    int r = 0;
    for (unsigned i = 0; i < PIECES_A_TURN && r == 0; i++) {
        r = back ? backward_piece(reading) : forward_piece(reading);
    }
    if (r < 0) {
        end_with(reading, r, NULL, false);
    } else if (r > 0) {
        found(reading);
    } else if (reading->search == READ_COUNT ||
               !is_too_far(reading, back ? reading->size - reading->at : reading->at)) {
        loop_task_queue(reading->loop, &reading->task, search, reading);
    }
}

static void seek_end(struct read_text *reading)
{
    if (reading->range.end_line >= -1) {
        end_with_lines(reading);
        return;
    }
    reading->search = READ_END;
    reading->at = reading->end;
    reading->skip = (size_t)-reading->range.end_line - 1;
    search(reading);
}

static void seek_begin(struct read_text *reading)
{
    const struct read_range *range = &reading->range;
    bool back = range->start_line < 0;
    if (back && range->end_line > 0) {
        refuse(reading, "is too large to count its lines: count end_line from the end too.");
        return;
    }
    reading->search = READ_BEGIN;
    reading->at = back ? reading->size : 0;
    reading->skip = back ? (size_t)-range->start_line : (size_t)range->start_line - 1;
    search(reading);
}

/* Turns numbers from the end into numbers from the front. */
static void lines_counted(struct read_text *reading)
{
    struct read_range *range = &reading->range;
    long long lines = (long long)reading->lines;
    struct read_range asked = *range;
    if (range->start_line < 0) {
        range->start_line = lines + range->start_line >= 0 ? lines + range->start_line + 1 : 1;
    }
    if (range->end_line < 0) {
        range->end_line += lines + 1;
    }
    if (range->start_line > lines || (asked.end_line && range->end_line < range->start_line)) {
        range->end_line = asked.end_line;
        say_missing_lines(reading);
        return;
    }
    seek_begin(reading);
}

/* The current search has ended. */
static void found(struct read_text *reading)
{
    if (reading->search == READ_COUNT) {
        lines_counted(reading);
    } else if (reading->search == READ_END) {
        reading->end = reading->at;
        end_with_lines(reading);
    } else {
        reading->begin = reading->at;
        if (reading->range.start_line < 0 && reading->skip > 0) {
            reading->range.start_line = 1; /* there are fewer lines */
        }
        seek_end(reading);
    }
}

void read_text_start(struct read_text *reading, struct loop *loop, int fd,
                     const struct read_range *range, read_text_fn fn, void *arg)
{
    struct stat st;
    *reading = (struct read_text){.loop = loop, .fn = fn, .arg = arg, .fd = fd, .range = *range};
    if (fstat(fd, &st) < 0) {
        end_with(reading, -errno, NULL, false);
        return;
    }
    reading->size = reading->end = (uint64_t)st.st_size;
    if (range->has_bytes) {
        end_with_bytes(reading);
        return;
    }
    if (range->start_line == 0) {
        reading->range.start_line = 1;
    }
    if (reading->size <= LIMIT_FILE_BYTES) {
        search(reading);
    } else {
        seek_begin(reading);
    }
}

void read_text_stop(struct read_text *reading)
{
    loop_task_cancel(&reading->task);
}
