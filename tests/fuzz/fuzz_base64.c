/* Decoded text encodes to the same characters, except white space and padding; any bytes survive
 * encoding and decoding. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "tests/fuzz/fuzz.h"
#include "tools/content/content.h"

/* The caller frees *ret_bytes. */
static int decode(const char *text, size_t size, unsigned char **ret_bytes, size_t *ret_size)
{
    unsigned char *bytes = malloc(size / 4 * 3 + 3);
    *ret_size = 0;
    if (!bytes) {
        abort();
    }
    if (content_base64_decode(text, size, bytes, ret_size) < 0) {
        free(bytes);
        return -EINVAL;
    }
    *ret_bytes = bytes;
    return 0;
}

static void check_bytes(const uint8_t *data, size_t size)
{
    struct buf out = BUF_EMPTY;
    unsigned char *bytes = NULL;
    size_t count = 0;
    if (content_base64_encode(data, size, &out) < 0 || buf_size(&out) != (size + 2) / 3 * 4) {
        abort();
    }
    if (size > 0 && (decode(buf_bytes(&out), buf_size(&out), &bytes, &count) < 0 || count != size ||
                     memcmp(bytes, data, size) != 0)) {
        abort();
    }
    free(bytes);
    buf_done(&out);
}

/* Ignores the last character of an incomplete group, as its lowest bits carry no data. */
static void check_text(const char *text, size_t size, const struct buf *again, size_t decoded)
{
    size_t at = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '=' || strchr(" \t\r\n", text[i])) {
            continue;
        }
        bool is_last = decoded % 3 != 0 && at == decoded * 8 / 6;
        if (at >= buf_size(again) || (!is_last && buf_bytes(again)[at] != text[i])) {
            abort();
        }
        at++;
    }
    if (at != (decoded * 8 + 5) / 6) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char *bytes = NULL;
    size_t count = 0;
    check_bytes(data, size);
    int r = decode((const char *)data, size, &bytes, &count);
    if (r == 0) {
        struct buf again = BUF_EMPTY;
        if (content_base64_encode(bytes, count, &again) < 0) {
            abort();
        }
        check_text((const char *)data, size, &again, count);
        buf_done(&again);
        free(bytes);
    } else if (bytes) {
        abort();
    }
    return 0;
}
