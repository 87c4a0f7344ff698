#include "tools/content/content.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/fail.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/word.h"
#include "rpc/call.h"
#include "rpc/text.h"
#include "tools/content/magic.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

json_t *content_text(const char *text, size_t size)
{
    return json_pack("{s:s, s:o}", "type", "text", "text", rpc_text(text, size));
}

json_t *content_image(const void *bytes, size_t size, const char *mime)
{
    OWNED(buf_done) struct buf out = BUF_EMPTY;
    if (content_base64_encode(bytes, size, &out) < 0) {
        return NULL;
    }
    return json_pack("{s:s, s:o, s:s}", "type", "image", "data",
                     json_stringn(buf_bytes(&out), buf_size(&out)), "mimeType", mime);
}

static const struct {
    const char *magic;
    size_t size;
    const char *mime;
} image_types[] = {
    {"\x89PNG\r\n\x1a\n", 8, "image/png"},
    {"\xff\xd8\xff", 3, "image/jpeg"},
    {"GIF8", 4, "image/gif"},
};

const char *content_image_type(const char *bytes, size_t size)
{
    for (unsigned i = 0; i < sizeof image_types / sizeof *image_types; i++) {
        if (size >= image_types[i].size &&
            memcmp(bytes, image_types[i].magic, image_types[i].size) == 0) {
            return image_types[i].mime;
        }
    }
    return size >= 12 && memcmp(bytes, "RIFF", 4) == 0 && memcmp(bytes + 8, "WEBP", 4) == 0
               ? "image/webp"
               : NULL;
}

bool content_image_fits(const char *bytes, size_t size)
{
    uint32_t width = 0;
    uint32_t height = 0;
    return size <= LIMIT_IMAGES_BYTES && content_image_type(bytes, size) &&
           magic_is_whole(bytes, size) && magic_measure(bytes, size, &width, &height) &&
           width > 0 && height > 0 && width <= LIMIT_IMAGE_SIDE && height <= LIMIT_IMAGE_SIDE;
}

void content_result(struct rpc_call *call, const char *text, size_t size, bool is_error)
{
    content_end(call, json_pack("[o]", content_text(text, size)), text, size, is_error);
}

void content_end(struct rpc_call *call, json_t *content, const char *text, size_t size,
                 bool is_error)
{
    json_t *structured = !is_error && rpc_call_wants_structured(call)
                             ? json_pack("{s:o}", "text", rpc_text(text, size))
                             : NULL;
    rpc_call_result(call, content, structured, is_error);
}

void content_refuse(struct rpc_call *call, const char *fmt, ...)
{
    char text[FAIL_TEXT + WORD_BYTES + 256];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    content_result(call, text, strlen(text), true);
}

void content_no_sandbox(struct rpc_call *call, const struct fail *why)
{
    content_refuse(call, "The sandbox is not available: %s.", fail_text(why));
}

const char *content_size(uint64_t bytes, char out[16])
{
    static const char *const units[] = {"kB", "MB", "GB", "TB"};
    double size = (double)bytes;
    if (bytes < 1000) {
        (void)snprintf(out, 16, "%u B", (unsigned)bytes);
        return out;
    }
    unsigned unit = 0;
    for (size /= 1000; size >= 999.5 && unit < 3; unit++) {
        size /= 1000;
    }
    (void)snprintf(out, 16, size < 9.95 ? "%.1f %s" : "%.0f %s", size, units[unit]);
    return out;
}

int content_bytes_place(uint64_t offset, size_t shown, uint64_t size, const char *further,
                        struct buf *text)
{
    unsigned long long next = offset + shown;
    buf_appendf(text, "\n[bytes %llu-%llu of %llu", (unsigned long long)offset, next - 1,
                (unsigned long long)size);
    if (next < size) {
        buf_appendf(text, "; continue with offset=%llu%s", next, further);
    }
    return buf_error(text);
}

int content_no_bytes(const char *path, uint64_t offset, uint64_t size, struct buf *text)
{
    word_append(text, path, strlen(path));
    return buf_appendf(text, " has %llu byte%s; there is no byte at offset %llu.",
                       (unsigned long long)size, size == 1 ? "" : "s", (unsigned long long)offset);
}

int content_read(int fd, uint64_t offset, size_t size, struct buf *out)
{
    char *space = NULL;
    int r = buf_reserve(out, size, &space);
    ssize_t have = r < 0 ? r : fd_pread_all(fd, space, size, offset);
    buf_commit(out, have > 0 ? (size_t)have : 0);
    return have < 0 ? (int)have : 0;
}

int content_base64_encode(const void *bytes, size_t size, struct buf *out)
{
    const unsigned char *in = bytes;
    char *space = NULL;
    size_t length = content_base64_size(size);
    int r = buf_reserve(out, length, &space);
    if (r < 0) {
        return r;
    }
    for (char *at = space; size > 0; at += 4) {
        size_t taken = size < 3 ? size : 3;
        uint32_t group = (uint32_t)in[0] << 16 | (taken > 1 ? (uint32_t)in[1] << 8 : 0) |
                         (taken > 2 ? in[2] : 0);
        at[0] = alphabet[group >> 18];
        at[1] = alphabet[group >> 12 & 63];
        at[2] = '=';
        at[3] = '=';
        if (taken > 1) {
            at[2] = alphabet[group >> 6 & 63];
        }
        if (taken > 2) {
            at[3] = alphabet[group & 63];
        }
        in += taken;
        size -= taken;
    }
    buf_commit(out, length);
    return 0;
}

enum { NO_DIGIT = 64, MEDIA_TYPE_MOST = 300 };

/* Inverts the alphabet. */
static void make_digits(unsigned char digits[256])
{
    memset(digits, NO_DIGIT, 256);
    for (unsigned i = 0; i < NO_DIGIT; i++) {
        digits[(unsigned char)alphabet[i]] = (unsigned char)i;
    }
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

size_t content_base64_begin(const char *text, size_t size)
{
    static const char begin[] = "data:";
    static const char end[] = ";base64";
    size_t most = size < MEDIA_TYPE_MOST ? size : MEDIA_TYPE_MOST;
    const char *comma = memchr(text, ',', most);
    size_t length = comma ? (size_t)(comma - text) : 0;
    return length + 1 >= sizeof begin + sizeof end - 1 &&
                   strncasecmp(text, begin, sizeof begin - 1) == 0 &&
                   strncasecmp(comma - (sizeof end - 1), end, sizeof end - 1) == 0
               ? length + 1
               : 0;
}

int content_base64_decode(const char *text, size_t size, unsigned char *bytes, size_t *ret_size)
{
    unsigned char *out = bytes;
    unsigned char values[256];
    uint32_t group = 0;
    unsigned digits = 0; /* in the group */
    unsigned padding = 0;
    make_digits(values);
    for (size_t i = 0; i < size; i++) {
        if (is_space(text[i])) {
            continue;
        }
        if (text[i] == '=' && digits >= 2 && digits + padding < 4) {
            padding++;
            continue;
        }
        unsigned digit = values[(unsigned char)text[i]];
        if (digit == NO_DIGIT || padding > 0) {
            return -EINVAL;
        }
        group = group << 6 | digit;
        if (++digits == 4) {
            *out++ = (unsigned char)(group >> 16);
            *out++ = (unsigned char)(group >> 8);
            *out++ = (unsigned char)group;
            digits = 0;
            group = 0;
        }
    }
    if (digits == 1 || (padding > 0 && digits + padding != 4)) {
        return -EINVAL;
    }
    if (digits >= 2) {
        group <<= 6 * (4 - digits);
        *out++ = (unsigned char)(group >> 16);
    }
    if (digits == 3) {
        *out++ = (unsigned char)(group >> 8);
    }
    *ret_size = (size_t)(out - bytes);
    return 0;
}
