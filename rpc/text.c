#include "rpc/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/word.h"

static json_t *text_repaired(const char *bytes, size_t size)
{
    OWNED(buf_done) struct buf out = BUF_EMPTY;
    const char *p = bytes;
    const char *end = p + size;
    const char *from = p; /* not yet copied */
    while (p < end) {
        int n = utf8_size(p, (size_t)(end - p));
        if (n > 0) {
            p += n;
            continue;
        }
        buf_append(&out, from, (size_t)(p - from));
        buf_append_text(&out, "\xEF\xBF\xBD");
        p -= n;
        from = p;
    }
    buf_append(&out, from, (size_t)(p - from));
    return buf_error(&out) ? NULL : json_stringn_nocheck(buf_bytes(&out), buf_size(&out));
}

json_t *rpc_text(const char *bytes, size_t size)
{
    if (size == 0) {
        return json_string("");
    }
    json_t *text = json_stringn(bytes, size); /* checks; the usual case costs one pass */
    return text ? text : text_repaired(bytes, size);
}

const char *rpc_text_plain(const json_t *value)
{
    const char *text = json_string_value(value);
    return text && strlen(text) == json_string_length(value) ? text : NULL;
}

enum { ESCAPE_CHARACTERS = 6 }; /* \u0000 */

/* Whether an escape by number is half of a surrogate pair: the one with those third digits. */
static bool is_half(const char *escape, const char *end, const char *digits)
{
    return end - escape >= ESCAPE_CHARACTERS && escape[0] == '\\' && escape[1] == 'u' &&
           (escape[2] | ' ') == 'd' && escape[3] && strchr(digits, escape[3]);
}

/* Writes four digits over each half of a surrogate pair that is alone. Returns whether there was
 * one. */
static bool replace_halves(char *at, const char *end, const char *digits)
{
    static const char high[] = "89abAB";
    static const char low[] = "cdefCDEF";
    bool any = false;
    while (end - at > 1 && (at = memchr(at, '\\', (size_t)(end - at) - 1))) {
        bool is_high = is_half(at, end, high);
        if (is_high && is_half(at + ESCAPE_CHARACTERS, end, low)) {
            at += ESCAPE_CHARACTERS;
        } else if (is_high || is_half(at, end, low)) {
            memcpy(at + 2, digits, 4);
            any = true;
        }
        at += 2;
    }
    return any;
}

static const char mark[] = "\xEF\xB7\x90"; /* U+FDD0, which is no character */
static const char replacement[] = "\xEF\xBF\xBD";

json_t *rpc_text_load(const char *bytes, size_t size, json_error_t *error)
{
    bool marked = false;
    json_t *value = rpc_text_load_marked(bytes, size, error, &marked);
    if (marked) {
        (void)rpc_text_unmark(value, NULL);
    }
    return value;
}

json_t *rpc_text_load_marked(const char *bytes, size_t size, json_error_t *error, bool *ret_marked)
{
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL;
    json_t *value = json_loadb(bytes, size, flags, error);
    OWNED(buf_done) struct buf copy = BUF_EMPTY;
    char *text = NULL;
    if (!value && size > 0 && buf_reserve(&copy, size, &text) == 0) {
        memcpy(text, bytes, size);
        *ret_marked = replace_halves(text, text + size, "FDD0");
        value = *ret_marked ? json_loadb(text, size, flags, error) : NULL;
    }
    return value;
}

static size_t unmark_string(json_t *value)
{
    size_t count = 0;
    size_t size = json_string_length(value);
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    char *at = NULL;
    if (buf_reserve(&text, size + 1, &at) < 0) {
        return 0;
    }
    memcpy(at, json_string_value(value), size);
    for (char *end = at + size; (at = memmem(at, (size_t)(end - at), mark, sizeof mark - 1));) {
        memcpy(at, replacement, sizeof mark - 1);
        count++;
    }
    if (count > 0) {
        buf_commit(&text, size);
        (void)json_string_setn_nocheck(value, buf_bytes(&text), size);
    }
    return count;
}

size_t rpc_text_unmark(json_t *value, const json_t *but)
{
    size_t count = 0;
    size_t i = 0;
    const char *key = NULL;
    json_t *item = NULL;
    json_object_foreach (value, key, item) {
        count += item == but ? 0 : rpc_text_unmark(item, but);
    }
    json_array_foreach (value, i, item) {
        count += rpc_text_unmark(item, but);
    }
    return json_is_string(value) ? unmark_string(value) : count;
}

bool rpc_text_fits(const char *bytes, size_t size, unsigned depth)
{
    return scan_size((struct span){bytes, size}, depth, LIMIT_JSON_VALUES) == SCAN_FITS;
}

json_t *rpc_text_value(const char *bytes, size_t size, unsigned depth)
{
    return rpc_text_fits(bytes, size, depth) ? rpc_text_load(bytes, size, NULL) : NULL;
}

struct dump {
    struct buf *out;
    bool shown; /* to people or to a model, not only to a parser */
};

/* Whether a whole character must be escaped although JSON allows it: line readers of other clients
 * split at these, and terminals obey some. */
static bool is_unsafe(const struct dump *dump, uint32_t code)
{
    return (code >= 0x7F && code <= 0x9F) || code == 0x2028 || code == 0x2029 ||
           (dump->shown && word_is_unseen(code));
}

static int append_escape(struct buf *out, uint32_t code)
{
    return code < 0x10000
               ? buf_appendf(out, "\\u%04X", (unsigned)code)
               : buf_appendf(out, "\\u%04X\\u%04X", (unsigned)(0xD800 + ((code - 0x10000) >> 10)),
                             (unsigned)(0xDC00 + (code & 0x3FF)));
}

size_t rpc_text_fitting(const char *bytes, size_t size, size_t *characters)
{
    static const struct dump shown = {.shown = true};
    size_t at = 0;
    while (at < size) {
        int n = utf8_size(bytes + at, size - at);
        uint32_t code = n > 0 ? utf8_code(bytes + at, n) : 0xFFFD;
        bool control = code < ' ' && !(code && strchr("\b\t\n\f\r", (int)code));
        bool escaped = control || (code >= 0x7F && is_unsafe(&shown, code));
        size_t escapes = escaped ? 1 + (code >= 0x10000) : 0;
        size_t cost = escapes ? escapes * ESCAPE_CHARACTERS : 1;
        if (cost > *characters) {
            break;
        }
        *characters -= cost;
        at += (size_t)(n < 0 ? -n : n);
    }
    return at;
}

/* jansson hands over whole characters: it cuts only where it escapes one. */
static int dump_chunk(const char *bytes, size_t size, void *arg)
{
    const struct dump *dump = arg;
    const char *p = bytes;
    const char *end = p + size;
    const char *from = p; /* not yet copied */
    while (p < end) {
        if ((unsigned char)*p < 0x7F) {
            p++;
            continue;
        }
        int n = utf8_size(p, (size_t)(end - p));
        uint32_t code = n > 0 ? utf8_code(p, n) : 0;
        if (n > 0 && is_unsafe(dump, code)) {
            if (buf_append(dump->out, from, (size_t)(p - from)) < 0 ||
                append_escape(dump->out, code) < 0) {
                return -1;
            }
            from = p + n;
        }
        p += n > 0 ? n : -n;
    }
    return buf_append(dump->out, from, (size_t)(p - from));
}

static int dump_value(struct dump dump, const json_t *value)
{
    size_t before = buf_size(dump.out);
    if (json_dump_callback(value, dump_chunk, &dump, JSON_COMPACT | JSON_ENCODE_ANY) < 0) {
        buf_cut(dump.out, before);
        dump.out->error = -ENOMEM;
    }
    return buf_error(dump.out);
}

int rpc_text_dump(struct buf *buf, const json_t *value)
{
    return dump_value((struct dump){buf, false}, value);
}

int rpc_text_show(struct buf *buf, const json_t *value)
{
    return dump_value((struct dump){buf, true}, value);
}

const char *rpc_text_time(uint64_t ms, char out[RPC_TIME_BYTES])
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm utc = {};
    size_t used =
        gmtime_r(&seconds, &utc) ? strftime(out, RPC_TIME_BYTES, "%Y-%m-%dT%H:%M:%S", &utc) : 0;
    (void)snprintf(out + used, RPC_TIME_BYTES - used, ".%03uZ", (unsigned)(ms % 1000));
    return out;
}

/* --- scan --- */

/* at: the opening quote. Returns the byte after the closing one, or end. */
static const char *scan_string(const char *at, const char *end)
{
    const char *from = at + 1;
    while (from < end) {
        const char *quote = memchr(from, '"', (size_t)(end - from));
        if (!quote) {
            return end;
        }
        const char *before = quote;
        while (before > at + 1 && before[-1] == '\\') {
            before--;
        }
        if ((quote - before) % 2 == 0) {
            return quote + 1;
        }
        from = quote + 1;
    }
    return end;
}

/* Passes one string, or one byte outside of strings. values: grows with each object, array and
 * comma. */
static const char *scan_step(const char *p, const char *end, unsigned *depth, size_t *values)
{
    switch (*p) {
    case '"':
        return scan_string(p, end);
    case ',':
        ++*values;
        break;
    case '{':
    case '[':
        ++*values;
        ++*depth;
        break;
    case '}':
    case ']':
        *depth -= *depth > 0;
        break;
    default:
        break;
    }
    return p + 1;
}

enum scan_size scan_size(struct span text, unsigned depth_limit, size_t values_limit)
{
    const char *p = text.bytes;
    const char *end = p + text.size;
    unsigned depth = 0;
    size_t values = 0;
    while (p < end && depth <= depth_limit && values <= values_limit) {
        p = scan_step(p, end, &depth, &values);
    }
    return depth > depth_limit ? SCAN_TOO_DEEP : values > values_limit ? SCAN_TOO_MANY : SCAN_FITS;
}

static const char *scan_space(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r')) {
        p++;
    }
    return p;
}

bool scan_member(struct span object, const char *key, struct span *ret_rest)
{
    const char *end = object.bytes + object.size;
    const char *p = scan_space(object.bytes, end);
    size_t size = strlen(key);
    unsigned depth = 0;
    size_t values = 0;
    if (p == end || *p != '{') {
        return false;
    }
    while (p < end) {
        const char *name = p + 1;
        bool own = *p == '"' && depth == 1;
        p = scan_step(p, end, &depth, &values);
        if (!own || (size_t)(p - name) != size + 1 || memcmp(name, key, size) != 0) {
            continue;
        }
        const char *colon = scan_space(p, end);
        if (colon < end && *colon == ':') {
            const char *value = scan_space(colon + 1, end);
            *ret_rest = (struct span){value, (size_t)(end - value)};
            return true;
        }
    }
    return false;
}

bool scan_integer(struct span text, size_t bytes, struct span *ret_integer)
{
    const char *p = text.bytes;
    const char *end = p + text.size;
    unsigned depth = 0;
    size_t values = 0;
    while (p < end) {
        const char *from = p;
        bool is_integer = true;
        while (p < end && *p && strchr("+-.0123456789Ee", *p)) {
            is_integer = is_integer && !strchr(".Ee", *p);
            p++;
        }
        *ret_integer = (struct span){from, (size_t)(p - from)};
        if (is_integer && ret_integer->size > bytes) {
            return true;
        }
        p = p > from ? p : scan_step(p, end, &depth, &values);
    }
    return false;
}

struct span scan_container(struct span text)
{
    const char *end = text.bytes + text.size;
    const char *p = text.bytes;
    unsigned depth = 0;
    size_t values = 0;
    do {
        p = scan_step(p, end, &depth, &values);
    } while (p < end && depth > 0);
    return (struct span){text.bytes, (size_t)(p - text.bytes)};
}

static void outline_pass(struct scan_outline *outline, char byte)
{
    enum { STRING_BYTES = 256 };
    unsigned before = outline->depth;
    bool closes = false;
    if (outline->string_size > 0) {
        outline->string_size++;
        closes = byte == '"' && !outline->escaped;
        outline->escaped = byte == '\\' && !outline->escaped;
    } else if (byte == '"') {
        outline->string_at = outline->size;
        outline->string_size = 1;
    } else if (byte == '{' || byte == '[') {
        outline->depth++;
    } else if (byte == '}' || byte == ']') {
        outline->depth -= before > 0;
    }
    bool own = before + outline->depth > 0 && (before <= 1 || outline->depth <= 1);
    if (outline->string_size > STRING_BYTES) {
        outline->size = outline->string_at;
    } else if (own && outline->size < sizeof outline->text) {
        outline->text[outline->size++] = byte;
    } else if (own) {
        outline->full = true;
    }
    if (closes) {
        outline->string_size = 0;
    }
}

void scan_outline(struct scan_outline *outline, struct span bytes)
{
    for (size_t i = 0; i < bytes.size; i++) {
        outline_pass(outline, bytes.bytes[i]);
    }
}
