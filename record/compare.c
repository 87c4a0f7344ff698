#include "record/export.h"

#include <regex.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/sha256.h"
#include "record/escape.h"

enum { LINES_SHOWN = 20, LINE_BYTES = 1000 };

/* What differs from run to run. glibc's regexec(3) takes linear time for it. */
static const char varying[] =
    "0x[0-9a-fA-F]{4,16}\\>"                                    /* an address */
    "|\\<[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\\>" /* a UUID */
    "|/tmp[a-z0-9_]{8}\\>"                                      /* of tempfile */
    "|/sandpiper-[0-9a-f]{8}\\>" /* where a sandbox without namespaces has its files */
    "|\\<1[34][0-9]{13}\\>"      /* id() */
    "|\\<([Pp][Ii][Dd]|[Pp]rocess|[Tt]hread)( id)?[ =:-]{1,3}[0-9]+\\>" /* of a process */
    "|\\<[0-9]+:[0-9][0-9]:[0-9][0-9]\\.[0-9]+\\>"                      /* of timedelta */
    "|\\<[0-9]+(\\.[0-9]+)?(e-?[0-9]+)? ?"
    "(ns|us|\xC2\xB5s|\xCE\xBCs|ms|s|secs?|seconds?|min|minutes?)\\>"; /* a duration */
#define VARIED "\xE2\x80\xA6"

/* Appends the text with VARIED for what varies. */
static void append_fixed(struct buf *out, const char *text, size_t size)
{
    static regex_t compiled;
    static bool is_compiled;
    size_t at = 0;
    is_compiled = is_compiled || regcomp(&compiled, varying, REG_EXTENDED) == 0;
    while (is_compiled && at < size) {
        regmatch_t match = {.rm_so = (regoff_t)at, .rm_eo = (regoff_t)size};
        if (regexec(&compiled, text, 1, &match, REG_STARTEND) != 0) {
            break;
        }
        buf_append(out, text + at, (size_t)match.rm_so - at);
        buf_append_text(out, VARIED);
        at = (size_t)match.rm_eo;
    }
    buf_append(out, text + at, size - at);
}

/* --- texts --- */

static size_t line_size(const char *text, size_t size)
{
    const char *end = memchr(text, '\n', size);
    return end ? (size_t)(end - text) + 1 : size;
}

/* Bytes of whole lines at the front that are the same. */
static size_t same_front(const struct buf *one, const struct buf *other)
{
    size_t at = 0;
    size_t most = buf_size(one) < buf_size(other) ? buf_size(one) : buf_size(other);
    size_t line = 0;
    while (at < most && buf_bytes(one)[at] == buf_bytes(other)[at]) {
        line = buf_bytes(one)[at++] == '\n' ? at : line;
    }
    return line;
}

/* The same at the end, of what is behind front bytes. */
static size_t same_back(const struct buf *one, const struct buf *other, size_t front)
{
    size_t at = 0;
    size_t most = (buf_size(one) < buf_size(other) ? buf_size(one) : buf_size(other)) - front;
    size_t line = 0;
    while (at < most &&
           buf_bytes(one)[buf_size(one) - at - 1] == buf_bytes(other)[buf_size(other) - at - 1]) {
        bool starts = buf_bytes(one)[buf_size(one) - at - 1] == '\n';
        line = starts ? at : line; /* the newline belongs to the line before */
        at++;
    }
    return line;
}

static void append_lines(struct buf *out, const char *sign, const char *text, size_t size)
{
    unsigned shown = 0;
    while (size > 0 && shown++ < LINES_SHOWN) {
        size_t line = line_size(text, size);
        size_t shown_size = line - (text[line - 1] == '\n');
        buf_appendf(out, "    %s ", sign);
        record_escape_line(out, text, shown_size < LINE_BYTES ? shown_size : LINE_BYTES);
        buf_append_text(out, shown_size > LINE_BYTES ? " [cut]\n" : "\n");
        text += line;
        size -= line;
    }
    if (size > 0) {
        buf_appendf(out, "    %s [%zu bytes more]\n", sign, size);
    }
}

/* Appends one part of a result. */
typedef void (*append_fn)(const json_t *result, const char *name, struct buf *out);

static bool same_part(const char *name, append_fn append, const json_t *was, const json_t *now,
                      struct buf *out)
{
    const json_t *const results[] = {was, now};
    OWNED(buf_done) struct buf one = BUF_EMPTY;
    OWNED(buf_done) struct buf other = BUF_EMPTY;
    for (unsigned i = 0; i < 2; i++) {
        OWNED(buf_done) struct buf text = BUF_EMPTY;
        append(results[i], name, &text);
        append_fixed(i ? &other : &one, buf_text(&text), buf_size(&text));
    }
    if (buf_size(&one) == buf_size(&other) &&
        (buf_size(&one) == 0 || memcmp(buf_bytes(&one), buf_bytes(&other), buf_size(&one)) == 0)) {
        return true;
    }
    size_t front = same_front(&one, &other);
    size_t back = same_back(&one, &other, front);
    buf_appendf(out, "    %s:\n", name);
    append_lines(out, "-", buf_bytes(&one) + front, buf_size(&one) - front - back);
    append_lines(out, "+", buf_bytes(&other) + front, buf_size(&other) - front - back);
    return false;
}

static void append_member(const json_t *result, const char *name, struct buf *out)
{
    buf_append(out, record_text(result, name), json_string_length(json_object_get(result, name)));
}

/* "crashed, signal 6" */
static void append_outcome(const json_t *result, const char *, struct buf *out)
{
    static const char *const numbers[] = {"exit_code", "signal"};
    buf_append_text(out, record_text(result, "outcome"));
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (json_object_get(result, numbers[i])) {
            buf_appendf(out, ", %s %lld", numbers[i],
                        (long long)record_number(result, numbers[i], 0));
        }
    }
}

/* --- output --- */

static const char *hash_of(const json_t *result, char out[SHA256_TEXT])
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    const char *hash = record_text(result, "output_sha256");
    if (hash[0]) {
        return hash;
    }
    record_join_output(result, /* stream= */ NULL, &text);
    return sha256_of(buf_bytes(&text), buf_size(&text), out);
}

/* Where the record has only a part of the output, or none, its hash decides. */
static bool same_output(const json_t *was, const json_t *now, struct buf *out)
{
    char one[SHA256_TEXT];
    char other[SHA256_TEXT];
    if (!json_object_get(was, "output_sha256")) {
        bool same = same_part("stdout", record_join_output, was, now, out);
        return same_part("stderr", record_join_output, was, now, out) && same;
    }
    if (strcmp(hash_of(was, one), hash_of(now, other)) == 0) {
        return true;
    }
    buf_append_text(out, "    output: another hash; the record does not have all of it\n");
    return false;
}

/* --- figures --- */

static bool same_image(const json_t *was, const json_t *now, record_pixels_fn pixels, void *arg)
{
    char hash[SHA256_TEXT];
    const char *one = json_string_value(json_object_get(was, "data"));
    const char *other = record_text(now, "data");
    if (!one) {
        return strcmp(record_text(was, "base64_sha256"), sha256_of(other, strlen(other), hash)) ==
               0;
    }
    return strcmp(one, other) == 0 || pixels(arg, one, other);
}

static bool same_images(const json_t *was, const json_t *now, record_pixels_fn pixels, void *arg,
                        struct buf *out)
{
    const json_t *one = json_object_get(was, "images");
    const json_t *other = json_object_get(now, "images");
    bool same = json_array_size(one) == json_array_size(other);
    if (!same) {
        buf_appendf(out, "    figures:\n    - %zu\n    + %zu\n", json_array_size(one),
                    json_array_size(other));
    }
    for (size_t i = 0; i < json_array_size(one) && i < json_array_size(other); i++) {
        if (!same_image(json_array_get(one, i), json_array_get(other, i), pixels, arg)) {
            buf_appendf(out, "    figure %zu: other pixels\n", i + 1);
            same = false;
        }
    }
    return same;
}

bool record_compare(const json_t *was, const json_t *now, record_pixels_fn pixels, void *arg,
                    struct buf *out)
{
    bool same = same_part("outcome", append_outcome, was, now, out);
    same = same_output(was, now, out) && same;
    same = same_part("value", append_member, was, now, out) && same;
    same = same_part("traceback", append_member, was, now, out) && same;
    return same_images(was, now, pixels, arg, out) && same;
}
