#include "sandbox/programs/common/git_index.h"

#include <string.h>

enum {
    HEADER = 12,
    FLAGS_AT = GIT_ENTRY_OBJECT + 20, /* with another hash the rest is no index */
    PATH_AT = FLAGS_AT + 2,
    EXTENDED = 0x40, /* of the first byte of the flags: there are two more */
};

uint32_t git_index_number(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

bool git_index_begin(struct git_index *index, unsigned char *bytes, size_t size)
{
    *index = (struct git_index){.bytes = bytes, .size = size};
    index->version = size > HEADER ? git_index_number(bytes + 4) : 0;
    if (index->version < 2 || index->version > 4 || memcmp(bytes, "DIRC", 4) != 0) {
        return false;
    }
    index->left = git_index_number(bytes + 8);
    index->at = HEADER;
    return true;
}

unsigned char *git_index_next(struct git_index *index, const char **ret_path)
{
    const unsigned char *bytes = index->bytes;
    size_t at = index->at;
    if (at == 0 || index->left == 0) {
        return NULL;
    }
    index->left--;
    index->at = 0;
    if (at >= index->size || index->size - at <= PATH_AT + 2) {
        return NULL;
    }
    bool is_short = index->version == 4;
    size_t path = at + PATH_AT + (index->version > 2 && bytes[at + FLAGS_AT] & EXTENDED ? 2 : 0);
    while (is_short && path < index->size &&
           bytes[path] & 0x80) { /* how much of the last path stays */
        path++;
    }
    path += is_short;
    const unsigned char *end =
        path < index->size ? memchr(bytes + path, '\0', index->size - path) : NULL;
    if (!end) {
        return NULL;
    }
    size_t next = (size_t)(end - bytes) + 1;
    index->at = is_short ? next : at + (next - at + 7) / 8 * 8;
    *ret_path = (const char *)bytes + path;
    return index->bytes + at;
}
