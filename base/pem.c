#include "base/pem.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/parse.h"

/* Takes the next line, without its end. False: there is none. */
static bool next_line(struct span *rest, struct span *ret_line)
{
    const char *end = rest->size > 0 ? memchr(rest->bytes, '\n', rest->size) : NULL;
    size_t size = end ? (size_t)(end - rest->bytes) : rest->size;
    *ret_line = (struct span){rest->bytes, size};
    while (ret_line->size > 0 && strchr(" \t\r", ret_line->bytes[ret_line->size - 1])) {
        ret_line->size--;
    }
    bool found = rest->size > 0;
    rest->bytes += size + (end != NULL);
    rest->size -= size + (end != NULL);
    return found;
}

static bool is(struct span line, const char *text)
{
    return line.size == strlen(text) && memcmp(line.bytes, text, line.size) == 0;
}

static bool begins(struct span line, const char *text)
{
    size_t size = strlen(text);
    return line.size >= size && memcmp(line.bytes, text, size) == 0;
}

static bool is_base64(struct span line)
{
    bool valid = line.size > 0;
    for (size_t i = 0; valid && i < line.size; i++) {
        char c = line.bytes[i];
        valid = parse_is_alnum(c) || c == '+' || c == '/' || c == '=';
    }
    return valid;
}

/* The beginning of a block, decoded. */
struct block {
    uint8_t head[6];
    uint32_t bits;
    size_t digits, pads;
};

static void decode(struct span line, struct block *block)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < line.size; i++) {
        const char *digit = strchr(digits, line.bytes[i]);
        block->pads += !digit;
        block->bits = block->bits << 6 | (uint32_t)(digit ? digit - digits : 0);
        block->digits++;
        for (size_t k = 0; k < 3 && block->digits % 4 == 0 && block->digits <= 8; k++) {
            block->head[block->digits / 4 * 3 - 3 + k] = (uint8_t)(block->bits >> (16 - 8 * k));
        }
    }
}

/* Whether it is one DER SEQUENCE and nothing else, X.690 8.1. A length below 128 has no
 * certificate. */
static bool is_sequence(const struct block *block)
{
    size_t bytes = block->digits / 4 * 3 - block->pads;
    size_t octets = block->head[1] & 0x7f;
    size_t size = 0;
    for (size_t i = 0; i < octets && i < 4; i++) {
        size = size << 8 | block->head[2 + i];
    }
    return block->digits >= 8 && block->digits % 4 == 0 && block->pads <= 2 &&
           block->head[0] == 0x30 && block->head[1] > 0x80 && octets <= 4 &&
           bytes == 2 + octets + size;
}

/* Copies one certificate up to its last line. False: it is malformed. */
static bool take_one(struct span *rest, struct buf *out)
{
    struct span line;
    struct block block = {};
    buf_append_text(out, "-----BEGIN CERTIFICATE-----\n");
    while (next_line(rest, &line) && !is(line, "-----END CERTIFICATE-----")) {
        if (!is_base64(line)) {
            return false;
        }
        decode(line, &block);
        buf_append(out, line.bytes, line.size);
        buf_append_text(out, "\n");
    }
    buf_append_text(out, "-----END CERTIFICATE-----\n");
    return is(line, "-----END CERTIFICATE-----") && is_sequence(&block);
}

const char *pem_take_certificates(const char *text, size_t size, struct buf *out)
{
    struct span rest = {text, size};
    struct span line;
    unsigned count = 0;
    while (next_line(&rest, &line)) {
        if (begins(line, "-----BEGIN ") && memmem(line.bytes, line.size, "PRIVATE KEY", 11)) {
            return "it has a private key: name a file with certificates only";
        }
        if (is(line, "-----BEGIN CERTIFICATE-----")) {
            count++;
            if (!take_one(&rest, out)) {
                return "a certificate in it is malformed";
            }
        }
    }
    /* A DER file is one SEQUENCE, X.690 8.9. */
    return count > 0 ? NULL
           : size > 1 && (text[0] & 0x3f) == 0x30 && (text[1] & 0x80)
               ? "it is DER: make PEM of it with openssl x509 -inform der"
               : "it has no certificate in PEM form";
}
