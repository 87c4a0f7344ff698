#include "schema/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "base/word.h"

enum { PREVIEW_BYTES = 40, WORK_MAX = 2000000, VIOLATION_WORK = 32 };

void check_fail(struct check *check, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    if (check->count < check->max) {
        struct schema_violation *violation = &check->violations[check->count];
        memcpy(violation->pointer, check->pointer, sizeof violation->pointer);
        (void)vsnprintf(violation->text, sizeof violation->text, fmt, args);
    }
    va_end(args);
    check->count++;
    check->work += VIOLATION_WORK;
}

bool check_work(struct check *check, size_t units)
{
    if (check->work > WORK_MAX) {
        return false;
    }
    check->work += units;
    if (check->work > WORK_MAX) {
        check_fail(check, "is too much to check from here on; send fewer or shorter values");
    }
    return check->work <= WORK_MAX;
}

size_t check_enter(struct check *check, const char *token)
{
    size_t old = strlen(check->pointer);
    size_t at = old;
    size_t space = sizeof check->pointer - 1;
    if (at < space) {
        check->pointer[at++] = '/';
    }
    while (*token) {
        const char *escape = *token == '~' ? "~0" : *token == '/' ? "~1" : NULL;
        size_t size = 1;
        while (utf8_is_inner(token[size])) {
            size++;
        }
        size_t need = escape ? 2 : size;
        if (at + need > space) {
            break;
        }
        memcpy(check->pointer + at, escape ? escape : token, need);
        at += need;
        token += size;
    }
    check->pointer[at] = '\0';
    return old;
}

void check_leave(struct check *check, size_t old)
{
    check->pointer[old] = '\0';
}

const char *check_preview(const json_t *value, char *out, size_t size)
{
    static const char *const names[] = {"object", "array",   "string",  "number",
                                        "number", "boolean", "boolean", "null"};
    const char *name = names[json_typeof(value)];
    if (json_is_object(value) || json_is_array(value) || json_is_null(value)) {
        (void)snprintf(out, size, json_is_null(value) ? "%s" : "an %s", name);
        return out;
    }
    json_auto_t *head = NULL;
    bool cut = false;
    if (json_is_string(value)) {
        size_t keep = json_string_length(value);
        const char *text = json_string_value(value);
        cut = keep > PREVIEW_BYTES;
        if (cut) {
            keep = PREVIEW_BYTES;
            while (utf8_is_inner(text[keep])) {
                keep--;
            }
        }
        head = json_stringn_nocheck(text, keep);
        value = head;
    }
    char token[6 * PREVIEW_BYTES + 3] = ""; /* each byte at most as \u00XX, and two quotes */
    size_t used = value ? json_dumpb(value, token, sizeof token - 1, JSON_ENCODE_ANY) : 0;
    token[used < sizeof token ? used : 0] = '\0';
    char shown[sizeof token];
    (void)snprintf(out, size, "%s %s%s", name, word_line(token, shown, sizeof shown),
                   cut ? "…" : "");
    return out;
}
