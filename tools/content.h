#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct fail;
struct rpc_call;

/* Content blocks of a tool's answer. */

/* Ends the call with one text block of any bytes. */
void content_answer(struct rpc_call *call, const char *text, size_t size, bool is_error);

/* The same with more blocks. content: stolen, NULL when there was no memory; text: what stands in
 * the structured form. */
void content_end(struct rpc_call *call, json_t *content, const char *text, size_t size,
                 bool is_error);

/* Ends the call with a sentence. */
__attribute__((format(printf, 2, 3))) void content_refuse(struct rpc_call *call, const char *fmt,
                                                          ...);

/* Ends the call because there is no sandbox to carry it out. */
void content_no_sandbox(struct rpc_call *call, const struct fail *why);

/* New: a text block, or an image block of bytes. NULL when there is no memory. */
json_t *content_text(const char *text, size_t size);
json_t *content_image(const void *bytes, size_t size, const char *mime);

/* The MIME type of an image that hosts show, by its first bytes; NULL for anything else. */
const char *content_image_type(const char *bytes, size_t size);

/* Whether these are the bytes of a whole image that hosts show and that fits into an answer, with no
 * side longer than side_limit pixels. The guest's word for it is never enough. */
bool content_image_fits(const char *bytes, size_t size, uint32_t side_limit);

/* "18 kB", "1.2 MB": decimal units, as people write them. Returns out. */
const char *content_size(uint64_t bytes, char out[16]);

/* How many characters of base64 size bytes make. */
static inline size_t content_base64_size(size_t size)
{
    return (size + 2) / 3 * 4;
}

/* Base64 (RFC 4648, section 4). encode: 0 or -ENOMEM. decode: accepts white space between the
 * characters; *ret_bytes is the caller's to free. 0, -EINVAL or -ENOMEM. */
int content_base64_encode(const void *bytes, size_t size, struct buf *out);
int content_base64_decode(const char *text, size_t size, void **ret_bytes, size_t *ret_size);

/* Where a decoder stands between two pieces of a text. Starts zeroed. */
struct content_base64 {
    uint32_t group;
    unsigned digits; /* in the group */
    unsigned padding;
};

/* Decodes one piece behind the *count bytes that are there, and adds to it. White space may stand
 * between the characters. bytes: room for three for each four characters of the whole text, and
 * three more. 0 or -EINVAL. */
int content_base64_more(struct content_base64 *state, const char *text, size_t size,
                        unsigned char *bytes, size_t *count);
/* The text is whole. */
int content_base64_end(struct content_base64 *state, unsigned char *bytes, size_t *count);
