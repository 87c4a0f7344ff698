#include "base/parse.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

int parse_digits(const char *text, uint64_t *ret_value, const char **ret_rest)
{
    uint64_t value = 0;
    const char *p = text;
    for (; parse_is_digit(*p); p++) {
        if (__builtin_mul_overflow(value, UINT64_C(10), &value) ||
            __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value)) {
            return -ERANGE;
        }
    }
    if (p == text) {
        return -EINVAL;
    }
    *ret_value = value;
    *ret_rest = p;
    return 0;
}

/* Decodes in place the three octal digits that stand for blanks, line ends and backslashes. */
static char *decode_octal(char *text)
{
    char *to = text;
    for (const char *from = text; *from; to++) {
        if (from[0] == '\\' && from[1] && from[2] && from[3]) {
            *to = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'));
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
    return text;
}

bool parse_mount(char **at, struct parsed_mount *ret_mount)
{
    enum { DEVICE = 2, ROOT, POINT, FIELDS };
    enum { TYPE, SOURCE, OPTIONS, MORE_FIELDS };
    static char none[] = "";
    for (char *line = NULL; (line = strsep(at, "\n"));) {
        char *fields[FIELDS] = {};
        char *more[MORE_FIELDS] = {};
        char *rest = strstr(line, " - ");
        if (rest) {
            *rest = '\0';
            rest += strlen(" - ");
        }
        for (unsigned i = 0; i < FIELDS; i++) {
            fields[i] = strsep(&line, " ");
        }
        for (unsigned i = 0; i < MORE_FIELDS; i++) {
            more[i] = strsep(&rest, " ");
        }
        if (fields[POINT]) {
            *ret_mount = (struct parsed_mount){
                fields[DEVICE], decode_octal(fields[ROOT]), decode_octal(fields[POINT]),
                more[TYPE] ? more[TYPE] : none, more[OPTIONS] ? more[OPTIONS] : none};
            return true;
        }
    }
    return false;
}

bool parse_is_among(const char *text, const char *const *words)
{
    while (*words && strcmp(*words, text) != 0) {
        words++;
    }
    return *words != NULL;
}

uint64_t parse_field(const char *text, const char *name, uint64_t missing)
{
    uint64_t value = missing;
    const char *at = strstr(text, name);
    while (at && at != text && at[-1] != '\n') {
        at = strstr(at + 1, name);
    }
    if (at) {
        at += strlen(name);
        (void)parse_digits(at + strspn(at, " \t"), &value, &at);
    }
    return value;
}

int parse_u64(const char *text, uint64_t *ret_value)
{
    uint64_t value = 0;
    const char *rest = NULL;
    int r = parse_digits(text, &value, &rest);
    if (r == 0 && !*rest) {
        *ret_value = value;
    }
    return r == 0 && *rest ? -EINVAL : r;
}

int parse_size(const char *text, uint64_t *ret_bytes)
{
    static const char units[] = "KMGT";
    uint64_t value = 0;
    const char *rest = NULL;
    int r = parse_digits(text, &value, &rest);
    if (r < 0) {
        return r;
    }
    if (*rest) {
        const char *unit = strchr(units, *rest & ~0x20); /* either case */
        if (!unit || !*unit) {
            return -EINVAL;
        }
        rest++;
        if (strcmp(rest, "") != 0 && strcmp(rest, "B") != 0 && strcmp(rest, "b") != 0 &&
            strcmp(rest, "iB") != 0 && strcmp(rest, "i") != 0) {
            return -EINVAL;
        }
        unsigned shift = 10U * (unsigned)(unit - units + 1);
        if (value > UINT64_MAX >> shift) {
            return -ERANGE;
        }
        value <<= shift;
    }
    *ret_bytes = value;
    return 0;
}

/* Parses a number with up to three decimals, times 1000. unit may follow it. */
static int parse_thousandths(const char *text, const char *unit, uint64_t *ret_value)
{
    uint64_t value = 0;
    const char *rest = NULL;
    int r = parse_digits(text, &value, &rest);
    if (r < 0) {
        return r;
    }
    if (__builtin_mul_overflow(value, UINT64_C(1000), &value)) {
        return -ERANGE;
    }
    if (*rest == '.') {
        uint64_t scale = 100;
        rest++;
        if (*rest < '0' || *rest > '9') {
            return -EINVAL;
        }
        for (; parse_is_digit(*rest); rest++, scale /= 10) {
            if (scale == 0) {
                return -EINVAL;
            }
            if (__builtin_add_overflow(value, (uint64_t)(*rest - '0') * scale, &value)) {
                return -ERANGE;
            }
        }
    }
    if (*rest && strcmp(rest, unit) != 0) {
        return -EINVAL;
    }
    *ret_value = value;
    return 0;
}

int parse_seconds(const char *text, uint64_t *ret_ms)
{
    return parse_thousandths(text, "s", ret_ms);
}

int parse_milli(const char *text, uint64_t *ret_milli)
{
    return parse_thousandths(text, "", ret_milli);
}

int parse_hex_digit(char c)
{
    return parse_is_digit(c)      ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

ssize_t parse_percent(const char *text, size_t size, char *out, size_t out_size)
{
    size_t length = 0;
    for (size_t i = 0; i < size; i++) {
        int value = (unsigned char)text[i];
        if (value == '%') {
            int high = size - i > 2 ? parse_hex_digit(text[i + 1]) : -1;
            int low = high < 0 ? -1 : parse_hex_digit(text[i + 2]);
            value = low < 0 ? 0 : high << 4 | low;
            i += 2;
        }
        if (value == 0 || length + 1 >= out_size) {
            return -1;
        }
        out[length++] = (char)value;
    }
    out[length] = '\0';
    return (ssize_t)length;
}
