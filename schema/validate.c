#include <regex.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "schema/keyword.h"
#include "schema/near.h"
#include "schema/schema.h"

enum { PREVIEW_BYTES = 40, SENTENCE_BYTES = 120 };

/* Where the check stands: the value at pointer is being looked at. */
struct check {
    struct schema_violation *violations;
    size_t max;
    size_t count;
    char pointer[sizeof((struct schema_violation *)0)->pointer];
};

__attribute__((format(printf, 2, 3))) static void violation_add(struct check *check,
                                                                const char *fmt, ...)
{
    if (check->count < check->max) {
        struct schema_violation *violation = &check->violations[check->count];
        va_list args;
        memcpy(violation->pointer, check->pointer, sizeof violation->pointer);
        va_start(args, fmt);
        (void)vsnprintf(violation->text, sizeof violation->text, fmt, args);
        va_end(args);
    }
    check->count++;
}

/* Appends "/token" with RFC 6901 escapes, whole characters only. Returns the length to go back to
 * with pointer_pop(). */
static size_t pointer_push(struct check *check, const char *token)
{
    size_t old = strlen(check->pointer);
    size_t at = old;
    size_t room = sizeof check->pointer - 1;
    if (at < room) {
        check->pointer[at++] = '/';
    }
    while (*token) {
        const char *escape = *token == '~' ? "~0" : *token == '/' ? "~1" : NULL;
        size_t size = 1;
        while (((unsigned char)token[size] & 0xC0U) == 0x80U) {
            size++;
        }
        size_t need = escape ? 2 : size;
        if (at + need > room) {
            break;
        }
        memcpy(check->pointer + at, escape ? escape : token, need);
        at += need;
        token += size;
    }
    check->pointer[at] = '\0';
    return old;
}

static void pointer_pop(struct check *check, size_t old)
{
    check->pointer[old] = '\0';
}

/* What was sent, short: 'string "abc"', "number 3", "null". Returns out. */
static const char *preview(const json_t *value, char *out, size_t size)
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
            while (((unsigned char)text[keep] & 0xC0U) == 0x80U) {
                keep--;
            }
        }
        head = json_stringn_nocheck(text, keep);
        value = head;
    }
    char token[6 * PREVIEW_BYTES + 3] = ""; /* each byte at most as \u00XX, and two quotes */
    size_t used = value ? json_dumpb(value, token, sizeof token - 1, JSON_ENCODE_ANY) : 0;
    token[used < sizeof token ? used : 0] = '\0';
    (void)snprintf(out, size, "%s %s%s", name, token, cut ? "…" : "");
    return out;
}

/* "a, b, c" of an array's strings or an object's keys. Returns out. */
static const char *name_list(const json_t *names, char *out, size_t size)
{
    json_t *object = (json_t *)(uintptr_t)names; /* jansson's iterators want no const */
    size_t used = 0;
    const char *key = NULL;
    json_t *item = NULL;
    size_t i = 0;
    out[0] = '\0';
    json_array_foreach (names, i, item) {
        int n = snprintf(out + used, size - used, "%s\"%s\"", used ? ", " : "",
                         json_string_value(item));
        used += n > 0 && (size_t)n < size - used ? (size_t)n : 0;
    }
    json_object_foreach (object, key, item) {
        int n = snprintf(out + used, size - used, "%s%s", used ? ", " : "", key);
        used += n > 0 && (size_t)n < size - used ? (size_t)n : 0;
    }
    return out;
}

static size_t code_points(const json_t *value)
{
    const char *text = json_string_value(value);
    size_t count = 0;
    for (size_t i = 0; i < json_string_length(value); i++) {
        count += ((unsigned char)text[i] & 0xC0U) != 0x80U;
    }
    return count;
}

static bool pattern_matches(const char *pattern, const json_t *value)
{
    regex_t regex;
    if (strlen(json_string_value(value)) != json_string_length(value) ||
        regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB) != 0) {
        return false;
    }
    bool matches = regexec(&regex, json_string_value(value), 0, NULL, 0) == 0;
    regfree(&regex);
    return matches;
}

static bool enum_has(const json_t *options, const json_t *value)
{
    size_t i = 0;
    const json_t *option = NULL;
    json_array_foreach (options, i, option) {
        if (json_equal(option, value)) {
            return true;
        }
    }
    return false;
}

static void check_string(struct check *check, const json_t *schema, const json_t *value)
{
    char got[320];
    const json_t *min = json_object_get(schema, "minLength");
    const json_t *max = json_object_get(schema, "maxLength");
    const char *pattern = json_string_value(json_object_get(schema, "pattern"));
    size_t size = min || max ? code_points(value) : 0;
    if (min && size < (size_t)json_integer_value(min)) {
        violation_add(check, "must have at least %lld characters, got %zu",
                      (long long)json_integer_value(min), size);
    }
    if (max && size > (size_t)json_integer_value(max)) {
        violation_add(check, "must have at most %lld characters, got %zu",
                      (long long)json_integer_value(max), size);
    }
    if (pattern && !pattern_matches(pattern, value)) {
        violation_add(check, "must match %s, got %s", pattern, preview(value, got, sizeof got));
    }
}

static void check_number(struct check *check, const json_t *schema, const json_t *value)
{
    char got[320];
    const json_t *min = json_object_get(schema, "minimum");
    const json_t *max = json_object_get(schema, "maximum");
    if (min && json_number_value(value) < json_number_value(min)) {
        violation_add(check, "must be at least %.15g, got %s", json_number_value(min),
                      preview(value, got, sizeof got));
    }
    if (max && json_number_value(value) > json_number_value(max)) {
        violation_add(check, "must be at most %.15g, got %s", json_number_value(max),
                      preview(value, got, sizeof got));
    }
}

static void check_value(struct check *check, const json_t *schema, const json_t *value);

static void check_array(struct check *check, const json_t *schema, const json_t *value)
{
    const json_t *min = json_object_get(schema, "minItems");
    const json_t *max = json_object_get(schema, "maxItems");
    const json_t *items = json_object_get(schema, "items");
    size_t size = json_array_size(value);
    if (min && size < (size_t)json_integer_value(min)) {
        violation_add(check, "must have at least %lld items, got %zu",
                      (long long)json_integer_value(min), size);
    }
    if (max && size > (size_t)json_integer_value(max)) {
        violation_add(check, "must have at most %lld items, got %zu",
                      (long long)json_integer_value(max), size);
    }
    for (size_t i = 0; items && i < size; i++) {
        char token[24];
        (void)snprintf(token, sizeof token, "%zu", i);
        size_t old = pointer_push(check, token);
        check_value(check, items, json_array_get(value, i));
        pointer_pop(check, old);
    }
}

static void check_missing(struct check *check, const json_t *schema, const json_t *value)
{
    const json_t *properties = json_object_get(schema, "properties");
    size_t i = 0;
    const json_t *name = NULL;
    json_array_foreach (json_object_get(schema, "required"), i, name) {
        const char *key = json_string_value(name);
        const json_t *sent = json_object_get(value, key);
        if (sent && !json_is_null(sent)) {
            continue;
        }
        const json_t *property = json_object_get(properties, key);
        const char *about = json_string_value(json_object_get(property, "description"));
        const char *stop = about ? strstr(about, ". ") : NULL;
        size_t size = stop ? (size_t)(stop - about) : about ? strlen(about) : 0;
        size_t old = pointer_push(check, key);
        violation_add(check, "is required%s; send %s%s%.*s", sent ? ", got null" : " but missing",
                      keyword_type_article(keyword_type(property)), about ? ": " : "",
                      size < SENTENCE_BYTES ? (int)size : SENTENCE_BYTES, about ? about : "");
        pointer_pop(check, old);
    }
}

static void check_unknown(struct check *check, const json_t *properties, const char *key)
{
    char known[160];
    const char *close = near_key(properties, key);
    (void)name_list(properties, known, sizeof known);
    if (close) {
        violation_add(check, "unknown argument, did you mean \"%s\"? Known arguments: %s", close,
                      known);
    } else {
        violation_add(check, "unknown argument. Known arguments: %s", known);
    }
}

static void check_object(struct check *check, const json_t *schema, const json_t *value)
{
    const json_t *properties = json_object_get(schema, "properties");
    json_t *object = (json_t *)(uintptr_t)value; /* jansson's iterators want no const */
    const char *key = NULL;
    json_t *member = NULL;
    check_missing(check, schema, value);
    json_object_foreach (object, key, member) {
        const json_t *property = json_object_get(properties, key);
        size_t old = pointer_push(check, key);
        if (property && !json_is_null(member)) {
            check_value(check, property, member);
        } else if (!property && json_is_false(json_object_get(schema, "additionalProperties"))) {
            check_unknown(check, properties, key);
        }
        pointer_pop(check, old);
    }
}

static void check_value(struct check *check, const json_t *schema, const json_t *value)
{
    char text[320];
    enum keyword_type type = keyword_type(schema);
    const json_t *options = json_object_get(schema, "enum");
    if (!keyword_type_matches(type, value)) {
        violation_add(check, "must be %s, got %s", keyword_type_article(type),
                      preview(value, text, sizeof text));
        return;
    }
    if (options && !enum_has(options, value)) {
        char known[160];
        violation_add(check, "must be one of %s, got %s", name_list(options, known, sizeof known),
                      preview(value, text, sizeof text));
        return;
    }
    if (json_is_string(value)) {
        check_string(check, schema, value);
    } else if (json_is_number(value)) {
        check_number(check, schema, value);
    } else if (json_is_array(value)) {
        check_array(check, schema, value);
    } else if (json_is_object(value)) {
        check_object(check, schema, value);
    }
}

size_t schema_validate(const json_t *schema, const json_t *value,
                       struct schema_violation *violations, size_t max)
{
    struct check check = {.violations = violations, .max = max};
    check_value(&check, schema, value);
    return check.count;
}
