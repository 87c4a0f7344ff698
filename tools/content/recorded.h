#pragma once
#include <jansson.h>
#include <stdbool.h>

struct record;

/* A call of a tool with its result. All is borrowed. */
struct content_call {
    const char *kind; /* of its event: "read", "write", "change", "tool" */
    const char *tool;
    const json_t *arguments;
    const json_t *content; /* NULL: it has none */
    bool is_error;
};

/* facts: stolen, more members of the event, or NULL. */
void content_record(struct record *record, const struct content_call *call, json_t *facts);
