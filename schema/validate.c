#include <regex.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "base/word.h"
#include "schema/keyword.h"
#include "schema/schema.h"

/* --- what is taken for what the schema has --- */

/* Doubles at and beyond this have no exact 64-bit integer; 2^63. */
#define COERCE_REAL_MAX 9223372036854775808.0

enum {
    SCALAR_BYTES = 32, /* of a string that stands for a number */
    REAL_DIGITS = 15,  /* that each double keeps, DBL_DIG */
};

/* New: the largest integers stand for those beyond them. */
static json_t *integer_of(const json_t *value)
{
    double real = json_real_value(value);
    return json_integer(real >= COERCE_REAL_MAX   ? INT64_MAX
                        : real < -COERCE_REAL_MAX ? INT64_MIN
                                                  : (json_int_t)real);
}

/* New: the number or truth value that a string holds as text, as "60" or "True"; else the string
 * itself. NULL when out of memory. */
static json_t *scalar_of(enum keyword_type type, json_t *value)
{
    const char *text = json_string_value(value);
    size_t size = json_string_length(value);
    if (type == KEYWORD_TYPE_BOOLEAN) {
        return strcasecmp(text, "true") == 0    ? json_true()
               : strcasecmp(text, "false") == 0 ? json_false()
                                                : json_incref(value);
    }
    json_t *number = size <= SCALAR_BYTES ? json_loadb(text, size, JSON_DECODE_ANY, NULL) : NULL;
    if (!json_is_number(number)) {
        json_decref(number);
        return json_incref(value);
    }
    return number;
}

/* From 2^53 on each double is a whole number. */
static bool is_whole(double value)
{
    return value <= -0x1p53 || value >= 0x1p53 || (double)(int64_t)value == value;
}

static bool keyword_type_matches(enum keyword_type type, const json_t *value)
{
    switch (type) {
    case KEYWORD_TYPE_ARRAY:
        return json_is_array(value);
    case KEYWORD_TYPE_BOOLEAN:
        return json_is_boolean(value);
    case KEYWORD_TYPE_INTEGER: /* 3.0 is an integer too, JSON Schema 2020-12 section 4.2.3 */
        return json_is_integer(value) || (json_is_real(value) && is_whole(json_real_value(value)));
    case KEYWORD_TYPE_NUMBER:
        return json_is_number(value);
    case KEYWORD_TYPE_OBJECT:
        return json_is_object(value);
    case KEYWORD_TYPE_STRING:
        return json_is_string(value);
    case KEYWORD_TYPE_ANY:
    case KEYWORD_TYPE_COUNT:
        break;
    }
    return true;
}

/* New: the list that a string holds as JSON, as "[\"numpy\"]"; else a list of the value. NULL when
 * out of memory. */
static json_t *list_of(const json_t *items, json_t *value)
{
    const char *text = json_string_value(value);
    json_auto_t *list = text ? json_loadb(text, json_string_length(value), 0, NULL) : NULL;
    size_t i = 0;
    const json_t *item = NULL;
    bool fits = json_is_array(list);
    json_array_foreach (list, i, item) {
        fits = fits && keyword_type_matches(keyword_type(items), item);
    }
    return fits ? take_ptr(list) : json_pack("[O]", value);
}

/* New: the string for a number, as it was sent. NULL when out of memory. */
static json_t *text_of(const json_t *number)
{
    char text[SCALAR_BYTES];
    size_t size =
        json_dumpb(number, text, sizeof text, JSON_ENCODE_ANY | JSON_REAL_PRECISION(REAL_DIGITS));
    return json_stringn(text, size < sizeof text ? size : sizeof text);
}

/* New: one property's value. NULL when out of memory. */
static json_t *coerce_value(const json_t *schema, json_t *value)
{
    enum keyword_type type = keyword_type(schema);
    bool is_number = type == KEYWORD_TYPE_INTEGER || type == KEYWORD_TYPE_NUMBER;
    if (json_is_string(value) && (is_number || type == KEYWORD_TYPE_BOOLEAN)) {
        json_t *scalar = scalar_of(type, value);
        if (!scalar || scalar == value) {
            return scalar;
        }
        json_t *coerced = coerce_value(schema, scalar);
        json_decref(scalar);
        return coerced;
    }
    if (type == KEYWORD_TYPE_INTEGER && json_is_real(value) && keyword_type_matches(type, value)) {
        return integer_of(value);
    }
    if (type == KEYWORD_TYPE_ARRAY && !json_is_array(value)) {
        const json_t *items = json_object_get(schema, "items");
        if (items && keyword_type_matches(keyword_type(items), value)) {
            return list_of(items, value);
        }
    }
    if (type == KEYWORD_TYPE_STRING && json_is_number(value)) {
        return text_of(value);
    }
    if (type == KEYWORD_TYPE_OBJECT) {
        return schema_coerce(schema, value);
    }
    return json_incref(value);
}

/* Sets key in *copy, which is made from value on the first change. 0 or -1. */
static int coerce_replace(json_t **copy, json_t *value, const char *key, json_t *replacement)
{
    if (!*copy) {
        *copy = json_copy(value);
    }
    if (!*copy) {
        return -1;
    }
    return replacement ? json_object_set(*copy, key, replacement) : json_object_del(*copy, key);
}

/* Clients that have to send every property send null, "" or 0 for none. */
static bool is_none(const json_t *property, const json_t *value)
{
    enum keyword_type type = keyword_type(property);
    bool is_text = (type == KEYWORD_TYPE_STRING || type == KEYWORD_TYPE_ANY) &&
                   !json_object_get(property, "enum") && !json_object_get(property, "pattern");
    bool is_zero = (type == KEYWORD_TYPE_INTEGER || type == KEYWORD_TYPE_NUMBER) &&
                   json_is_number(value) && json_number_value(value) == 0 &&
                   json_number_value(json_object_get(property, "minimum")) > 0;
    return json_is_null(value) || is_zero ||
           (!is_text && json_is_string(value) && json_string_length(value) == 0);
}

/* Whether required names key. */
static bool keyword_requires(const json_t *schema, const char *key)
{
    size_t i = 0;
    const json_t *name = NULL;
    json_array_foreach (json_object_get(schema, "required"), i, name) {
        if (strcmp(json_string_value(name), key) == 0) {
            return true;
        }
    }
    return false;
}

json_t *schema_coerce(const json_t *schema, json_t *value)
{
    json_auto_t *copy = NULL;
    const json_t *properties = json_object_get(schema, "properties");
    const char *key = NULL;
    json_t *old = NULL;
    if (!json_is_object(value)) {
        return json_incref(value);
    }
    json_object_foreach (value, key, old) {
        const json_t *property = json_object_get(properties, key);
        if (!property) {
            continue;
        }
        json_auto_t *coerced = coerce_value(property, old);
        bool drop = (is_none(property, old) || (coerced && is_none(property, coerced))) &&
                    !keyword_requires(schema, key);
        json_t *taken = drop ? NULL : coerced;
        if (!coerced || (taken != old && coerce_replace(&copy, value, key, taken) < 0)) {
            return NULL;
        }
    }
    return copy ? take_ptr(copy) : json_incref(value);
}

/* --- the check --- */

static const struct {
    const char *name;
    const char *article;
} types[KEYWORD_TYPE_COUNT] = {
    [KEYWORD_TYPE_ANY] = {"", "any value"},
    [KEYWORD_TYPE_ARRAY] = {"array", "an array"},
    [KEYWORD_TYPE_BOOLEAN] = {"boolean", "true or false"},
    [KEYWORD_TYPE_INTEGER] = {"integer", "an integer"},
    [KEYWORD_TYPE_NUMBER] = {"number", "a number"},
    [KEYWORD_TYPE_OBJECT] = {"object", "an object"},
    [KEYWORD_TYPE_STRING] = {"string", "a string"},
};

enum keyword_type keyword_type(const json_t *schema)
{
    const char *name = json_string_value(json_object_get(schema, "type"));
    for (unsigned i = KEYWORD_TYPE_ANY + 1; name && i < KEYWORD_TYPE_COUNT; i++) {
        if (strcmp(types[i].name, name) == 0) {
            return (enum keyword_type)i;
        }
    }
    return KEYWORD_TYPE_ANY;
}

/* "a string", "an integer", … */
static const char *keyword_type_article(enum keyword_type type)
{
    return types[type].article;
}

enum { NEAR_WORD = 64, NEAR_DISTANCE = 2, NEAR_PART = 3 };

/* Levenshtein distance; both words shorter than NEAR_WORD. */
static unsigned near_distance(const char *a, const char *b)
{
    unsigned row[NEAR_WORD + 1];
    size_t b_size = strlen(b);
    for (unsigned j = 0; j <= b_size; j++) {
        row[j] = j;
    }
    for (unsigned i = 0; a[i]; i++) {
        unsigned diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < b_size; j++) {
            unsigned best = diagonal + (a[i] != b[j]);
            diagonal = row[j + 1];
            best = row[j] + 1 < best ? row[j] + 1 : best;
            best = diagonal + 1 < best ? diagonal + 1 : best;
            row[j + 1] = best;
        }
    }
    return row[b_size];
}

/* Whether one word contains the other, as "file_path" and "path". */
static bool near_part(const char *a, const char *b)
{
    return strlen(a) >= NEAR_PART && strlen(b) >= NEAR_PART &&
           (strcasestr(a, b) || strcasestr(b, a));
}

const char *near_key(const json_t *object, const char *word)
{
    if (strlen(word) >= NEAR_WORD) {
        return NULL;
    }
    const char *best = NULL;
    bool ties = false; /* "text" is as near to old_text as to new_text: it means neither */
    unsigned best_score = NEAR_DISTANCE + 1;
    void *at = json_object_iter((json_t *)(uintptr_t)object);
    for (; at; at = json_object_iter_next((json_t *)(uintptr_t)object, at)) {
        const char *key = json_object_iter_key(at);
        if (strlen(key) >= NEAR_WORD) {
            continue;
        }
        size_t longer =
            strlen(key) > strlen(word) ? strlen(key) - strlen(word) : strlen(word) - strlen(key);
        unsigned score = longer > NEAR_DISTANCE ? NEAR_DISTANCE + 1 : near_distance(word, key);
        if (near_part(word, key) && score > NEAR_DISTANCE) {
            score = NEAR_DISTANCE;
        }
        /* Where more than half of the letters are wrong, the words have nothing in common. */
        if (score < best_score && 2UL * score <= strlen(word)) {
            best = key;
            best_score = score;
            ties = false;
        } else if (score == best_score && near_part(word, key)) {
            ties = true;
        }
    }
    return ties ? NULL : best;
}

/* Where the validation is: it checks the value at pointer. */
struct check {
    struct schema_violation *violations;
    size_t max;
    size_t count;
    size_t work;  /* see check_work() */
    bool foreign; /* the schema is: null is a value */
    bool listed;  /* the known arguments, in an earlier violation */
    char pointer[sizeof((struct schema_violation *)0)->pointer];
};

enum { PREVIEW_BYTES = 40, WORK_MAX = 2000000, VIOLATION_WORK = 32 };

/* Adds one violation at the current pointer. */
__attribute__((format(printf, 2, 3))) static void check_fail(struct check *check, const char *fmt,
                                                             ...)
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

/* Counts units of work, each about as much as one comparison. False: the validation has taken so
 * many that it must end, which is a violation of its own. */
static bool check_work(struct check *check, size_t units)
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

/* Appends "/token" to the pointer with RFC 6901 escapes, whole characters only. Returns what
 * check_leave() needs to go back. */
static size_t check_enter(struct check *check, const char *token)
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

static void check_leave(struct check *check, size_t old)
{
    check->pointer[old] = '\0';
}

/* What the client sent, short: 'string "abc"', "number 3", "null". Returns out. */
static const char *check_preview(const json_t *value, char *out, size_t size)
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

/* Of somebody else's pattern: a match may take memory for each byte. */
enum { FOREIGN_PATTERN_BYTES = 4096 };

/* Appends one of "a, b, c" if it fits whole. */
static void add_name(const char *quote, const char *name, char *out, size_t size)
{
    size_t used = strlen(out);
    int n = snprintf(out + used, size - used, "%s%s%s%s", used ? ", " : "", quote, name, quote);
    if (n < 0 || (size_t)n >= size - used) {
        out[used] = '\0';
    }
}

/* "a, b, c" of an array's strings or an object's keys. Returns out. */
static const char *name_list(const json_t *names, char *out, size_t size)
{
    json_t *object = (json_t *)(uintptr_t)names; /* jansson's iterators take no const */
    const char *key = NULL;
    json_t *item = NULL;
    size_t i = 0;
    out[0] = '\0';
    json_array_foreach (names, i, item) {
        char text[80];
        size_t used = json_dumpb(item, text, sizeof text - 1, JSON_COMPACT | JSON_ENCODE_ANY);
        text[used < sizeof text ? used : 0] = '\0';
        add_name(json_is_string(item) ? "\"" : "",
                 json_is_string(item) ? json_string_value(item) : text, out, size);
    }
    json_object_foreach (object, key, item) {
        add_name("", key, out, size);
    }
    return out;
}

static size_t code_points(const json_t *value)
{
    const char *text = json_string_value(value);
    size_t count = 0;
    for (size_t i = 0; i < json_string_length(value); i++) {
        count += !utf8_is_inner(text[i]);
    }
    return count;
}

/* To compile a pattern takes more than to match a short string. */
static size_t pattern_work(const char *pattern, const json_t *value)
{
    enum { COMPILE_WORK = 64, STEPS = 16 /* of a match, in one unit */ };
    return COMPILE_WORK + strlen(pattern) * json_string_length(value) / STEPS;
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

/* what is counted: "character", "item". */
static void check_size(struct check *check, const json_t *min, const json_t *max, size_t size,
                       const char *what)
{
    if (min && size < (size_t)json_integer_value(min)) {
        check_fail(check, "must have at least %lld %s%s, got %zu",
                   (long long)json_integer_value(min), what,
                   json_integer_value(min) == 1 ? "" : "s", size);
    }
    if (max && size > (size_t)json_integer_value(max)) {
        check_fail(check, "must have at most %lld %ss, got %zu", (long long)json_integer_value(max),
                   what, size);
    }
}

static void check_string(struct check *check, const json_t *schema, const json_t *value)
{
    char got[320];
    const json_t *min = json_object_get(schema, "minLength");
    const json_t *max = json_object_get(schema, "maxLength");
    const char *pattern = json_string_value(json_object_get(schema, "pattern"));
    if (!pattern && json_string_length(value) <= FOREIGN_PATTERN_BYTES) {
        pattern = json_string_value(json_object_get(schema, KEYWORD_FOREIGN_PATTERN));
    }
    check_size(check, min, max, min || max ? code_points(value) : 0, "character");
    if (pattern && check_work(check, pattern_work(pattern, value)) &&
        !pattern_matches(pattern, value)) {
        check_fail(check, "must match %s, got %s", pattern, check_preview(value, got, sizeof got));
    }
}

static void check_number(struct check *check, const json_t *schema, const json_t *value)
{
    char got[320];
    const json_t *min = json_object_get(schema, "minimum");
    const json_t *max = json_object_get(schema, "maximum");
    if (min && json_number_value(value) < json_number_value(min)) {
        check_fail(check, "must be at least %.15g, got %s", json_number_value(min),
                   check_preview(value, got, sizeof got));
    }
    if (max && json_number_value(value) > json_number_value(max)) {
        check_fail(check, "must be at most %.15g, got %s", json_number_value(max),
                   check_preview(value, got, sizeof got));
    }
}

static void check_value(struct check *check, const json_t *schema, const json_t *value);

static void check_array(struct check *check, const json_t *schema, const json_t *value)
{
    const json_t *items = json_object_get(schema, "items");
    size_t size = json_array_size(value);
    check_size(check, json_object_get(schema, "minItems"), json_object_get(schema, "maxItems"),
               size, "item");
    for (size_t i = 0; items && i < size; i++) {
        char token[24];
        (void)snprintf(token, sizeof token, "%zu", i);
        size_t old = check_enter(check, token);
        check_value(check, items, json_array_get(value, i));
        check_leave(check, old);
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
        if (sent && (check->foreign || !json_is_null(sent))) {
            continue;
        }
        const json_t *property = json_object_get(properties, key);
        const char *about = json_string_value(json_object_get(property, "description"));
        const char *stop = about ? strstr(about, ". ") : NULL;
        int size = about ? (int)(stop ? (size_t)(stop - about) : strlen(about)) : 0;
        size_t old = check_enter(check, key);
        check_fail(check, "is required%s; send %s%s%.*s", sent ? ", got null" : " but missing",
                   keyword_type_article(keyword_type(property)), about ? ": " : "", size,
                   about ? about : "");
        check_leave(check, old);
    }
}

static void check_unknown(struct check *check, const json_t *properties, const char *key)
{
    char known[160];
    if (check->count >= check->max) { /* only counted: there may be very many */
        check->count++;
        return;
    }
    const char *close = near_key(properties, key);
    const char *list = check->listed ? "" : name_list(properties, known, sizeof known);
    check_fail(check, "unknown argument%s%s%s%s%s", close ? ", did you mean \"" : "",
               close ? close : "",
               close           ? "\"?"
               : check->listed ? ""
                               : ".",
               check->listed ? "" : " Known arguments: ", list);
    check->listed = true;
}

static void check_object(struct check *check, const json_t *schema, const json_t *value)
{
    const json_t *properties = json_object_get(schema, "properties");
    json_t *object = (json_t *)(uintptr_t)value; /* jansson's iterators take no const */
    const char *key = NULL;
    json_t *member = NULL;
    if (check_work(check, json_array_size(json_object_get(schema, "required")))) {
        check_missing(check, schema, value);
    }
    json_object_foreach (object, key, member) {
        const json_t *property = json_object_get(properties, key);
        size_t old = check_enter(check, key);
        if (property && (check->foreign || !json_is_null(member))) {
            check_value(check, property, member);
        } else if (!property && json_is_false(json_object_get(schema, "additionalProperties"))) {
            check_unknown(check, properties, key);
        }
        check_leave(check, old);
    }
}

static void check_value(struct check *check, const json_t *schema, const json_t *value)
{
    char text[320];
    enum keyword_type type = keyword_type(schema);
    const json_t *options = json_object_get(schema, "enum");
    if (!check_work(check, 1 + json_array_size(options))) {
        return;
    }
    if (!keyword_type_matches(type, value)) {
        check_fail(check, "must be %s, got %s", keyword_type_article(type),
                   check_preview(value, text, sizeof text));
        return;
    }
    if (options && !enum_has(options, value)) {
        char known[160];
        check_fail(check, "must be one of %s, got %s", name_list(options, known, sizeof known),
                   check_preview(value, text, sizeof text));
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
    struct check check = {
        .violations = violations, .max = max, .foreign = json_object_get(schema, KEYWORD_FOREIGN)};
    check_value(&check, schema, value);
    return check.count;
}
