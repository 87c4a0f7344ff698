/* What an index of git lists, without what git has noted of the files in the work tree: `git
 * status` writes it again for that alone. gitformat-index(5). */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "sandbox/programs/common/content.h"
#include "sandbox/programs/keeper/keeper.h"

enum {
    HEADER = 12,
    MOST_BYTES = 64 << 20,
    MODE_AT = 24, /* in an entry: the only field before the object's name that is not of stat(2) */
    NAME_AT = 40,
    FLAGS_AT = NAME_AT + 20, /* of SHA-1; with another hash the rest is no index */
    PATH_AT = FLAGS_AT + 2,
    EXTENDED = 0x40, /* of the first byte of the flags: there are two more */
};

static uint32_t number(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Clears what an entry has of stat(2). Returns where the next one begins; 0: it is none. */
static size_t blank_entry(unsigned char *bytes, size_t at, size_t size, uint32_t version)
{
    if (size - at <= PATH_AT + 2) {
        return 0;
    }
    memset(bytes + at, 0, MODE_AT);
    memset(bytes + at + MODE_AT + 4, 0, NAME_AT - MODE_AT - 4);
    size_t path = at + PATH_AT + (version > 2 && bytes[at + FLAGS_AT] & EXTENDED ? 2 : 0);
    while (version == 4 && path < size &&
           bytes[path] & 0x80) { /* how much of the last path stays */
        path++;
    }
    path += version == 4;
    const unsigned char *end = path < size ? memchr(bytes + path, '\0', size - path) : NULL;
    size_t next = end ? (size_t)(end - bytes) + 1 : 0;
    return version == 4 || !end ? next : at + (next - at + 7) / 8 * 8;
}

/* The bytes up to the end of the entries; 0: they are no index that can be compared. */
static size_t blank(unsigned char *bytes, size_t size)
{
    uint32_t version = size > HEADER ? number(bytes + 4) : 0;
    bool is_index = version >= 2 && version <= 4 && memcmp(bytes, "DIRC", 4) == 0;
    size_t at = is_index ? HEADER : 0;
    for (uint32_t left = is_index ? number(bytes + 8) : 0; left > 0 && at > 0; left--) {
        at = at < size ? blank_entry(bytes, at, size, version) : 0;
    }
    /* A split index, whose other entries are in another file, begins its extensions with that. */
    return at == 0 || at + 4 > size || memcmp(bytes + at, "link", 4) == 0 ? 0 : at;
}

uint64_t git_index_hash(int root_fd, const char *path, const struct apply_facts *facts,
                        const uint64_t key[2])
{
    bool may = strcmp(path_last(path), "index") == 0 && apply_path_git_size(path) > 0 &&
               S_ISREG(facts->mode) && facts->bytes <= MOST_BYTES;
    unsigned char *bytes = may ? calloc(1, facts->bytes + 1) : NULL;
    bool is_read = bytes && place_content(root_fd, path, facts, (char *)bytes);
    size_t size = is_read ? blank(bytes, facts->bytes) : 0;
    uint64_t hash = size > 0 ? content_hash_bytes((const char *)bytes, size, key) : 0;
    free(bytes);
    return hash;
}
