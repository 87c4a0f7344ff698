#include "tools/files/read_text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/word.h"
#include "rpc/text.h"

enum {
    LINES_MOST = 100000,      /* of a file that is searched */
    COMPARED_MOST = 10000000, /* pairs of lines */
    FORMS_SEEN = 16,          /* characters of one text, different ones */
    FULL_WIDTH = 0xFF00       /* "!" to "~" follow it, Unicode 15, Halfwidth and Fullwidth Forms */
};

static bool is_space(char c)
{
    return c && strchr(" \t\r\n", c);
}

/* Characters of typography, and what people type for them: nothing for what is not seen. */
static const struct {
    const char *found;
    const char *typed;
} typed[] = {
    {"\xe2\x80\x98", "'"},  {"\xe2\x80\x99", "'"},   {"\xe2\x80\x9a", "'"}, {"\xe2\x80\x9c", "\""},
    {"\xe2\x80\x9d", "\""}, {"\xe2\x80\x9e", "\""},  {"\xc2\xab", "\""},    {"\xc2\xbb", "\""},
    {"\xe2\x80\x90", "-"},  {"\xe2\x80\x91", "-"},   {"\xe2\x80\x93", "-"}, {"\xe2\x80\x94", "-"},
    {"\xe2\x88\x92", "-"},  {"\xe2\x80\xa6", "..."}, {"\xc2\xa0", ""},      {"\xe2\x80\xaf", ""},
    {"\xc2\xad", ""},       {"\xe2\x80\x8b", ""},    {"\xe2\x80\x8c", ""},  {"\xe2\x80\x8d", ""},
    {"\xe2\x81\xa0", ""},   {"\xef\xbb\xbf", ""},    {"\xe3\x80\x80", ""},
};

/* A piece of a text: one byte, or a whole character that has another form. */
struct piece {
    size_t size;
    size_t plain_size; /* 0: of white space, and of what is not seen */
    char plain[NORMAL_BYTES];
    bool other;    /* it has another form */
    bool composed; /* which is decomposed characters */
};

/* The piece at the front of a text. */
static struct piece piece_of(const char *text, size_t left)
{
    struct piece piece = {.size = 1, .plain_size = !is_space(*text), .plain = {*text}};
    int size = *text & 0x80 ? utf8_size(text, left) : 0;
    bool may_be = size > 0 && strchr("\xc2\xe2\xe3\xef", *text); /* they begin so */
    for (size_t i = 0; may_be && i < sizeof typed / sizeof *typed; i++) {
        if (strncmp(typed[i].found, text, (size_t)size) == 0) {
            piece = (struct piece){(size_t)size, strlen(typed[i].typed), .other = true};
            memcpy(piece.plain, typed[i].typed, piece.plain_size);
            return piece;
        }
    }
    uint32_t code = size > 0 ? utf8_code(text, size) : 0;
    if (code > FULL_WIDTH && code <= FULL_WIDTH + '~' - ' ') {
        return (struct piece){(size_t)size, 1, {(char)(code - FULL_WIDTH + ' ')}, .other = true};
    }
    if (size > 0) {
        piece.size = (size_t)size;
        piece.plain_size = normal_decompose(text, size, piece.plain);
        piece.composed = piece.other = piece.plain_size != piece.size;
    }
    return piece;
}

static int append_plain(struct buf *out, const char *text, size_t size)
{
    size_t from = 0; /* not yet copied */
    for (size_t i = 0; i < size;) {
        struct piece piece = piece_of(text + i, size - i);
        if (piece.other || piece.plain_size == 0) {
            buf_append(out, text + from, i - from);
            buf_append(out, piece.plain, piece.plain_size);
            from = i + piece.size;
        }
        i += piece.size;
    }
    return buf_append(out, text + from, size - from);
}

/* Where the piece is that has the plain byte of this number. */
static size_t place_of(const char *text, size_t size, size_t number)
{
    struct piece piece;
    size_t at = 0;
    while (at < size && (piece = piece_of(text + at, size - at)).plain_size <= number) {
        number -= piece.plain_size;
        at += piece.size;
    }
    return at;
}

/* A line, and a hash of it without white space: a wrong one makes only a wrong hint. */
struct line {
    const char *at;
    size_t size;
    uint64_t hash;
};

static const uint64_t blank = 0xcbf29ce484222325; /* FNV-1a */

static struct line *split(const char *text, size_t size, size_t count)
{
    struct line *lines = calloc(count, sizeof *lines);
    const char *end = text + size;
    for (size_t i = 0; lines && i < count; i++) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        lines[i] = (struct line){text, (size_t)((newline ? newline : end) - text), blank};
        for (size_t k = 0; k < lines[i].size; k++) {
            lines[i].hash = is_space(text[k])
                                ? lines[i].hash
                                : (lines[i].hash ^ (unsigned char)text[k]) * 0x100000001b3;
        }
        text = newline ? newline + 1 : end;
    }
    return lines;
}

/* How many lines of wanted are those from the first of lines, not counting blank ones. */
static size_t count_alike(const struct line *lines, size_t count, const struct line *wanted,
                          size_t wanted_count)
{
    size_t alike = 0;
    for (size_t i = 0; i < wanted_count && i < count; i++) {
        alike += lines[i].hash == wanted[i].hash && wanted[i].hash != blank;
    }
    return alike;
}

/* "; line 4 is", "; lines 4-6 are" */
static void append_lines(struct buf *said, size_t first, size_t last)
{
    if (first == last) {
        buf_appendf(said, "; line %zu is", first);
    } else {
        buf_appendf(said, "; lines %zu-%zu are", first, last);
    }
}

/* Appends the first characters with another form that the text has and the other one has not.
 * any: others were named before. Returns whether now any are. */
static bool say_forms(const char *who, struct span text, struct span other, bool any,
                      struct buf *said)
{
    struct span seen[FORMS_SEEN];
    size_t count = 0;
    struct piece piece;
    for (size_t at = 0; at < text.size && count < FORMS_SEEN; at += piece.size) {
        const char *found = text.bytes + at;
        piece = piece_of(found, text.size - at);
        size_t i = piece.other ? 0 : count;
        while (i < count &&
               (seen[i].size != piece.size || memcmp(seen[i].bytes, found, piece.size) != 0)) {
            i++;
        }
        if (!piece.other || i < count) {
            continue;
        }
        seen[count++] = (struct span){found, piece.size};
        if (!memmem(other.bytes, other.size, found, piece.size)) {
            buf_appendf(said, "%s%s has ", any ? ", " : "typography: ", who);
            word_append_quoted(said, found, piece.size);
            buf_append_text(said, piece.composed ? " in one piece (NFC)" : "");
            any = true;
        }
    }
    return any;
}

static bool say_other_space(const char *text, size_t size, const struct edit *edit,
                            struct buf *said)
{
    OWNED(buf_done) struct buf all = BUF_EMPTY;
    OWNED(buf_done) struct buf wanted = BUF_EMPTY;
    if (append_plain(&all, text, size) < 0 ||
        append_plain(&wanted, edit->old_text, edit->old_size) < 0 || buf_size(&wanted) == 0 ||
        buf_size(&all) == 0) {
        return false;
    }
    const char *found =
        memmem(buf_bytes(&all), buf_size(&all), buf_bytes(&wanted), buf_size(&wanted));
    if (!found) {
        return false;
    }
    size_t before = (size_t)(found - buf_bytes(&all));
    size_t first = place_of(text, size, before);
    size_t last = place_of(text, size, before + buf_size(&wanted) - 1);
    append_lines(said, lines_ends(text, first) + 1, lines_ends(text, last) + 1);
    buf_append_text(said, " the same but for ");
    last += piece_of(text + last, size - last).size;
    struct span here = {text + first, last - first};
    struct span sent = {edit->old_text, edit->old_size};
    bool any = say_forms("the file", here, sent, false, said);
    any = say_forms("old_text", sent, here, any, said);
    buf_append_text(said, any ? "" : "white space");
    return true;
}

/* The lines of the file that are most like those of old_text, if half of them are there, and the
 * first one that is not. */
static void say_other_line(const struct line *lines, size_t count, const struct line *wanted,
                           size_t wanted_count, struct buf *said)
{
    size_t best = 0;
    size_t first = 0;
    size_t needed = 0;
    for (size_t i = 0; i < wanted_count; i++) {
        needed += wanted[i].hash != blank;
    }
    for (size_t i = 0; i < count && best < needed; i++) {
        size_t alike = count_alike(lines + i, count - i, wanted, wanted_count);
        first = alike > best ? i : first;
        best = alike > best ? alike : best;
    }
    if (best == 0 || 2 * best < needed) {
        return;
    }
    size_t other = 0;
    while (other + 1 < wanted_count && first + other < count &&
           lines[first + other].hash == wanted[other].hash) {
        other++;
    }
    size_t last = first + wanted_count < count ? first + wanted_count : count;
    append_lines(said, first + 1, last);
    if (first + other >= count) {
        buf_append_text(said, " like it, but there the file ends");
        return;
    }
    char shown[WORD_BYTES];
    const struct line *line = &lines[first + other];
    buf_appendf(said, " like it, but line %zu is %s", first + other + 1,
                word_quote(line->at, line->size, shown, sizeof shown));
}

/* For an edit whose old_text is not in the text: appends which lines are like it and where they
 * differ, if there are such, as "; lines 4-6 are like it, but line 5 is \"x = 1\"". */
static void edit_say_near(const char *text, size_t size, const struct edit *edit, struct buf *said)
{
    size_t count = lines_count(text, size);
    size_t wanted_count = lines_count(edit->old_text, edit->old_size);
    if (say_other_space(text, size, edit, said) || wanted_count == 0 || count > LINES_MOST ||
        wanted_count > COMPARED_MOST / (count + 1)) {
        return;
    }
    struct line *lines = split(text, size, count);
    struct line *wanted = split(edit->old_text, edit->old_size, wanted_count);
    if (lines && wanted) {
        say_other_line(lines, count, wanted, wanted_count, said);
    }
    free(lines);
    free(wanted);
}

enum { PLACES_SHOWN = 8, PLACES_COUNTED = 1000 };

enum line_ends { AS_SENT, CRLF, LF };

/* The places of a word in a text. */
struct places {
    size_t at[PLACES_SHOWN];
    size_t count; /* at most PLACES_COUNTED */
};

/* Appends text with all its line ends of one kind. 0 or -ENOMEM. */
static int convert(const char *text, size_t size, enum line_ends ends, struct buf *out)
{
    while (size > 0) {
        const char *newline = memchr(text, '\n', size);
        size_t line = newline ? (size_t)(newline - text) : size;
        size_t shown =
            newline && ends != AS_SENT && line > 0 && text[line - 1] == '\r' ? line - 1 : line;
        buf_append(out, text, shown);
        buf_append_text(out, !newline ? "" : ends == CRLF ? "\r\n" : "\n");
        line += newline != NULL;
        text += line;
        size -= line;
    }
    return buf_error(out);
}

/* A word that follows one which it overlaps counts too: which of them is meant is not known. */
static void find_places(const char *text, size_t size, const char *word, size_t word_size,
                        struct places *places)
{
    const char *end = text + size;
    const char *at = text;
    places->count = 0;
    while (places->count < PLACES_COUNTED &&
           (at = memmem(at, (size_t)(end - at), word, word_size))) {
        if (places->count < PLACES_SHOWN) {
            places->at[places->count] = (size_t)(at - text);
        }
        places->count++;
        at += word_size; /* skips what overlaps, or a hostile text takes quadratic time */
    }
    if (places->count == 1) {
        at = text + places->at[0] + 1;
        at = memmem(at, (size_t)(end - at), word, word_size);
        if (at) {
            places->at[places->count++] = (size_t)(at - text);
        }
    }
}

static bool has_only_crlf(const char *text, size_t size)
{
    const char *end = text + size;
    const char *at = text;
    bool any = false;
    while ((at = memchr(at, '\n', (size_t)(end - at)))) {
        if (at == text || at[-1] != '\r') {
            return false;
        }
        any = true;
        at++;
    }
    return any;
}

/* --- the sentences ---
 * Those that refuse return 1. */

static int say_nowhere(const char *text, size_t size, const struct edit *edit, struct buf *said)
{
    buf_append_text(said, ": old_text is not in the file");
    edit_say_near(text, size, edit, said);
    buf_append_text(said, ". Copy the text as read_file shows it.");
    return buf_error(said) ? -ENOMEM : 1;
}

static int say_places(const char *text, const struct places *places, struct buf *said)
{
    size_t shown = places->count < PLACES_SHOWN ? places->count : PLACES_SHOWN;
    size_t line = 1;
    buf_appendf(said, ": old_text is at %s%zu places, lines ",
                places->count < PLACES_COUNTED ? "" : "more than ", places->count);
    for (size_t i = 0; i < shown; i++) {
        size_t from = i > 0 ? places->at[i - 1] : 0;
        line += lines_ends(text + from, places->at[i] - from);
        buf_appendf(said, "%s%zu", i > 0 ? ", " : "", line);
    }
    if (shown < places->count) {
        buf_append_text(said, " and others");
    }
    buf_append_text(said, ". Send more of the text around the one to change.");
    return buf_error(said) ? -ENOMEM : 1;
}

static void append_range(struct buf *said, size_t first, size_t count)
{
    buf_appendf(said, "%zu", first);
    if (count > 1) {
        buf_appendf(said, "-%zu", first + count - 1);
    }
}

/* "line 4, now 4-6; 90 lines in all". */
static int say_lines(const char *text, size_t at, size_t old_size, const struct buf *bytes,
                     size_t new_size, struct buf *said)
{
    size_t first = lines_ends(text, at) + 1;
    size_t before = lines_count(text + at, old_size);
    size_t after = new_size > 0 ? lines_count(buf_bytes(bytes) + at, new_size) : 1;
    size_t lines = lines_count(buf_bytes(bytes), buf_size(bytes));
    bool gone =
        new_size == 0 && text[at + old_size - 1] == '\n' && (at == 0 || text[at - 1] == '\n');
    buf_append_text(said, before == 1 ? "line " : "lines ");
    append_range(said, first, before);
    if (gone) {
        buf_append_text(said, " removed");
    } else if (after != before) {
        buf_append_text(said, ", now ");
        append_range(said, first, after);
    }
    return buf_appendf(said, "; %zu line%s in all", lines, lines == 1 ? "" : "s");
}

/* --- the edit --- */

static int replace(const char *text, size_t size, size_t at, size_t old_size,
                   const struct buf *replacement, struct buf *bytes)
{
    buf_append(bytes, text, at);
    buf_append_buf(bytes, replacement);
    return buf_append(bytes, text + at + old_size, size - at - old_size);
}

int edit_apply(const char *text, size_t size, const struct edit *edit, struct buf *bytes,
               struct buf *said)
{
    static const enum line_ends tries[] = {AS_SENT, CRLF, LF};
    struct places places = {};
    OWNED(buf_done) struct buf wanted = BUF_EMPTY;
    OWNED(buf_done) struct buf replacement = BUF_EMPTY;
    enum line_ends ends = AS_SENT;
    int r = 0;
    for (unsigned i = 0; places.count == 0 && i < sizeof tries / sizeof *tries; i++) {
        ends = tries[i];
        buf_consume(&wanted, buf_size(&wanted));
        r = convert(edit->old_text, edit->old_size, ends, &wanted);
        if (r < 0) {
            return r;
        }
        if (ends == AS_SENT ||
            buf_size(&wanted) != edit->old_size) { /* else nothing was converted */
            find_places(text, size, buf_bytes(&wanted), buf_size(&wanted), &places);
        }
    }
    if (places.count != 1) {
        return places.count == 0 ? say_nowhere(text, size, edit, said)
                                 : say_places(text, &places, said);
    }
    ends = ends == AS_SENT && has_only_crlf(text, size) ? CRLF : ends;
    r = convert(edit->new_text, edit->new_size, ends, &replacement);
    r = r ? r : replace(text, size, places.at[0], buf_size(&wanted), &replacement, bytes);
    return r ? r
             : say_lines(text, places.at[0], buf_size(&wanted), bytes, buf_size(&replacement),
                         said);
}
