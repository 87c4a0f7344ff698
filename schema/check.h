#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "schema/schema.h"

/* The state of one validation, and how it reports violations. Private to schema. */

/* Where the validation is: it checks the value at pointer. */
struct check {
    struct schema_violation *violations;
    size_t max;
    size_t count;
    bool listed; /* the known arguments, in an earlier violation */
    char pointer[sizeof((struct schema_violation *)0)->pointer];
};

/* Adds one violation at the current pointer. */
__attribute__((format(printf, 2, 3))) void check_fail(struct check *check, const char *fmt, ...);

/* Appends "/token" to the pointer with RFC 6901 escapes, whole characters only. Returns what
 * check_leave() needs to go back. */
size_t check_enter(struct check *check, const char *token);
void check_leave(struct check *check, size_t old);

/* What the client sent, short: 'string "abc"', "number 3", "null". Returns out. */
const char *check_preview(const json_t *value, char *out, size_t size);
