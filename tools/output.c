#include "tools/output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/own.h"

/* A change of stream inside of head and tail: NUL and a letter. The guest's own NULs are dropped on
 * the way in, so the mark cannot be forged. */
enum { MARK = '\0', MARK_STDOUT = 'O', MARK_STDERR = 'E', LINE_MAX_BYTES = 2000 };

void output_init(struct output *output)
{
    *output = (struct output){.last_stream = -1};
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
        size_t room = LIMIT_OUTPUT_HEAD_BYTES - output->head_size;
        size_t part = size < room ? size : room;
        memcpy(output->head + output->head_size, bytes, part);
        output->head_size += part;
        bytes += part;
        size -= part;
    }
    if (size == 0) {
        return;
    }
    if (!output->tail) {
        output->tail = malloc(LIMIT_OUTPUT_TAIL_BYTES);
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
    size_t room = LIMIT_OUTPUT_TAIL_BYTES - output->tail_at;
    size_t part = size < room ? size : room;
    memcpy(output->tail + output->tail_at, bytes, part);
    memcpy(output->tail, bytes + part, size - part);
    output->tail_at = (output->tail_at + size) % LIMIT_OUTPUT_TAIL_BYTES;
}

void output_add(struct output *output, unsigned stream, const char *bytes, size_t size)
{
    if (size == 0) {
        return;
    }
    if (output->last_stream != (int)stream) {
        const char mark[2] = {MARK, stream ? MARK_STDERR : MARK_STDOUT};
        output->last_stream = (int)stream;
        keep(output, mark, sizeof mark);
    }
    output->total += size;
    output->stream_bytes[stream] += size;
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
    bool escape;       /* inside of a terminal sequence */
    bool returned;     /* a carriage return stands before what comes */
    int failure;
};

static void put(struct cleaner *cleaner, const char *bytes, size_t size)
{
    int r = buf_append(cleaner->text, bytes, size);
    cleaner->failure = cleaner->failure ? cleaner->failure : r;
}

/* A line that is longer than a host shows keeps its beginning and its end. */
static void end_line(struct cleaner *cleaner)
{
    struct buf *text = cleaner->text;
    size_t size = buf_size(text) - cleaner->line_start;
    if (size > LINE_MAX_BYTES) {
        static const char cut[] = " … ";
        char end[LINE_MAX_BYTES / 2];
        memcpy(end, text->data + text->end - sizeof end, sizeof end);
        text->end -= size - LINE_MAX_BYTES / 2;
        put(cleaner, cut, sizeof cut - 1);
        put(cleaner, end, sizeof end);
    }
    put(cleaner, "\n", 1);
    cleaner->line_start = buf_size(text);
}

static void mark_stream(struct cleaner *cleaner, char stream)
{
    if (!cleaner->marks) {
        return;
    }
    bool first = buf_size(cleaner->text) == 0;
    if (stream == MARK_STDOUT && first) {
        return;
    }
    if (buf_size(cleaner->text) > cleaner->line_start) {
        end_line(cleaner);
    }
    const char *name = stream == MARK_STDERR ? "[stderr]\n" : "[stdout]\n";
    put(cleaner, name, strlen(name));
    cleaner->line_start = buf_size(cleaner->text);
}

static void clean_byte(struct cleaner *cleaner, char c)
{
    if (cleaner->returned && c != '\n') {
        /* What follows overwrites the line, as a progress bar does. */
        cleaner->text->end = cleaner->text->start + cleaner->line_start;
    }
    cleaner->returned = false;
    if (c == '\r') {
        cleaner->returned = true;
    } else if (c == '\n') {
        end_line(cleaner);
    } else if (c == '\b') {
        if (buf_size(cleaner->text) > cleaner->line_start) {
            cleaner->text->end--;
        }
    } else if ((unsigned char)c >= ' ' || c == '\t') {
        put(cleaner, &c, 1);
    }
}

/* Length of the terminal sequence at bytes, which starts with ESC: CSI up to its final byte, OSC up
 * to BEL or ESC, else two bytes (ECMA-48). */
static size_t escape_length(const char *bytes, size_t size)
{
    size_t at = 2;
    if (size < 2) {
        return size;
    }
    if (bytes[1] == '[') {
        while (at < size && (bytes[at] < '@' || bytes[at] > '~')) {
            at++;
        }
        return at < size ? at + 1 : size;
    }
    if (bytes[1] == ']') {
        while (at < size && bytes[at] != '\a' && bytes[at] != '\033') {
            at++;
        }
        return at < size ? at + 1 : size;
    }
    return 2;
}

static void clean(struct cleaner *cleaner, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size;) {
        if (bytes[i] == MARK) {
            if (i + 1 < size) {
                mark_stream(cleaner, bytes[i + 1]);
            }
            i += 2;
        } else if (bytes[i] == '\033') {
            i += escape_length(bytes + i, size - i);
        } else {
            size_t plain = i;
            while (!cleaner->returned && plain < size &&
                   ((unsigned char)bytes[plain] >= ' ' || bytes[plain] == '\t')) {
                plain++;
            }
            if (plain > i) {
                put(cleaner, bytes + i, plain - i);
                i = plain;
            } else {
                clean_byte(cleaner, bytes[i++]);
            }
        }
    }
}

/* The tail's bytes in order; *ret_size of them. NULL when there is no memory. */
static char *tail_bytes(const struct output *output, size_t *ret_size)
{
    uint64_t beyond = output->kept_total - output->head_size;
    size_t size = beyond < LIMIT_OUTPUT_TAIL_BYTES ? (size_t)beyond : LIMIT_OUTPUT_TAIL_BYTES;
    char *bytes = malloc(size + 1);
    if (bytes) {
        size_t start = beyond < LIMIT_OUTPUT_TAIL_BYTES ? 0 : output->tail_at;
        size_t part = LIMIT_OUTPUT_TAIL_BYTES - start;
        part = part < size ? part : size;
        memcpy(bytes, output->tail + start, part);
        memcpy(bytes + part, output->tail, size - part);
        *ret_size = size;
    }
    return bytes;
}

int output_compose(const struct output *output, struct buf *text)
{
    struct cleaner cleaner = {.text = text,
                              .line_start = buf_size(text),
                              .marks = output->stream_bytes[0] && output->stream_bytes[1]};
    clean(&cleaner, output->head, output->head_size);
    if (output->tail) {
        size_t size = 0;
        defer_free char *tail = tail_bytes(output, &size);
        if (!tail) {
            return -ENOMEM;
        }
        uint64_t omitted = output->kept_total - output->head_size - size;
        size_t skip = 0;
        if (omitted > 0) {
            /* Both cuts at a line's end where one is near, else at a character's. */
            const char *newline = memchr(tail, '\n', size < 400 ? size : 400);
            skip = newline ? (size_t)(newline - tail) + 1 : 0;
            while (skip < size && ((unsigned char)tail[skip] & 0xc0) == 0x80) {
                skip++;
            }
            omitted += skip;
            end_line(&cleaner);
            int r = buf_appendf(text, "… %llu bytes omitted …\n", (unsigned long long)omitted);
            cleaner.failure = cleaner.failure ? cleaner.failure : r;
            cleaner.line_start = buf_size(text);
        }
        clean(&cleaner, tail + skip, size - skip);
    }
    if (buf_size(text) > cleaner.line_start) {
        end_line(&cleaner);
    }
    return cleaner.failure;
}
