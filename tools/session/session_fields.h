#pragma once
#include <string.h>

#include "sandbox/sandbox.h"

/* The fields of a message to the interpreter: a verb, then names and values. */
struct session_fields {
    struct box_field at[23];
    size_t count;
};

/* name: static. bytes: borrowed until the message is sent. */
static inline void session_add_field(struct session_fields *fields, const char *name,
                                     const char *bytes, size_t size)
{
    fields->at[fields->count++] = (struct box_field){name, strlen(name)};
    fields->at[fields->count++] = (struct box_field){bytes, size};
}
