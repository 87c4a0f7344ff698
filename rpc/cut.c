#include "rpc/cut.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/own.h"
#include "base/parse.h"
#include "base/utf8.h"
#include "rpc/text.h"

enum {
    HIGH_FIRST = 0xD800, /* surrogates, Unicode 15 section 3.8 */
    LOW_FIRST = 0xDC00,
    LOW_LAST = 0xDFFF,
};

/* How a literal begins whose string begins with NUL: JSON has no other spelling, RFC 8259 section 7. */
static const char nul_literal[] = "\"\\u0000";
/* A literal that no parser takes. */
static const char bad_literal[] = "\"\xFF\"";

void cut_done(struct cut *cut)
{
    buf_done(&cut->rest);
    buf_done(&cut->text);
    json_decref(cut->strings);
    *cut = CUT_EMPTY;
}

struct span cut_rest(const struct cut *cut)
{
    size_t size = buf_size(&cut->rest);
    return (struct span){size > 0 ? buf_bytes(&cut->rest) : "", size};
}

/* The value of four hexadecimal digits, or -1. */
static int32_t hex_of(const char *p)
{
    int32_t value = 0;
    for (int i = 0; i < 4; i++) {
        int digit = parse_hex_digit(p[i]);
        if (digit < 0) {
            return -1;
        }
        value = value << 4 | digit;
    }
    return value;
}

/* Writes the character in UTF-8. Returns its size. */
static size_t put_character(int32_t code, char *out)
{
    size_t size = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const uint8_t leads[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = size; i-- > 1; code >>= 6) {
        out[i] = (char)(0x80 | (code & 0x3F));
    }
    out[0] = (char)(leads[size] | code);
    return size;
}

/* "\uXXXX", or two of them for a character beyond U+FFFF. Returns the bytes read, or 0. */
static size_t unescape_unicode(const char *p, size_t left, char *out, size_t *written)
{
    int32_t code = left >= 6 ? hex_of(p + 2) : -1;
    if (code < 0 || (code >= LOW_FIRST && code <= LOW_LAST)) {
        return 0;
    }
    if (code < HIGH_FIRST || code > LOW_LAST) {
        *written += put_character(code, out);
        return 6;
    }
    int32_t low = left >= 12 && p[6] == '\\' && p[7] == 'u' ? hex_of(p + 8) : -1;
    if (low < LOW_FIRST || low > LOW_LAST) {
        return 0;
    }
    code = 0x10000 + ((code - HIGH_FIRST) << 10) + (low - LOW_FIRST);
    *written += put_character(code, out);
    return 12;
}

/* p: a backslash. Returns the bytes read, or 0 when it is no escape or not all there. */
static size_t unescape(const char *p, size_t left, char *out, size_t *written)
{
    static const char letters[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    if (left < 2) {
        return 0;
    }
    if (p[1] == 'u') {
        return unescape_unicode(p, left, out, written);
    }
    const char *letter = memchr(letters, p[1], sizeof letters - 1);
    if (!letter) {
        return 0;
    }
    *out = meanings[letter - letters];
    ++*written;
    return 2;
}

/* Decodes up to the closing quote, to what is not valid, or to what is not all there. out: room for
 * as many bytes, a string is never longer than its literal. Returns the bytes read. */
static size_t decode(const char *bytes, size_t size, char *out, size_t *ret_written)
{
    const char *p = bytes;
    const char *end = bytes + size;
    size_t written = 0;
    while (p < end && *p != '"') {
        uint8_t c = (uint8_t)*p;
        if (c >= 0x20 && c < 0x80 && c != '\\') {
            out[written++] = *p++;
            continue;
        }
        size_t n = 0;
        if (c == '\\') {
            n = unescape(p, (size_t)(end - p), out + written, &written);
        } else if (c >= 0x80) {
            int size_there = utf8_size(p, (size_t)(end - p));
            n = size_there > 0 ? (size_t)size_there : 0;
            memcpy(out + written, p, n);
            written += n;
        }
        if (n == 0) {
            break;
        }
        p += n;
    }
    *ret_written = written;
    return (size_t)(p - bytes);
}

/* The string is complete: a mark takes its place. */
static int finish_string(struct cut *cut)
{
    size_t index = json_array_size(cut->strings);
    json_t *string = json_stringn_nocheck(buf_bytes(&cut->text), buf_size(&cut->text));
    cut->strings = cut->strings ? cut->strings : json_array();
    if (json_array_append_new(cut->strings, string) < 0) {
        return -ENOMEM;
    }
    buf_done(&cut->text);
    cut->state = CUT_REST;
    return buf_appendf(&cut->rest, "%s%zu\"", nul_literal, index);
}

/* Each of the three below works on the line from cut->at on, in its state. They return 1 when it
 * goes on in another one, 0 when more bytes are needed, or -ENOMEM. */

static int step_string(struct cut *cut, struct span line, bool whole)
{
    enum { CHARACTER_MOST = 12 }; /* two escapes for one character */
    size_t left = line.size - cut->at;
    size_t written = 0;
    char *space = NULL;
    if (buf_reserve(&cut->text, left, &space) < 0) {
        return -ENOMEM;
    }
    cut->at += decode(line.bytes + cut->at, left, space, &written);
    buf_commit(&cut->text, written);
    left = line.size - cut->at;
    if (left > 0 && line.bytes[cut->at] == '"') {
        cut->at++;
        return finish_string(cut) < 0 ? -ENOMEM : 1;
    }
    if (left < CHARACTER_MOST && !whole) {
        return 0;
    }
    buf_done(&cut->text);
    cut->state = CUT_SKIPPED;
    return 1;
}

static int step_skipped(struct cut *cut, struct span line, bool)
{
    while (cut->at < line.size && line.bytes[cut->at] != '"') {
        size_t n = line.bytes[cut->at] == '\\' ? 2 : 1;
        if (n > line.size - cut->at) {
            break;
        }
        cut->at += n;
    }
    if (cut->at >= line.size || line.bytes[cut->at] != '"') {
        return 0;
    }
    cut->at++;
    cut->state = CUT_REST;
    return buf_append_text(&cut->rest, bad_literal) < 0 ? -ENOMEM : 1;
}

/* The size of the literal at p with its quotes, or 0 when it does not end before end. */
static size_t literal_size(const char *p, const char *end)
{
    for (const char *q = p + 1; q < end; q++) {
        if (*q == '"') {
            return (size_t)(q - p) + 1;
        }
        q += *q == '\\';
    }
    return 0;
}

static int step_rest(struct cut *cut, struct span line, bool whole)
{
    const char *p = line.bytes + cut->at;
    const char *end = line.bytes + line.size;
    const char *from = p; /* not yet copied */
    int r = 0;
    while ((p = memchr(p, '"', (size_t)(end - p)))) {
        size_t left = (size_t)(end - p);
        size_t most = left < cut->literal_bytes ? left : cut->literal_bytes;
        size_t size = literal_size(p, p + most);
        bool nul =
            left >= sizeof nul_literal - 1 && memcmp(p, nul_literal, sizeof nul_literal - 1) == 0;
        if (size > 0 && !nul) {
            p += size;
            continue;
        }
        if (size == 0 && left < cut->literal_bytes) {
            end = whole ? end : p; /* jansson sees where a last literal lacks its end */
            break;
        }
        end = p;
        cut->state = CUT_STRING;
        r = 1;
        break;
    }
    cut->at = (size_t)(end - line.bytes) + (r == 1);
    return buf_append(&cut->rest, from, (size_t)(end - from)) < 0 ? -ENOMEM : r;
}

int cut_line(struct cut *cut, struct span line, bool whole)
{
    static int (*const steps[])(struct cut *, struct span, bool) = {
        [CUT_REST] = step_rest, [CUT_STRING] = step_string, [CUT_SKIPPED] = step_skipped};
    int r = cut->state == CUT_FAILED ? -ENOMEM : 1;
    while (r == 1 && cut->at < line.size) {
        r = steps[cut->state](cut, line, whole);
    }
    if (r >= 0 && whole && cut->state != CUT_REST) {
        r = buf_append(&cut->rest, bad_literal, 1); /* a literal without its end */
    }
    if (r < 0) {
        cut_done(cut);
        cut->state = CUT_FAILED;
        return r;
    }
    return 0;
}

/* New: the string that a mark stands for, or value itself. */
static json_t *string_of(const struct cut *cut, json_t *value)
{
    uint64_t index = 0;
    const char *text = json_string_value(value);
    if (!text || json_string_length(value) == 0 || text[0] != '\0') {
        return json_incref(value);
    }
    int r = parse_u64(text + 1, &index);
    assert(r == 0 && index < json_array_size(cut->strings));
    (void)r;
    return json_incref(json_array_get(cut->strings, index));
}

/* As deep as the value, which the parser has bounded. 0 or -1. */
static int put_back_inside(const struct cut *cut, json_t *value)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < json_array_size(value); i++) {
        json_t *item = json_array_get(value, i);
        r = json_is_string(item) ? json_array_set_new(value, i, string_of(cut, item))
                                 : put_back_inside(cut, item);
    }
    for (void *at = json_object_iter(value); r == 0 && at; at = json_object_iter_next(value, at)) {
        json_t *item = json_object_iter_value(at);
        r = json_is_string(item) ? json_object_iter_set_new(value, at, string_of(cut, item))
                                 : put_back_inside(cut, item);
    }
    return r;
}

json_t *cut_put_back(const struct cut *cut, json_t *value)
{
    json_auto_t *owned = value;
    if (!cut->strings || !value) {
        return take_ptr(owned);
    }
    if (json_is_string(value)) {
        return string_of(cut, value);
    }
    return put_back_inside(cut, value) == 0 ? take_ptr(owned) : NULL;
}
