#include "tools/files/edit.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "tools/files/lines.h"

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
