#pragma once
#include <stddef.h>
#include <stdint.h>

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
