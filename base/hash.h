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

/* SipHash-2-4 of Aumasson and Bernstein, "SipHash: a fast short-input PRF" (2012): who does not
 * know the key finds no two contents of one hash. */
struct siphash {
    uint64_t v[4];
    uint64_t bytes;
};

void siphash_init(struct siphash *hash, const uint64_t key[2]);
/* Only the last size may be no multiple of 8. */
void siphash_add(struct siphash *hash, const void *bytes, size_t size);
/* Ends it. */
uint64_t siphash_sum(struct siphash *hash);

/* FNV-1a of 64 bits: of what came before and more bytes. Not against attackers. */
#define HASH_FNV 0xcbf29ce484222325U

static inline uint64_t hash_fnv(uint64_t before, const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < size; i++) {
        before = (before ^ at[i]) * 0x100000001b3U;
    }
    return before;
}
