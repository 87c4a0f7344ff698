#include "rpc/scan.h"

#include <string.h>

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
