#include "rpc/scan.h"

#include <errno.h>
#include <string.h>

enum { SCAN_SAFE_DIGITS = 18 }; /* any number of so many digits fits int64_t */

/* at: the opening quote. Returns what follows the closing one, or end. */
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

bool scan_depth_within(struct span text, unsigned max)
{
    const char *end = text.bytes + text.size;
    unsigned depth = 0;
    for (const char *p = text.bytes; p < end;) {
        switch (*p) {
        case '"':
            p = scan_string(p, end);
            continue;
        case '{':
        case '[':
            if (++depth > max) {
                return false;
            }
            break;
        case '}':
        case ']':
            depth -= depth > 0;
            break;
        default:
            break;
        }
        p++;
    }
    return true;
}

static const char *scan_space(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r')) {
        p++;
    }
    return p;
}

static bool scan_ends_scalar(char c)
{
    switch (c) {
    case ',':
    case ':':
    case '[':
    case ']':
    case '{':
    case '}':
    case '"':
    case ' ':
    case '\t':
    case '\n':
    case '\r':
        return true;
    default:
        return false;
    }
}

/* Returns what follows the value at p; at least one byte is passed unless p is end. */
static const char *scan_value(const char *p, const char *end)
{
    size_t depth = 0;
    while (p < end) {
        if (*p == '"') {
            p = scan_string(p, end);
        } else if (*p == '{' || *p == '[') {
            depth++;
            p++;
            continue;
        } else if (*p == '}' || *p == ']') {
            depth -= depth > 0;
            p++;
        } else if (*p == ',' || *p == ':' || *p == ' ' || *p == '\t' || *p == '\n' || *p == '\r') {
            p++;
            continue;
        } else {
            while (p < end && !scan_ends_scalar(*p)) {
                p++;
            }
        }
        if (depth == 0) {
            return p;
        }
    }
    return end;
}

/* Steps over "," or the opening bracket and white space. False when no further item follows. */
static bool scan_item(const char **p, const char *end, char opening, bool first)
{
    const char *at = scan_space(*p, end);
    if (at == end || *at != (first ? opening : ',')) {
        return false;
    }
    *p = scan_space(at + 1, end);
    return *p < end;
}

bool scan_member(struct span object, const char *key, struct span *ret_value)
{
    const char *p = object.bytes;
    const char *end = p + object.size;
    size_t size = strlen(key);
    for (bool first = true; scan_item(&p, end, '{', first); first = false) {
        if (*p != '"') {
            return false;
        }
        const char *name = p + 1;
        p = scan_string(p, end);
        bool found = (size_t)(p - name) == size + 1 && memcmp(name, key, size) == 0;
        p = scan_space(p, end);
        if (p == end || *p != ':') {
            return false;
        }
        const char *value = scan_space(p + 1, end);
        p = scan_value(value, end);
        if (found) {
            *ret_value = (struct span){value, (size_t)(p - value)};
            return true;
        }
    }
    return false;
}

bool scan_next(struct span array, const char **at, struct span *ret_value)
{
    const char *end = array.bytes + array.size;
    const char *p = *at ? *at : array.bytes;
    if (!scan_item(&p, end, '[', *at == NULL)) {
        return false;
    }
    *at = scan_value(p, end);
    *ret_value = (struct span){p, (size_t)(*at - p)};
    return true;
}

bool scan_is_integer(struct span text)
{
    size_t sign = text.size > 0 && text.bytes[0] == '-';
    for (size_t i = sign; i < text.size; i++) {
        if (text.bytes[i] < '0' || text.bytes[i] > '9') {
            return false;
        }
    }
    return text.size > sign;
}

int scan_widen(struct span text, struct buf *out)
{
    const char *end = text.bytes + text.size;
    const char *from = text.bytes; /* not yet copied */
    for (const char *p = from; p < end;) {
        if (*p == '"') {
            p = scan_string(p, end);
            continue;
        }
        if (*p != '-' && (*p < '0' || *p > '9')) {
            p++;
            continue;
        }
        const char *number = p;
        p = scan_value(p, end);
        struct span token = {number, (size_t)(p - number)};
        if (token.size > SCAN_SAFE_DIGITS && scan_is_integer(token)) {
            if (buf_append(out, from, (size_t)(p - from)) < 0 || buf_append(out, ".0", 2) < 0) {
                return -ENOMEM;
            }
            from = p;
        }
    }
    return buf_append(out, from, (size_t)(end - from));
}
