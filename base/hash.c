#include "base/hash.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t turn(uint32_t word, unsigned bits)
{
    return word >> bits | word << (32 - bits);
}

static void take_block(uint32_t state[8], const unsigned char *block)
{
    uint32_t words[64];
    memcpy(words, block, 64);
    for (unsigned i = 0; i < 16; i++) {
        words[i] = be32toh(words[i]);
    }
    for (unsigned i = 16; i < 64; i++) {
        uint32_t far = words[i - 15];
        uint32_t near = words[i - 2];
        words[i] = words[i - 16] + (turn(far, 7) ^ turn(far, 18) ^ far >> 3) + words[i - 7] +
                   (turn(near, 17) ^ turn(near, 19) ^ near >> 10);
    }
    uint32_t a = state[0];
    uint32_t b = state[1];
    uint32_t c = state[2];
    uint32_t d = state[3];
    uint32_t e = state[4];
    uint32_t f = state[5];
    uint32_t g = state[6];
    uint32_t h = state[7];
    for (unsigned i = 0; i < 64; i++) {
        uint32_t first = h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) +
                         constants[i] + words[i];
        uint32_t second = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g;
        g = f;
        f = e;
        e = d + first;
        d = c;
        c = b;
        b = a;
        a = first + second;
    }
    const uint32_t now[8] = {a, b, c, d, e, f, g, h};
    for (unsigned i = 0; i < 8; i++) {
        state[i] += now[i];
    }
}

void sha256_init(struct sha256 *hash)
{
    *hash = (struct sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                      0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void sha256_add(struct sha256 *hash, const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    size_t held = hash->bytes % sizeof hash->block;
    hash->bytes += size;
    if (held > 0) {
        size_t part = sizeof hash->block - held;
        part = part < size ? part : size;
        memcpy(hash->block + held, at, part);
        at += part;
        size -= part;
        if (held + part < sizeof hash->block) {
            return;
        }
        take_block(hash->state, hash->block);
    }
    for (; size >= sizeof hash->block; at += sizeof hash->block, size -= sizeof hash->block) {
        take_block(hash->state, at);
    }
    if (size > 0) {
        memcpy(hash->block, at, size);
    }
}

const char *sha256_end(struct sha256 *hash, char out[SHA256_TEXT])
{
    static const unsigned char padding[64] = {0x80};
    uint64_t bits = htobe64(hash->bytes * 8);
    size_t held = hash->bytes % 64;
    sha256_add(hash, padding, held < 56 ? 56 - held : 120 - held);
    sha256_add(hash, &bits, sizeof bits);
    for (size_t i = 0; i < 8; i++) {
        (void)snprintf(out + 8 * i, 9, "%08x", hash->state[i]);
    }
    return out;
}

const char *sha256_of(const void *bytes, size_t size, char out[SHA256_TEXT])
{
    struct sha256 hash;
    sha256_init(&hash);
    sha256_add(&hash, bytes, size);
    return sha256_end(&hash, out);
}

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
