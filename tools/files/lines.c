#include "tools/files/lines.h"

#include <string.h>

#include "base/utf8.h"

size_t lines_ends(const char *bytes, size_t size)
{
    size_t count = 0;
    const char *end = bytes + size;
    while (size > 0 && (bytes = memchr(bytes, '\n', size))) {
        count++;
        bytes++;
        size = (size_t)(end - bytes);
    }
    return count;
}

size_t lines_count(const char *bytes, size_t size)
{
    return lines_ends(bytes, size) + (size > 0 && bytes[size - 1] != '\n');
}

size_t lines_forward(const char *bytes, size_t size, size_t *skip)
{
    size_t at = 0;
    while (*skip > 0 && at < size) {
        const char *newline = memchr(bytes + at, '\n', size - at);
        if (!newline) {
            return size;
        }
        at = (size_t)(newline - bytes) + 1;
        --*skip;
    }
    return at;
}

size_t lines_backward(const char *bytes, size_t size, size_t *skip)
{
    while (*skip > 0 && size > 0) {
        const char *newline = memrchr(bytes, '\n', size);
        if (!newline) {
            return 0;
        }
        size = (size_t)(newline - bytes);
        if (--*skip == 0) {
            return size + 1;
        }
    }
    return 0;
}

size_t lines_cut(const char *bytes, size_t size, size_t limit)
{
    if (size <= limit) {
        return size;
    }
    const char *newline = memrchr(bytes + limit / 2, '\n', limit - limit / 2);
    if (newline) {
        return (size_t)(newline - bytes) + 1;
    }
    for (size_t back = 0; back < 4 && back < limit; back++) {
        if (!utf8_is_inner(bytes[limit - back])) {
            return limit - back;
        }
    }
    return limit;
}
