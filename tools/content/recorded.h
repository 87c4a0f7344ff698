#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct record;

/* A call of a tool with its result. All is borrowed. */
struct content_call {
    const char *kind; /* of its event: "read", "write", "change", "tool" */
    const char *tool;
    const json_t *arguments;
    const json_t *content; /* NULL: it has none */
    bool is_error;
};

/* New: what the record says of a file that is read: where it is, its size, and the hash of one that
 * could be in it. NULL without a record. */
json_t *content_file_facts(const struct record *record, const char *path, int fd, uint64_t size);

/* facts: stolen, more members of the event, or NULL. */
void content_record(struct record *record, const struct content_call *call, json_t *facts);
