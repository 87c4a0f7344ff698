#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct fail;
struct rpc_call;

/* Content blocks of a tool's result. */

/* Ends the call with one text block of any bytes. */
void content_result(struct rpc_call *call, const char *text, size_t size, bool is_error);

/* The same with more blocks. content: stolen, NULL when out of memory; text: goes into the
 * structured form. */
void content_end(struct rpc_call *call, json_t *content, const char *text, size_t size,
                 bool is_error);

/* Ends the call with a sentence. */
__attribute__((format(printf, 2, 3))) void content_refuse(struct rpc_call *call, const char *fmt,
                                                          ...);

/* Ends the call because there is no sandbox to carry it out. */
void content_no_sandbox(struct rpc_call *call, const struct fail *why);

/* New: a text block, or an image block of bytes. NULL when out of memory. */
json_t *content_text(const char *text, size_t size);
json_t *content_image(const void *bytes, size_t size, const char *mime);

/* The MIME type of an image that clients show, by its first bytes; NULL for anything else. */
const char *content_image_type(const char *bytes, size_t size);

/* Whether these are the bytes of a whole image that clients show and that fits into a result, with
 * no side longer than LIMIT_IMAGE_SIDE. The guest's claim never suffices. */
bool content_image_fits(const char *bytes, size_t size);

/* "18 kB", "1.2 MB": decimal units, as people write them. Returns out. */
const char *content_size(uint64_t bytes, char out[16]);

/* Appends those bytes of [offset, offset + size) of a regular file that exist. 0 or -errno. */
int content_read(int fd, uint64_t offset, size_t size, struct buf *out);

/* Appends "\n[bytes 0-15999 of 20000; continue with offset=16000", without an end, below shown
 * bytes, at least one, of a file. further: more for what continues, or "". 0 or -ENOMEM. */
int content_bytes_place(uint64_t offset, size_t shown, uint64_t size, const char *further,
                        struct buf *text);

/* Appends the sentence for an offset at or after the file's end. 0 or -ENOMEM. */
int content_no_bytes(const char *path, uint64_t offset, uint64_t size, struct buf *text);

/* How many characters of base64 size bytes take. */
static inline size_t content_base64_size(size_t size)
{
    return (size + 2) / 3 * 4;
}

/* Base64 (RFC 4648, section 4). 0 or -ENOMEM. */
int content_base64_encode(const void *bytes, size_t size, struct buf *out);

/* How many characters come before the base64 of a data URL: "data:image/png;base64,". 0: the text
 * is none. */
size_t content_base64_begin(const char *text, size_t size);

/* Decodes a text, in which white space may be between the characters. bytes: space for three for
 * each four characters, and three more. 0 or -EINVAL. */
int content_base64_decode(const char *text, size_t size, unsigned char *bytes, size_t *ret_size);

/* The kind of a file, by its first bytes. */

enum magic_kind {
    MAGIC_TEXT,
    MAGIC_UTF16,   /* text, with a byte order mark */
    MAGIC_IMAGE,   /* of a type that clients show */
    MAGIC_PICTURE, /* an image of another type */
    MAGIC_BINARY,
};

struct magic {
    enum magic_kind kind;
    const char *name; /* "SQLite database", static; NULL for text, and for unknown formats */
};

/* How many bytes of a file's beginning magic_of needs. */
enum { MAGIC_BYTES = 8192 };

struct magic magic_of(const char *bytes, size_t size);

/* Whether a PNG or GIF image is whole, and whether a JPEG or WebP image has its end. A damaged
 * image must not reach a client: some refuse the whole conversation for it. */
bool magic_is_whole(const char *bytes, size_t size);

/* Width and height of a PNG, GIF, JPEG or WebP image. False if bytes do not have them. */
bool magic_measure(const char *bytes, size_t size, uint32_t *ret_width, uint32_t *ret_height);
