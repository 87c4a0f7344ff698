#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/own.h"
#include "schema/keyword.h"
#include "schema/schema.h"

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
