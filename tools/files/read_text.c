#include "tools/files/read_text.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/word.h"
#include "rpc/text.h"
#include "tools/content/content.h"

size_t lines_ends(const char *bytes, size_t size)
{
    size_t count = 0;
    const char *end = bytes + size;
    while (size > 0 && (bytes = memchr(bytes, '\n', size))) {
        count++;
        bytes++;
        size = (size_t)(end - bytes);
    }
    return count;
}

size_t lines_count(const char *bytes, size_t size)
{
    return lines_ends(bytes, size) + (size > 0 && bytes[size - 1] != '\n');
}

size_t lines_forward(const char *bytes, size_t size, size_t *skip)
{
    size_t at = 0;
    while (*skip > 0 && at < size) {
        const char *newline = memchr(bytes + at, '\n', size - at);
        if (!newline) {
            return size;
        }
        at = (size_t)(newline - bytes) + 1;
        --*skip;
    }
    return at;
}

size_t lines_backward(const char *bytes, size_t size, size_t *skip)
{
    while (*skip > 0 && size > 0) {
        const char *newline = memrchr(bytes, '\n', size);
        if (!newline) {
            return 0;
        }
        size = (size_t)(newline - bytes);
        if (--*skip == 0) {
            return size + 1;
        }
    }
    return 0;
}

size_t lines_cut(const char *bytes, size_t size, size_t limit)
{
    if (size <= limit) {
        return size;
    }
    const char *newline = memrchr(bytes + limit / 2, '\n', limit - limit / 2);
    if (newline) {
        return (size_t)(newline - bytes) + 1;
    }
    for (size_t back = 0; back < 4 && back < limit; back++) {
        if (!utf8_is_inner(bytes[limit - back])) {
            return limit - back;
        }
    }
    return limit;
}

enum { REPLACEMENT = 0xfffd, UTF8_MOST = 3 /* bytes for one 16-bit unit */ };

static int utf16_decode(const char *bytes, size_t size, struct buf *out)
{
    const uint8_t *p = (const uint8_t *)bytes;
    bool big = size >= 2 && p[0] == 0xfe;
    char *space = NULL;
    int r = buf_reserve(out, (size / 2 + 1) * UTF8_MOST, &space);
    if (r < 0) {
        return r;
    }
    char *at = space;
    uint32_t high = 0; /* the first half of a surrogate pair, until its second comes, or 0 */
    for (size_t i = 2; i + 1 < size; i += 2) {
        uint32_t unit = big ? (uint32_t)p[i] << 8 | p[i + 1] : (uint32_t)p[i + 1] << 8 | p[i];
        bool is_low = unit >= 0xdc00 && unit < 0xe000;
        if (high && is_low) {
            at = utf8_put(at, 0x10000 + ((high - 0xd800) << 10) + (unit - 0xdc00));
            high = 0;
            continue;
        }
        if (high) {
            at = utf8_put(at, REPLACEMENT);
        }
        high = unit >= 0xd800 && unit < 0xdc00 ? unit : 0;
        if (!high) {
            at = utf8_put(at, is_low ? REPLACEMENT : unit);
        }
    }
    if (high || size % 2) {
        at = utf8_put(at, REPLACEMENT);
    }
    buf_commit(out, (size_t)(at - space));
    return 0;
}

/* The characters of the bytes 0x80 to 0x9f in Windows-1252; 0: none. The others are Unicode's. */
static const uint16_t windows[32] = {
    0x20ac, 0,      0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021, 0x02c6, 0x2030, 0x0160,
    0x2039, 0x0152, 0,      0x017d, 0,      0,      0x2018, 0x2019, 0x201c, 0x201d, 0x2022,
    0x2013, 0x2014, 0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0,      0x017e, 0x0178};

static uint32_t windows_code(unsigned char byte)
{
    bool is_special = byte >= 0x80 && byte < 0xa0;
    return !is_special ? byte : windows[byte - 0x80] ? windows[byte - 0x80] : REPLACEMENT;
}

/* Whether these bytes above ASCII, with none beside them, are letters or signs as texts in Western
 * European languages have them: one, or two in a word. */
static bool is_western(const char *run, size_t size, bool in_word)
{
    static const char signs[] = "\x80\x85\x91\x92\x93\x94\x95\x96\x97\x99";
    enum { SIGN = 0xa0, LETTER = 0xc0 };
    unsigned char first = (unsigned char)run[0];
    return (size == 1 && (first >= SIGN || strchr(signs, run[0]))) ||
           (size == 2 && in_word && first >= LETTER && (unsigned char)run[1] >= LETTER);
}

/* Encodings with two bytes a character, and those of other scripts, have longer rows of them. */
static bool is_windows(const char *bytes, size_t size)
{
    size_t western = 0;
    size_t others = 0;
    for (size_t i = 0, end = 0; i < size; i = end + 1) {
        for (end = i; end < size && bytes[end] & 0x80; end++) {
            if (windows_code((unsigned char)bytes[end]) == REPLACEMENT) {
                return false;
            }
        }
        if (end > i &&
            is_western(bytes + i, end - i, i > 0 && isalpha((unsigned char)bytes[i - 1]))) {
            western += end - i;
        } else {
            others += end - i;
        }
    }
    return western > 2 * others;
}

enum text_encoding text_encoding_of(const char *bytes, size_t size)
{
    if (magic_of(bytes, size).kind == MAGIC_UTF16) {
        return TEXT_UTF16;
    }
    if (size > 0 && memchr(bytes, '\0', size)) {
        return TEXT_OTHER;
    }
    return utf8_is_whole(bytes, size) ? TEXT_UTF8
           : is_windows(bytes, size)  ? TEXT_WINDOWS
                                      : TEXT_OTHER;
}

const char *text_encoding_clause(enum text_encoding encoding)
{
    return encoding == TEXT_UTF16     ? "UTF-16: open() needs encoding=\"utf-16\""
           : encoding == TEXT_WINDOWS ? "not UTF-8, perhaps Latin-1: open() needs "
                                        "encoding=\"cp1252\""
                                      : NULL;
}

int text_decode(enum text_encoding encoding, const char *bytes, size_t size, struct buf *out)
{
    char *space = NULL;
    if (encoding == TEXT_UTF16) {
        return utf16_decode(bytes, size, out);
    }
    if (encoding != TEXT_WINDOWS) {
        return buf_append(out, bytes, size);
    }
    int r = buf_reserve(out, size * UTF8_MOST + 1, &space);
    char *at = space;
    for (size_t i = 0; r == 0 && i < size; i++) {
        at = utf8_put(at, windows_code((unsigned char)bytes[i]));
    }
    buf_commit(out, (size_t)(at - space));
    return r;
}

static int put_windows(uint32_t code, struct buf *out)
{
    char byte = (char)code;
    if (code >= 0x100 || (code >= 0x80 && code < 0xa0)) {
        unsigned i = 0;
        while (i < 32 && windows[i] != code) {
            i++;
        }
        if (i == 32) {
            return -EILSEQ;
        }
        byte = (char)(0x80 + i);
    }
    return buf_append(out, &byte, 1);
}

static int put_utf16(uint32_t code, bool big, struct buf *out)
{
    uint32_t units[2] = {code, 0};
    char bytes[4];
    if (code >= 0x10000) {
        units[0] = 0xd800 + ((code - 0x10000) >> 10);
        units[1] = 0xdc00 + ((code - 0x10000) & 0x3ff);
    }
    for (unsigned i = 0; i < 4; i++) {
        uint32_t unit = units[i / 2];
        bytes[i] = (char)((i % 2 == 0) == big ? unit >> 8 : unit & 0xff);
    }
    return buf_append(out, bytes, code >= 0x10000 ? 4 : 2);
}

int text_encode(enum text_encoding encoding, const char *like, const char *text, size_t size,
                struct buf *out)
{
    bool big = encoding == TEXT_UTF16 && (unsigned char)like[0] == 0xfe;
    if (encoding != TEXT_UTF16 && encoding != TEXT_WINDOWS) {
        return buf_append(out, text, size);
    }
    for (size_t at = 0; at < size;) {
        int n = utf8_size(text + at, size - at);
        uint32_t code = n > 0 ? utf8_code(text + at, n) : REPLACEMENT;
        int r = code == REPLACEMENT      ? -EILSEQ
                : encoding == TEXT_UTF16 ? put_utf16(code, big, out)
                                         : put_windows(code, out);
        if (r < 0) {
            return r;
        }
        at += (size_t)n;
    }
    return 0;
}

bool embedding_is(const char *path)
{
    static const char *const suffixes[] = {".html", ".htm", ".md", ".svg", NULL};
    const char *dot = strrchr(path, '.');
    return dot && parse_is_among(dot, suffixes);
}

int embedding_decode(const char *bytes, size_t size, struct buf *out)
{
    enum { SHOWN = 1000 /* characters of base64 that stay */ };
    static const char mark[] = ";base64,";
    const char *end = bytes + size;
    const char *from = bytes;
    const char *at = bytes;
    while ((at = memmem(at, (size_t)(end - at), mark, sizeof mark - 1))) {
        at += sizeof mark - 1;
        size_t run = 0;
        while (at + run < end && (parse_is_alnum(at[run]) || strchr("+/=", at[run])) && at[run]) {
            run++;
        }
        if (run > SHOWN) {
            char human[16];
            buf_append(out, from, (size_t)(at - from));
            buf_appendf(out, "[%s left out; encoding=\"text\" shows them]",
                        content_size(run, human));
            from = at + run;
        }
        at += run;
    }
    if (from == bytes) {
        return -EINVAL;
    }
    return buf_append(out, from, (size_t)(end - from));
}

bool ipynb_is(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot && strcmp(dot, ".ipynb") == 0;
}

/* Appends a text, which is one string or a list of its lines, and an end of line if it has none. */
static void append_text(struct buf *out, const json_t *text)
{
    size_t begin = buf_size(out);
    buf_append(out, json_string_value(text), json_string_length(text));
    size_t i = 0;
    const json_t *line = NULL;
    json_array_foreach (text, i, line) {
        buf_append(out, json_string_value(line), json_string_length(line));
    }
    size_t size = buf_size(out);
    if (size > begin && buf_bytes(out)[size - 1] != '\n') {
        buf_append(out, "\n", 1);
    }
}

/* Appends the text of an output's data, or its types. */
static void append_data(struct buf *out, const json_t *data)
{
    const json_t *plain = json_object_get(data, "text/plain");
    const char *type = NULL;
    json_t *value = NULL;
    append_text(out, plain);
    json_object_foreach ((json_t *)(uintptr_t)data, type, value) {
        if (!plain || strncmp(type, "image/", 6) == 0) {
            buf_append_text(out, "[");
            buf_append_text(out, type);
            buf_append_text(out, "]\n");
        }
    }
}

static void append_output(struct buf *out, const json_t *output)
{
    const char *error = json_string_value(json_object_get(output, "ename"));
    const char *message = json_string_value(json_object_get(output, "evalue"));
    append_text(out, json_object_get(output, "text"));
    append_data(out, json_object_get(output, "data"));
    if (error) {
        buf_append_text(out, error);
        buf_append_text(out, ": ");
        buf_append_text(out, message ? message : "");
        buf_append_text(out, "\n");
    }
}

static void append_cell(struct buf *out, size_t number, const json_t *cell)
{
    const char *type = json_string_value(json_object_get(cell, "cell_type"));
    const json_t *outputs = json_object_get(cell, "outputs");
    size_t i = 0;
    const json_t *output = NULL;
    buf_appendf(out, "\n--- cell %zu, ", number);
    buf_append_text(out, type ? type : "?");
    buf_append_text(out, " ---\n");
    append_text(out, json_object_get(cell, "source"));
    if (json_array_size(outputs) > 0) {
        buf_appendf(out, "--- output of cell %zu ---\n", number);
    }
    json_array_foreach (outputs, i, output) {
        append_output(out, output);
    }
}

int ipynb_decode(const char *bytes, size_t size, struct buf *out)
{
    json_auto_t *book = rpc_text_value(bytes, size, LIMIT_JSON_DEPTH);
    const json_t *cells = json_object_get(book, "cells");
    if (!json_is_array(cells)) {
        return -EINVAL;
    }
    size_t count = json_array_size(cells);
    size_t i = 0;
    const json_t *cell = NULL;
    buf_appendf(out, "[notebook of %zu cell%s as text; encoding=\"text\" shows its JSON]\n", count,
                count == 1 ? "" : "s");
    json_array_foreach (cells, i, cell) {
        append_cell(out, i + 1, cell);
    }
    return buf_error(out);
}

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
