#include <stdbool.h>
#include <stdint.h>

#include "base/own.h"
#include "schema/keyword.h"
#include "schema/schema.h"

/* Doubles at and beyond this have no exact 64-bit integer; 2^63. */
#define COERCE_REAL_MAX 9223372036854775808.0

/* New: one property's value. NULL when there is no memory. */
static json_t *coerce_value(const json_t *schema, json_t *value)
{
    enum keyword_type type = keyword_type(schema);
    if (type == KEYWORD_TYPE_INTEGER && json_is_real(value) && keyword_type_matches(type, value)) {
        double real = json_real_value(value);
        return real >= -COERCE_REAL_MAX && real < COERCE_REAL_MAX ? json_integer((json_int_t)real)
                                                                  : json_incref(value);
    }
    if (type == KEYWORD_TYPE_ARRAY && !json_is_array(value)) {
        const json_t *items = json_object_get(schema, "items");
        if (items && keyword_type_matches(keyword_type(items), value)) {
            return json_pack("[O]", value);
        }
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
        bool drop = json_is_null(old) && !keyword_requires(schema, key);
        json_auto_t *coerced = drop ? NULL : coerce_value(property, old);
        if ((!drop && !coerced) ||
            (coerced != old && coerce_replace(&copy, value, key, coerced) < 0)) {
            return NULL;
        }
    }
    return copy ? take_ptr(copy) : json_incref(value);
}
