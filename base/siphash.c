#include "base/siphash.h"

#include <string.h>

static uint64_t rotate(uint64_t word, unsigned bits)
{
    return word << bits | word >> (64 - bits);
}

static void mix(struct siphash *hash, unsigned rounds)
{
    uint64_t *v = hash->v;
    for (unsigned i = 0; i < rounds; i++) {
        v[0] += v[1];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[0] = rotate(v[0], 32);
        v[2] += v[3];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] += v[3];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[2] += v[1];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[2] = rotate(v[2], 32);
    }
}

static void add_word(struct siphash *hash, uint64_t word)
{
    hash->v[3] ^= word;
    mix(hash, 2);
    hash->v[0] ^= word;
}

void siphash_init(struct siphash *hash, const uint64_t key[2])
{
    *hash = (struct siphash){.v = {key[0] ^ 0x736f6d6570736575U, key[1] ^ 0x646f72616e646f6dU,
                                   key[0] ^ 0x6c7967656e657261U, key[1] ^ 0x7465646279746573U}};
}

/* The words in the machine's byte order: hashes do not leave it. */
void siphash_add(struct siphash *hash, const void *bytes, size_t size)
{
    const char *at = bytes;
    uint64_t word = 0;
    hash->bytes += size;
    for (; size >= sizeof word; size -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        add_word(hash, word);
    }
    if (size > 0) {
        word = 0;
        memcpy(&word, at, size);
        add_word(hash, word);
    }
}

uint64_t siphash_sum(struct siphash *hash)
{
    add_word(hash, hash->bytes);
    hash->v[2] ^= 0xff;
    mix(hash, 4);
    return hash->v[0] ^ hash->v[1] ^ hash->v[2] ^ hash->v[3];
}
