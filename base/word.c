#include "base/word.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

/* Smallest and largest second byte after a lead byte, Unicode 15 table 3-7. */
static bool second_byte_fits(uint8_t lead, uint8_t second)
{
    uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    return second >= low && second <= high;
}

int utf8_size(const char *text, size_t left)
{
    const uint8_t *p = (const uint8_t *)text;
    int size = *p < 0x80 ? 1 : *p < 0xC2 ? 0 : *p < 0xE0 ? 2 : *p < 0xF0 ? 3 : *p < 0xF5 ? 4 : 0;
    if (size == 0) {
        return -1;
    }
    for (int i = 1; i < size; i++) {
        bool fits = (size_t)i < left &&
                    (i == 1 ? second_byte_fits(p[0], p[1]) : p[i] >= 0x80 && p[i] <= 0xBF);
        if (!fits) {
            return -i;
        }
    }
    return size;
}

uint32_t utf8_code(const char *text, int size)
{
    const uint8_t *p = (const uint8_t *)text;
    uint32_t code = size == 1 ? p[0] : p[0] & (0x7FU >> size);
    for (int i = 1; i < size; i++) {
        code = code << 6 | (p[i] & 0x3FU);
    }
    return code;
}

bool utf8_is_whole(const char *text, size_t size)
{
    size_t at = 0;
    while (at < size) {
        int n = (unsigned char)text[at] < 0x80 ? 1 : utf8_size(text + at, size - at);
        if (n < 0) {
            return false;
        }
        at += (size_t)n;
    }
    return true;
}

char *utf8_put(char *at, uint32_t code)
{
    if (code < 0x80) {
        *at++ = (char)code;
        return at;
    }
    if (code < 0x800) {
        *at++ = (char)(0xc0 | code >> 6);
    } else {
        if (code < 0x10000) {
            *at++ = (char)(0xe0 | code >> 12);
        } else {
            *at++ = (char)(0xf0 | code >> 18);
            *at++ = (char)(0x80 | (code >> 12 & 0x3f));
        }
        *at++ = (char)(0x80 | (code >> 6 & 0x3f));
    }
    *at++ = (char)(0x80 | (code & 0x3f));
    return at;
}

enum { PARTS = 4 };

/* Hangul syllables: Unicode 15, section 3.12. */
enum {
    SYLLABLE = 0xAC00,
    LEAD = 0x1100,
    VOWEL = 0x1161,
    TAIL = 0x11A7,
    VOWELS = 21,
    TAILS = 28,
    SYLLABLES = 19 * VOWELS * TAILS,
};

/* A text as decomposed characters. */
struct reader {
    const char *at;
    uint32_t parts[PARTS + 1]; /* of the last character: the next first, 0 after the last */
};

static int compare(const void *code, const void *row)
{
    uint32_t a = *(const uint32_t *)code;
    uint32_t b = ((const struct decomposition *)row)->code;
    return (a > b) - (a < b);
}

static void decompose(uint32_t code, uint32_t parts[PARTS + 1])
{
    uint32_t index = code - SYLLABLE;
    const struct decomposition *row =
        bsearch(&code, decompositions, decompositions_count, sizeof *decompositions, compare);
    memset(parts, 0, sizeof(uint32_t[PARTS + 1]));
    parts[0] = code;
    if (code >= SYLLABLE && index < SYLLABLES) {
        parts[0] = LEAD + index / (VOWELS * TAILS);
        parts[1] = VOWEL + index / TAILS % VOWELS;
        parts[2] = index % TAILS ? TAIL + index % TAILS : 0;
    } else if (row) {
        memcpy(parts, row->parts, sizeof row->parts);
    }
}

/* The next character, or 0 at the end. A byte that is not UTF-8 is none. */
static uint32_t next(struct reader *reader)
{
    if (!reader->parts[0] && *reader->at) {
        int size = utf8_size(reader->at, strlen(reader->at));
        uint32_t code = size > 0 ? utf8_code(reader->at, size)
                                 : 0x110000 + (uint32_t)(unsigned char)*reader->at;
        reader->at += size > 0 ? size : 1;
        decompose(code, reader->parts);
    }
    uint32_t part = reader->parts[0];
    memmove(reader->parts, reader->parts + 1, PARTS * sizeof *reader->parts);
    return part;
}

bool normal_same(const char *a, const char *b)
{
    struct reader left = {.at = a};
    struct reader right = {.at = b};
    uint32_t part = 0;
    do {
        part = next(&left);
        if (part != next(&right)) {
            return false;
        }
    } while (part);
    return true;
}

size_t normal_decompose(const char *text, int size, char out[NORMAL_BYTES])
{
    uint32_t parts[PARTS + 1];
    char *at = out;
    decompose(utf8_code(text, size), parts);
    for (unsigned i = 0; parts[i]; i++) {
        at = utf8_put(at, parts[i]);
    }
    return (size_t)(at - out);
}

enum { WORD_CUT = 1, WORD_ESCAPED = 2 };

enum { BLANKS_MOST = 2 /* with more a name begins to read as a sentence */ };

struct range {
    uint32_t first;
    uint32_t last;
};

/* Unicode 15: general categories Cc, Cf, Cs, Co, Zl, Zp, Zs but U+0020, default-ignorable
 * characters, those that are blank in every font, noncharacters, and the planes that hold no
 * characters. */
static const struct range unseen[] = {
    {0x00, 0x1F},       {0x7F, 0xA0},       {0xAD, 0xAD},       {0x34F, 0x34F},
    {0x600, 0x605},     {0x61C, 0x61C},     {0x6DD, 0x6DD},     {0x70F, 0x70F},
    {0x890, 0x891},     {0x8E2, 0x8E2},     {0x115F, 0x1160},   {0x1680, 0x1680},
    {0x17B4, 0x17B5},   {0x180B, 0x180F},   {0x2000, 0x200F},   {0x2028, 0x202F},
    {0x205F, 0x206F},   {0x2800, 0x2800},   {0x3000, 0x3000},   {0x3164, 0x3164},
    {0xD800, 0xF8FF},   {0xFDD0, 0xFDEF},   {0xFE00, 0xFE0F},   {0xFEFF, 0xFEFF},
    {0xFFA0, 0xFFA0},   {0xFFF0, 0xFFFC},   {0xFFFE, 0xFFFF},   {0x110BD, 0x110BD},
    {0x110CD, 0x110CD}, {0x13430, 0x1345F}, {0x1BCA0, 0x1BCA3}, {0x1D159, 0x1D159},
    {0x1D173, 0x1D17A}, {0x1FFFE, 0x1FFFF}, {0x2FFFE, 0x2FFFF}, {0x3FFFE, 0x10FFFF},
};

/* Characters that look like our quotes, bars, brackets, parentheses, colons, semicolons or
 * commas. */
static const struct range alike[] = {
    {0x1C0, 0x1C3},   {0x2B9, 0x2BA},   {0x2D0, 0x2D0},   {0x2EE, 0x2EE},   {0x37E, 0x37E},
    {0x589, 0x589},   {0x5C0, 0x5C0},   {0x5C3, 0x5C3},   {0x5F4, 0x5F4},   {0x60C, 0x60C},
    {0x61B, 0x61B},   {0x66C, 0x66C},   {0x2016, 0x2016}, {0x201A, 0x201F}, {0x2032, 0x2036},
    {0x2045, 0x2046}, {0x2223, 0x2225}, {0x2236, 0x2236}, {0x2308, 0x230B}, {0x239B, 0x23AE},
    {0x23B8, 0x23B9}, {0x23D0, 0x23D0}, {0x2502, 0x2503}, {0x2551, 0x2551}, {0x2758, 0x275E},
    {0x2768, 0x2775}, {0x27E6, 0x27EF}, {0x2983, 0x2998}, {0x2E22, 0x2E29}, {0x3001, 0x3001},
    {0x3008, 0x3011}, {0x3014, 0x301F}, {0xA789, 0xA789}, {0xFE13, 0xFE19}, {0xFE31, 0xFE48},
    {0xFE50, 0xFE5E}, {0xFF02, 0xFF02}, {0xFF08, 0xFF09}, {0xFF0C, 0xFF0C}, {0xFF1A, 0xFF1B},
    {0xFF3B, 0xFF3D}, {0xFF5B, 0xFF5D}, {0xFF5F, 0xFF64}, {0xFFE8, 0xFFE8},
};

/* Marks drawn over the character before them; at the front of a word that would be one of ours. */
static const struct range marks[] = {{0x300, 0x36F},   {0x483, 0x489},   {0x1AB0, 0x1AFF},
                                     {0x1DC0, 0x1DFF}, {0x20D0, 0x20FF}, {0xFE20, 0xFE2F}};

#define LENGTH(array) (sizeof(array) / sizeof *(array))

static bool is_in(const struct range *ranges, size_t count, uint32_t code)
{
    while (count > 0) {
        size_t middle = count / 2;
        if (code >= ranges[middle].first && code <= ranges[middle].last) {
            return true;
        }
        if (code > ranges[middle].last) {
            ranges += middle + 1;
            middle = count - middle - 1;
        }
        count = middle;
    }
    return false;
}

bool word_is_unseen(uint32_t code)
{
    return code >= ' ' && code < 0x7F ? false : is_in(unseen, LENGTH(unseen), code);
}

/* Whether the blank at bytes[at] is inside of a name: a sign, a bracket or a flag after it begins
 * the next entry of a list. */
static bool is_inner_blank(const char *bytes, size_t size, size_t at)
{
    return at > 0 && at + 1 < size && !strchr(" +-~<>=#", bytes[at + 1]) && bytes[at - 1] != ':';
}

/* Whether each '[' has a ']' after it. */
static bool has_paired_brackets(const char *bytes, size_t size)
{
    int depth = 0;
    for (size_t at = 0; at < size && depth >= 0; at++) {
        depth += bytes[at] == '[' ? 1 : bytes[at] == ']' ? -1 : 0;
    }
    return depth == 0;
}

bool word_is_plain(const char *bytes, size_t size)
{
    unsigned blanks = 0;
    /* Paths such as app/[id]/page.tsx; with a blank, brackets could read as a status line. */
    const char *separators =
        !memchr(bytes, ' ', size) && has_paired_brackets(bytes, size) ? "\"\\|(),;" : "\"\\|[](),;";
    if (size == 0 || size > WORD_BYTES || bytes[size - 1] == ':') {
        return false;
    }
    for (size_t at = 0; at < size;) {
        char c = bytes[at];
        int length = utf8_size(bytes + at, size - at);
        if (c == ' ') {
            if (++blanks > BLANKS_MOST || !is_inner_blank(bytes, size, at)) {
                return false;
            }
        } else if (length == 1) {
            if (c < ' ' || c == 0x7F || strchr(separators, c)) {
                return false;
            }
        } else {
            uint32_t code = length < 0 ? 0 : utf8_code(bytes + at, length);
            if (word_is_unseen(code) || is_in(alike, LENGTH(alike), code) ||
                (at == 0 && is_in(marks, LENGTH(marks), code))) {
                return false;
            }
        }
        at += (size_t)length;
    }
    return true;
}

/* Writes one character as a Python string has it. byte: it is not UTF-8. Returns the size. */
static size_t escape(char out[WORD_ESCAPE_MOST + 1], uint32_t code, bool byte)
{
    static const char letters[] = "\nn\tt\rr\"\"\\\\"; /* each before its letter */
    const char *found = code > 0 && code < 0x80 ? strchr(letters, (int)code) : NULL;
    int size = 0;
    if (found && (found - letters) % 2 == 0) {
        size = snprintf(out, WORD_ESCAPE_MOST + 1, "\\%c", found[1]);
    } else if (byte) {
        size = snprintf(out, WORD_ESCAPE_MOST + 1, "\\udc%02x", (unsigned)code);
    } else if (code < 0x100) {
        size = snprintf(out, WORD_ESCAPE_MOST + 1, "\\x%02x", (unsigned)code);
    } else {
        size = snprintf(out, WORD_ESCAPE_MOST + 1, code < 0x10000 ? "\\u%04x" : "\\U%08x",
                        (unsigned)code);
    }
    return size > 0 ? (size_t)size : 0;
}

/* special: as in write_safe(). */
static bool must_escape(uint32_t code, bool first, const char *special)
{
    if (code < 0x80) {
        return word_is_unseen(code) || strchr(special, (int)code);
    }
    return word_is_unseen(code) || (first && is_in(marks, LENGTH(marks), code)) ||
           (code >= 0x201C && code <= 0x201F && *special);
}

/* Escapes what must be escaped, and copies the rest, as far as it fits into space bytes. special:
 * ASCII characters to escape too; also escapes the typographic quotes then, which look like ours.
 * Returns the size; *ret_change: bits that say how the word changed. */
static size_t write_safe(const char *bytes, size_t size, const char *special, char *out,
                         size_t space, unsigned *ret_change)
{
    size_t used = 0;
    size_t at = 0;
    while (at < size) {
        char text[WORD_ESCAPE_MOST + 1];
        const char *from = bytes + at;
        int length = utf8_size(from, size - at);
        uint32_t code = length > 0 ? utf8_code(from, length) : (unsigned char)*from;
        size_t piece = length > 0 ? (size_t)length : 1;
        size_t written = piece;
        if (length < 0 || must_escape(code, used == 0, special)) {
            written = escape(text, code, length < 0);
            from = text;
            *ret_change |= WORD_ESCAPED;
        }
        if (used + written > space) {
            break;
        }
        memcpy(out + used, from, written);
        used += written;
        at += piece;
    }
    *ret_change |= at < size ? WORD_CUT : 0;
    return used;
}

const char *word_quote(const char *bytes, size_t size, char *out, size_t space)
{
    unsigned change = 0;
    size_t frame = sizeof "\"\"..."; /* with the NUL */
    size_t used = write_safe(bytes, size, "\"\\|", out + 1, space - frame, &change);
    if (change || !has_paired_brackets(bytes, size)) {
        used = write_safe(bytes, size, "\"\\|[]", out + 1, space - frame, &change);
    }
    out[0] = '"';
    (void)snprintf(out + 1 + used, space - 1 - used, "\"%s", change & WORD_CUT ? "..." : "");
    return out;
}

const char *word_show(const char *bytes, size_t size, char *out, size_t space)
{
    if (size >= space || !word_is_plain(bytes, size)) {
        return word_quote(bytes, size, out, space);
    }
    memcpy(out, bytes, size);
    out[size] = '\0';
    return out;
}

const char *word_line(const char *text, char *out, size_t space)
{
    unsigned change = 0;
    out[write_safe(text, strlen(text), "", out, space - 1, &change)] = '\0';
    return out;
}

int word_append(struct buf *buf, const char *bytes, size_t size)
{
    char text[WORD_BYTES + 1];
    return buf_append_text(buf, word_show(bytes, size, text, sizeof text));
}

int word_append_next(struct buf *buf, const char *bytes, size_t size)
{
    char text[WORD_BYTES + 1];
    bool begins_entry = size > 0 && strchr("+-~<>=#", bytes[0]);
    return buf_append_text(buf, begins_entry ? word_quote(bytes, size, text, sizeof text)
                                             : word_show(bytes, size, text, sizeof text));
}

int word_append_quoted(struct buf *buf, const char *bytes, size_t size)
{
    char text[WORD_PHRASE + 1];
    return buf_append_text(buf, word_quote(bytes, size, text, sizeof text));
}

int word_append_visible(struct buf *buf, const char *bytes, size_t size)
{
    char text[WORD_ESCAPE_MOST + 1];
    unsigned change = 0;
    return buf_append(buf, text, write_safe(bytes, size, "", text, sizeof text, &change));
}

bool word_list_next(struct word_list *list)
{
    bool is_shown = list->count++ < list->most;
    if (is_shown) {
        (void)buf_append_text(list->out, list->shown++ ? ", " : list->before);
    }
    return is_shown;
}

void word_list_end(const struct word_list *list)
{
    if (list->count > list->shown) {
        (void)buf_appendf(list->out, " and %zu more", list->count - list->shown);
    }
}

static const char letters[] = "abtnvfr\"\\";
static const char meanings[] = "\a\b\t\n\v\f\r\"\\";

static bool is_special(unsigned char byte)
{
    return byte < ' ' || byte >= 0x7f || byte == '"' || byte == '\\';
}

/* The bytes of the character at the front of name if it is one beyond ASCII that is shown as it is,
 * else 0. */
static size_t shown_size(const char *name, size_t size)
{
    int n = (unsigned char)*name < 0x80 ? 0 : utf8_size(name, size);
    return n > 0 && !word_is_unseen(utf8_code(name, n)) ? (size_t)n : 0;
}

static bool is_needed(const char *name, size_t size)
{
    for (size_t i = 0; i < size;) {
        size_t shown = shown_size(name + i, size - i);
        if (!shown && is_special((unsigned char)name[i])) {
            return true;
        }
        i += shown ? shown : 1;
    }
    return false;
}

static int append_byte(struct buf *out, unsigned char byte)
{
    const char *known = byte ? strchr(meanings, byte) : NULL;
    if (known) {
        return buf_append(out, (char[]){'\\', letters[known - meanings]}, 2);
    }
    const char octal[] = {'\\', (char)('0' + (byte >> 6)), (char)('0' + (byte >> 3 & 7)),
                          (char)('0' + (byte & 7))};
    return is_special(byte) ? buf_append(out, octal, sizeof octal) : buf_append(out, &byte, 1);
}

int quote_append(struct buf *out, const char *prefix, const char *name, size_t size, bool force)
{
    bool quoted = force || is_needed(name, size);
    (void)buf_append(out, "\"", quoted);
    (void)buf_append_text(out, prefix);
    for (size_t i = 0; i < size;) {
        size_t shown = quoted ? shown_size(name + i, size - i) : size;
        (void)(shown ? buf_append(out, name + i, shown) : append_byte(out, (unsigned char)name[i]));
        i += shown ? shown : 1;
    }
    return buf_append(out, "\"", quoted);
}

/* The byte of the escape behind a backslash; *used: its characters. -1: none. */
static int escaped(const char *text, size_t size, size_t *used)
{
    const char *letter = size > 0 && *text ? strchr(letters, *text) : NULL;
    *used = letter ? 1 : 3;
    if (letter) {
        return (unsigned char)meanings[letter - letters];
    }
    if (size < 3 || text[0] < '0' || text[0] > '3' || text[1] < '0' || text[1] > '7' ||
        text[2] < '0' || text[2] > '7') {
        return -1;
    }
    return (text[0] - '0') << 6 | (text[1] - '0') << 3 | (text[2] - '0');
}

int quote_parse(const char *text, size_t size, struct buf *out)
{
    if (size < 2 || text[0] != '"' || text[size - 1] != '"') {
        return -EINVAL;
    }
    for (size_t i = 1; i < size - 1; i++) {
        int byte = (unsigned char)text[i];
        if (byte == '\\') {
            size_t used = 0;
            byte = escaped(text + i + 1, size - 2 - i, &used);
            i += used;
        } else if (byte == '"') {
            return -EINVAL;
        }
        if (byte <= 0) {
            return -EINVAL;
        }
        (void)buf_append(out, &(char){(char)byte}, 1);
    }
    return buf_error(out);
}
