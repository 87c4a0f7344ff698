#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

/* Frames between the server and the guest: the u32 size of what follows, then fields, each a u32
 * size and bytes; all little-endian. The peer is hostile: sizes are checked before anything is
 * allocated. */

struct box_field {
    const char *data; /* not NUL-terminated; borrowed */
    size_t size;
};

/* A message from the guest: fields[0] is the verb; names and values alternate after it. */
struct box_message {
    const struct box_field *fields;
    size_t count; /* odd */
};

bool box_field_is(const struct box_field *field, const char *text);

/* Returns the first value of name. Returns false if there is none. */
bool box_message_get(const struct box_message *message, const char *name,
                     struct box_field *ret_value);

/* The number in the first value of name, or missing if there is none. */
uint64_t box_message_number(const struct box_message *message, const char *name, uint64_t missing);

enum channel_result { CHANNEL_NONE, CHANNEL_MESSAGE, CHANNEL_BROKEN };

/* Looks for a complete frame at the front of in. On CHANNEL_MESSAGE fields[0 … *ret_count) point
 * into in, and the caller must consume *ret_size bytes when it is done with them. */
enum channel_result channel_next(const struct buf *in, struct box_field *fields, size_t max_fields,
                                 size_t *ret_count, size_t *ret_size);

/* Appends a frame. 0, -EMSGSIZE or -ENOMEM; on failure out is unchanged. */
int channel_encode(struct buf *out, const struct box_field *fields, size_t count);
