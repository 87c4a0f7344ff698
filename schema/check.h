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
    size_t work; /* see check_work() */
    bool listed; /* the known arguments, in an earlier violation */
    char pointer[sizeof((struct schema_violation *)0)->pointer];
};

/* Adds one violation at the current pointer. */
__attribute__((format(printf, 2, 3))) void check_fail(struct check *check, const char *fmt, ...);

/* Counts units of work, each about as much as one comparison. False: the validation has taken so
 * many that it must end, which is a violation of its own. */
bool check_work(struct check *check, size_t units);

/* Appends "/token" to the pointer with RFC 6901 escapes, whole characters only. Returns what
 * check_leave() needs to go back. */
size_t check_enter(struct check *check, const char *token);
void check_leave(struct check *check, size_t old);

/* What the client sent, short: 'string "abc"', "number 3", "null". Returns out. */
const char *check_preview(const json_t *value, char *out, size_t size);
