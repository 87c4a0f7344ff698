#include "tools/run/output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/own.h"
#include "base/word.h"
#include "tools/content/content.h"

/* A change to the other stream inside of head and tail. The guest's own NULs are dropped on the way
 * in, so the mark cannot be forged; it is one byte, so that no cut can leave half of it. */
enum {
    MARK = '\0',
    LINE_MAX_BYTES = 2000,
    ROUND_LINES = 8,    /* at most, of lines that come again together */
    ROUNDS_MOST = 7,    /* how often lines of data may come again: they stay as they are */
    ROUNDS_BYTES = 2000 /* the same, of short lines */
};

void output_init(struct output *output)
{
    *output = (struct output){.first_stream = -1, .last_stream = -1};
}

void output_done(struct output *output)
{
    free(output->head);
    free(output->tail);
    output_init(output);
}

static void keep(struct output *output, const char *bytes, size_t size)
{
    output->kept_total += size;
    if (!output->head) {
        output->head = malloc(LIMIT_OUTPUT_HEAD_BYTES);
    }
    if (output->head && output->head_size < LIMIT_OUTPUT_HEAD_BYTES) {
        size_t space = LIMIT_OUTPUT_HEAD_BYTES - output->head_size;
        size_t part = size < space ? size : space;
        memcpy(output->head + output->head_size, bytes, part);
        output->head_size += part;
        bytes += part;
        size -= part;
    }
    if (size == 0) {
        return;
    }
    if (!output->tail) {
        /* Zeroed: where an earlier attempt found no memory, not all of it has been written. */
        output->tail = calloc(1, LIMIT_OUTPUT_TAIL_BYTES);
    }
    if (!output->tail) {
        return;
    }
    if (size > LIMIT_OUTPUT_TAIL_BYTES) {
        /* tail_at as if all had gone through the ring */
        size_t skip = size - LIMIT_OUTPUT_TAIL_BYTES;
        output->tail_at = (output->tail_at + skip) % LIMIT_OUTPUT_TAIL_BYTES;
        bytes += skip;
        size = LIMIT_OUTPUT_TAIL_BYTES;
    }
    size_t space = LIMIT_OUTPUT_TAIL_BYTES - output->tail_at;
    size_t part = size < space ? size : space;
    memcpy(output->tail + output->tail_at, bytes, part);
    memcpy(output->tail, bytes + part, size - part);
    output->tail_at = (output->tail_at + size) % LIMIT_OUTPUT_TAIL_BYTES;
}

/* The longest line that bytes end or go on with; *ret_open: the size of the one that goes on. */
static size_t longest_line(size_t open, const char *bytes, size_t size, size_t *ret_open)
{
    size_t longest = open;
    for (size_t i = 0; i < size; i++) {
        open = bytes[i] == '\n' || bytes[i] == '\r' ? 0 : open + 1;
        longest = open > longest ? open : longest;
    }
    *ret_open = open;
    return longest;
}

bool output_is_cut(const struct output *output)
{
    return output->long_line ||
           output->kept_total > LIMIT_OUTPUT_HEAD_BYTES + LIMIT_OUTPUT_TAIL_BYTES;
}

bool output_overflows(const struct output *output, const char *bytes, size_t size)
{
    size_t open = 0;
    if (output_is_cut(output)) {
        return false;
    }
    /* + 1: a change of streams */
    return output->kept_total + 1 + size > LIMIT_OUTPUT_HEAD_BYTES + LIMIT_OUTPUT_TAIL_BYTES ||
           longest_line(output->line_size, bytes, size, &open) > LINE_MAX_BYTES;
}

void output_add(struct output *output, unsigned stream, const char *bytes, size_t size)
{
    if (size == 0) {
        return;
    }
    if (output->first_stream < 0) {
        output->first_stream = (int)stream;
    } else if (output->last_stream != (int)stream) {
        const char mark = MARK;
        keep(output, &mark, 1);
    }
    output->last_stream = (int)stream;
    output->total += size;
    output->stream_bytes[stream] += size;
    if (!output_is_cut(output) && size <= LIMIT_OUTPUT_HEAD_BYTES + LIMIT_OUTPUT_TAIL_BYTES) {
        output->long_line =
            longest_line(output->line_size, bytes, size, &output->line_size) > LINE_MAX_BYTES;
    }
    while (size > 0) {
        const char *nul = memchr(bytes, '\0', size);
        size_t part = nul ? (size_t)(nul - bytes) : size;
        keep(output, bytes, part);
        bytes += part + (nul != NULL);
        size -= part + (nul != NULL);
    }
}

/* --- text for a model --- */

struct cleaner {
    struct buf *text;
    size_t line_start; /* in text, counted from its own start */
    bool marks;        /* both streams were used */
    int stream;        /* whose bytes come now */
    bool cut;          /* a line was */
    bool returned;     /* a carriage return stands before what comes */
    bool over;         /* it ended the line above, at before */
    size_t before;
};

/* The size without a character at the end that is not whole. */
static size_t whole_size(const char *bytes, size_t size)
{
    for (size_t back = 1; back <= 3 && back <= size; back++) {
        unsigned char c = (unsigned char)bytes[size - back];
        size_t length = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
        if (!utf8_is_inner((char)c)) {
            return length > back ? size - back : size;
        }
    }
    return size;
}

/* The size of the word at the beginning of a line: 0 for figures, bars and blanks. */
static size_t first_word(const char *line, size_t size, const char **ret_word)
{
    size_t start = 0;
    while (start < size && strchr(" \t", line[start])) {
        start++;
    }
    size_t end = start;
    /* Of UTF-8 not 0xc2, 0xe2 and 0xf0, which begin signs, bars and pictures. */
    for (; end < size; end++) {
        unsigned char c = (unsigned char)line[end];
        bool inner = end > start && utf8_is_inner((char)c);
        if (!inner && !((c | 0x20) >= 'a' && (c | 0x20) <= 'z') &&
            !(c > 0xc2 && c < 0xf0 && c != 0xe2)) {
            break;
        }
    }
    *ret_word = line + start;
    return end - start;
}

/* A line after a carriage return takes the place of the one before, as the states of a progress bar
 * do, if one begins with no word or both with the same. Other lines are those of a file. */
static void resolve_line(struct cleaner *cleaner)
{
    struct buf *text = cleaner->text;
    const char *old = buf_bytes(text) + cleaner->before;
    const char *new = buf_bytes(text) + cleaner->line_start;
    size_t size = buf_size(text) - cleaner->line_start;
    const char *words[2];
    if (!cleaner->over) {
        return;
    }
    cleaner->over = false;
    size_t had = first_word(old, (size_t)(new - old), &words[0]);
    size_t has = first_word(new, size, &words[1]);
    if (had == 0 || has == 0 || (had == has && memcmp(words[0], words[1], had) == 0)) {
        memmove(text->data + text->start + cleaner->before, new, size);
        text->end -= cleaner->line_start - cleaner->before;
        cleaner->line_start = cleaner->before;
    }
}

/* Ends a line. One that is longer than clients show keeps its beginning and its end. */
static void end_line(struct cleaner *cleaner)
{
    struct buf *text = cleaner->text;
    resolve_line(cleaner);
    size_t size = buf_size(text) - cleaner->line_start;
    if (size > LINE_MAX_BYTES) {
        char end[LINE_MAX_BYTES / 2];
        size_t skip = 0;
        memcpy(end, text->data + text->end - sizeof end, sizeof end);
        while (skip < 3 && utf8_is_inner(end[skip])) {
            skip++;
        }
        const char *line = buf_bytes(text) + cleaner->line_start;
        text->end -= size - whole_size(line, LINE_MAX_BYTES / 2);
        cleaner->cut = true;
        buf_appendf(cleaner->text, " … %zu bytes of this line omitted … ", size - LINE_MAX_BYTES);
        buf_append(cleaner->text, end + skip, sizeof end - skip);
    }
    buf_append(cleaner->text, "\n", 1);
    cleaner->line_start = buf_size(text);
}

static void use_stream(struct cleaner *cleaner, int stream)
{
    if (!cleaner->marks || stream == cleaner->stream) {
        return;
    }
    cleaner->stream = stream;
    if (buf_size(cleaner->text) > cleaner->line_start) {
        end_line(cleaner);
    }
    buf_append_text(cleaner->text, stream ? "[stderr]\n" : "[stdout]\n");
    cleaner->line_start = buf_size(cleaner->text);
    cleaner->returned = false;
}

static void clean_byte(struct cleaner *cleaner, char c)
{
    bool shows = (unsigned char)c >= ' ' || c == '\t';
    if (cleaner->returned && shows && buf_size(cleaner->text) > cleaner->line_start) {
        resolve_line(cleaner);
        const size_t before = cleaner->line_start;
        end_line(cleaner);
        cleaner->over = true;
        cleaner->before = before;
    }
    cleaner->returned = c == '\r' || (cleaner->returned && !shows && c != '\n');
    if (c == '\n') {
        end_line(cleaner);
    } else if (c == '\b' && !cleaner->returned) {
        struct buf *text = cleaner->text;
        bool more = true;
        while (more && buf_size(text) > cleaner->line_start) {
            more = utf8_is_inner(text->data[--text->end]);
        }
    } else if (shows) {
        buf_append(cleaner->text, &c, 1);
    }
}

static size_t span_of(const char *bytes, size_t size, size_t at, char first, char last)
{
    while (at < size && bytes[at] >= first && bytes[at] <= last) {
        at++;
    }
    return at;
}

/* Length of the terminal sequence at bytes, which starts with ESC (ECMA-48, 5.3 to 5.6). One that
 * is not ended hides no more than the rest of its line. */
static size_t escape_length(const char *bytes, size_t size)
{
    if (size < 2) {
        return size;
    }
    size_t at = 2;
    if (bytes[1] == '[') {
        at = span_of(bytes, size, at, ' ', '?');
        return at < size && bytes[at] >= '@' && bytes[at] <= '~' ? at + 1 : at;
    }
    if (strchr("]PX^_", bytes[1]) && bytes[1]) {
        while (at < size && !strchr("\a\033\n", bytes[at])) { /* also at a MARK */
            at++;
        }
        if (at + 1 < size && bytes[at] == '\033' && bytes[at + 1] == '\\') {
            return at + 2;
        }
        return at < size && bytes[at] == '\a' ? at + 1 : at;
    }
    at = span_of(bytes, size, 1, ' ', '/');
    return at < size && bytes[at] >= '0' && bytes[at] <= '~' ? at + 1 : at;
}

static void clean(struct cleaner *cleaner, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size;) {
        if (bytes[i] == MARK) {
            use_stream(cleaner, !cleaner->stream);
            i++;
        } else if (bytes[i] == '\033') {
            i += escape_length(bytes + i, size - i);
        } else {
            size_t plain = i;
            while (!cleaner->returned && plain < size &&
                   ((unsigned char)bytes[plain] >= ' ' || bytes[plain] == '\t')) {
                plain++;
            }
            if (plain > i) {
                buf_append(cleaner->text, bytes + i, plain - i);
                i = plain;
            } else {
                clean_byte(cleaner, bytes[i++]);
            }
        }
    }
}

/* How many bytes of the tail's ring are used. */
static size_t tail_size(const struct output *output)
{
    uint64_t beyond = output->tail ? output->kept_total - output->head_size : 0;
    return beyond < LIMIT_OUTPUT_TAIL_BYTES ? (size_t)beyond : LIMIT_OUTPUT_TAIL_BYTES;
}

/* Appends the tail's bytes in order. */
static void append_tail(const struct output *output, struct buf *raw)
{
    size_t size = tail_size(output);
    size_t start = size < LIMIT_OUTPUT_TAIL_BYTES ? 0 : output->tail_at;
    size_t part = LIMIT_OUTPUT_TAIL_BYTES - start;
    part = part < size ? part : size;
    if (size > 0) {
        buf_append(raw, output->tail + start, part);
        buf_append(raw, output->tail, size - part);
    }
}

int output_append_raw(const struct output *output, struct buf *raw)
{
    OWNED(buf_done) struct buf all = BUF_EMPTY;
    buf_append(&all, output->head, output->head_size);
    append_tail(output, &all);
    const char *at = buf_bytes(&all);
    const char *end = at + buf_size(&all);
    while (at < end) {
        const char *mark = memchr(at, MARK, (size_t)(end - at));
        const char *stop = mark ? mark : end;
        buf_append(raw, at, (size_t)(stop - at));
        at = stop + 1;
    }
    return buf_error(&all) ? -ENOMEM : buf_error(raw);
}

char *output_last_line(const struct output *output, char *out, size_t size)
{
    OWNED(buf_done) struct buf raw = BUF_EMPTY;
    buf_append(&raw, output->head, tail_size(output) == 0 ? output->head_size : 0);
    append_tail(output, &raw);
    const char *bytes = buf_bytes(&raw);
    size_t end = buf_size(&raw);
    size_t start = 0;
    size_t count = 0;
    while (end > 0 && (unsigned char)bytes[end - 1] <= ' ') {
        end--;
    }
    for (start = end; start > 0 && !strchr("\n\r", bytes[start - 1]);) { /* also at a MARK */
        start--;
    }
    while (start < end && count + 1 < size) {
        if (bytes[start] == '\033') {
            start += escape_length(bytes + start, end - start);
        } else if ((unsigned char)bytes[start] >= ' ') {
            out[count++] = bytes[start++];
        } else {
            start++;
        }
    }
    out[start < end ? whole_size(out, count) : count] = '\0';
    return out;
}

static int count_marks(const char *bytes, size_t size)
{
    int count = 0;
    for (size_t i = 0; i < size; i++) {
        count += bytes[i] == MARK;
    }
    return count;
}

/* Where the rest is, for read_file. */
static void put_file(struct cleaner *cleaner, const struct output *output, const char *before)
{
    char size[16];
    if (!output->file[0]) {
        return;
    }
    if (output->file_size < output->total) {
        buf_appendf(cleaner->text, "%sthe first %s of the output are in %s", before,
                    content_size(output->file_size, size), output->file);
    } else {
        buf_appendf(cleaner->text, "%sthe whole output (%s) is in %s", before,
                    content_size(output->file_size, size), output->file);
    }
    buf_appendf(cleaner->text, ", read_file reads it in ranges");
}

/* What stands between head and tail. The tail begins at a line's end where one is near, else at a
 * character's, and with the name of its stream where the head's end was another's. */
static void clean_cut(struct cleaner *cleaner, const struct output *output, const char *tail,
                      size_t size, unsigned long long omitted)
{
    const char *newline = memchr(tail, '\n', size < 400 ? size : 400);
    size_t skip = newline ? (size_t)(newline - tail) + 1 : 0;
    while (skip < size && utf8_is_inner(tail[skip])) {
        skip++;
    }
    if (buf_size(cleaner->text) > cleaner->line_start) {
        end_line(cleaner);
    }
    buf_appendf(cleaner->text, "… %llu bytes omitted", omitted + skip);
    put_file(cleaner, output, "; ");
    buf_appendf(cleaner->text, " …\n");
    cleaner->line_start = buf_size(cleaner->text);
    cleaner->returned = false;
    int changes = count_marks(tail + skip, size - skip);
    use_stream(cleaner, changes % 2 ? !output->last_stream : output->last_stream);
    clean(cleaner, tail + skip, size - skip);
}

/* How many bytes the lines at `at` take together, which come again at once and are worth to be
 * counted; 0: there are none. *ret_lines: how many they are; *ret_rounds: how often they come
 * again. */
static size_t round_at(const char *at, const char *end, unsigned *ret_lines, size_t *ret_rounds)
{
    const char *stop = at;
    for (*ret_lines = 1; *ret_lines <= ROUND_LINES; ++*ret_lines) {
        const char *newline = memchr(stop, '\n', (size_t)(end - stop));
        if (!newline) {
            return 0;
        }
        stop = newline + 1;
        size_t size = (size_t)(stop - at);
        size_t rounds = 0;
        while ((size_t)(end - stop) >= (rounds + 1) * size &&
               memcmp(at, stop + rounds * size, size) == 0) {
            rounds++;
        }
        if (rounds > ROUNDS_MOST && rounds * size > ROUNDS_BYTES) {
            *ret_rounds = rounds;
            return size;
        }
    }
    return 0;
}

/* Counts lines that come again and again, in what is in text from begin on. */
static int fold_rounds(struct buf *text, size_t begin)
{
    OWNED(buf_done) struct buf all = BUF_EMPTY;
    if (buf_error(text) || buf_append(&all, buf_bytes(text) + begin, buf_size(text) - begin) < 0) {
        return -ENOMEM;
    }
    buf_cut(text, begin);
    const char *end = buf_bytes(&all) + buf_size(&all);
    const char *from = buf_bytes(&all); /* not appended yet */
    for (const char *at = from; at < end;) {
        unsigned lines = 0;
        size_t rounds = 0;
        size_t size = round_at(at, end, &lines, &rounds);
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        if (size == 0) {
            at = newline ? newline + 1 : end;
            continue;
        }
        char many[24] = "line";
        (void)(lines > 1 && snprintf(many, sizeof many, "%u lines", lines));
        buf_append(text, from, (size_t)(at - from) + size);
        buf_appendf(text, "… the %s above %zu times more …\n", many, rounds);
        from = at = at + (rounds + 1) * size;
    }
    return buf_append(text, from, (size_t)(end - from));
}

int output_compose(const struct output *output, struct buf *text)
{
    size_t begin = buf_size(text);
    OWNED(buf_done) struct buf raw = BUF_EMPTY;
    struct cleaner cleaner = {.text = text,
                              .line_start = buf_size(text),
                              .marks = output->stream_bytes[0] && output->stream_bytes[1]};
    size_t size = tail_size(output);
    uint64_t omitted = output->tail ? output->kept_total - output->head_size - size : 0;
    size_t head_size =
        omitted > 0 ? whole_size(output->head, output->head_size) : output->head_size;
    buf_append(&raw, output->head, head_size);
    append_tail(output, &raw);
    if (buf_error(&raw)) {
        return -ENOMEM;
    }
    use_stream(&cleaner, output->first_stream);
    if (omitted > 0) {
        clean(&cleaner, buf_bytes(&raw), head_size);
        clean_cut(&cleaner, output, buf_bytes(&raw) + head_size, size,
                  omitted + output->head_size - head_size);
    } else if (buf_size(&raw) > 0) {
        clean(&cleaner, buf_bytes(&raw), buf_size(&raw));
    }
    if (buf_size(text) > cleaner.line_start) {
        end_line(&cleaner);
    }
    if (omitted == 0 && cleaner.cut && output->file[0]) {
        put_file(&cleaner, output, "… ");
        buf_appendf(cleaner.text, " …\n");
    }
    return fold_rounds(text, begin);
}
