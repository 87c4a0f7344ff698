#pragma once
#include <stddef.h>
#include <stdint.h>

/* SHA-256, FIPS 180-4. */
struct sha256 {
    uint32_t state[8];
    uint64_t bytes;
    unsigned char block[64];
};

enum { SHA256_TEXT = 65 }; /* hexadecimal digits and a NUL */

void sha256_init(struct sha256 *hash);
void sha256_add(struct sha256 *hash, const void *bytes, size_t size);
/* Ends it. Returns out. */
const char *sha256_end(struct sha256 *hash, char out[SHA256_TEXT]);

/* All at once. Returns out. */
const char *sha256_of(const void *bytes, size_t size, char out[SHA256_TEXT]);
