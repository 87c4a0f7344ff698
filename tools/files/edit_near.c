#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/word.h"
#include "tools/files/edit.h"
#include "tools/files/lines.h"

enum {
    LINES_MOST = 100000,     /* of a file that is searched */
    COMPARED_MOST = 10000000 /* pairs of lines */
};

static bool is_space(char c)
{
    return c && strchr(" \t\r\n", c);
}

static int append_without_space(struct buf *out, const char *text, size_t size)
{
    size_t from = 0;
    for (size_t i = 0; i <= size; i++) {
        if (i == size || is_space(text[i])) {
            buf_append(out, text + from, i - from);
            from = i + 1;
        }
    }
    return buf_error(out);
}

/* Where the byte is that has count bytes before it which are no space. */
static size_t place_of(const char *text, size_t count)
{
    size_t at = 0;
    while (count > 0 || is_space(text[at])) {
        count -= !is_space(text[at++]);
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

static bool say_other_space(const char *text, size_t size, const struct edit *edit,
                            struct buf *said)
{
    OWNED(buf_done) struct buf all = BUF_EMPTY;
    OWNED(buf_done) struct buf wanted = BUF_EMPTY;
    if (append_without_space(&all, text, size) < 0 ||
        append_without_space(&wanted, edit->old_text, edit->old_size) < 0 ||
        buf_size(&wanted) == 0 || buf_size(&all) == 0) {
        return false;
    }
    const char *found =
        memmem(buf_bytes(&all), buf_size(&all), buf_bytes(&wanted), buf_size(&wanted));
    if (!found) {
        return false;
    }
    size_t before = (size_t)(found - buf_bytes(&all));
    size_t first = place_of(text, before);
    size_t last = place_of(text, before + buf_size(&wanted) - 1);
    append_lines(said, lines_ends(text, first) + 1, lines_ends(text, last) + 1);
    buf_append_text(said, " the same but for white space");
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

void edit_say_near(const char *text, size_t size, const struct edit *edit, struct buf *said)
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
