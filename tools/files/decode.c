#include "tools/files/decode.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/parse.h"
#include "base/utf8.h"
#include "rpc/text.h"
#include "tools/content/content.h"
#include "tools/content/magic.h"

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
        while (at + run < end && (isalnum((unsigned char)at[run]) || strchr("+/=", at[run])) &&
               at[run]) {
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
