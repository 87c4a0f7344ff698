#include "base/buf.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUF_FIRST = 256 };

void buf_done(struct buf *buf)
{
    free(buf->data);
    *buf = BUF_EMPTY;
}

int buf_reserve(struct buf *buf, size_t size, char **ret_space)
{
    if (buf->capacity - buf->end < size && buf->start > 0) {
        memmove(buf->data, buf->data + buf->start, buf_size(buf));
        buf->end -= buf->start;
        buf->start = 0;
    }
    if (!buf->data || buf->capacity - buf->end < size) {
        size_t need = 0;
        if (__builtin_add_overflow(buf->end, size, &need)) {
            return -ENOMEM;
        }
        size_t capacity = buf->capacity ? buf->capacity : BUF_FIRST;
        while (capacity < need) {
            if (__builtin_mul_overflow(capacity, (size_t)2, &capacity)) {
                return -ENOMEM;
            }
        }
        char *data = realloc(buf->data, capacity);
        if (!data) {
            return -ENOMEM;
        }
        buf->data = data;
        buf->capacity = capacity;
    }
    *ret_space = buf->data + buf->end;
    return 0;
}

void buf_commit(struct buf *buf, size_t size)
{
    assert(size <= buf->capacity - buf->end);
    buf->end += size;
}

int buf_append(struct buf *buf, const void *bytes, size_t size)
{
    char *space = NULL;
    if (size == 0 || buf->error) {
        return buf->error;
    }
    buf->error = buf_reserve(buf, size, &space);
    if (!buf->error) {
        memcpy(space, bytes, size);
        buf_commit(buf, size);
    }
    return buf->error;
}

int buf_append_text(struct buf *buf, const char *text)
{
    return buf_append(buf, text, strlen(text));
}

int buf_appendf(struct buf *buf, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int size = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *space = NULL;
    if (size < 0 || buf->error) {
        return buf->error;
    }
    buf->error = buf_reserve(buf, (size_t)size + 1, &space); /* vsnprintf writes a NUL */
    if (!buf->error) {
        va_start(args, fmt);
        (void)vsnprintf(space, (size_t)size + 1, fmt, args);
        va_end(args);
        buf_commit(buf, (size_t)size);
    }
    return buf->error;
}

void buf_extend(char *text, size_t size, const char *fmt, ...)
{
    size_t used = strlen(text);
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text + used, size - used, fmt, args);
    va_end(args);
}

const char *buf_text(struct buf *buf)
{
    char *space = NULL;
    if (buf_reserve(buf, 1, &space) < 0) {
        return "";
    }
    *space = '\0';
    return buf_bytes(buf);
}

void buf_append_buf(struct buf *buf, const struct buf *other)
{
    (void)buf_append(buf, buf_bytes(other), buf_size(other));
    buf->error = buf->error ? buf->error : other->error;
}

void buf_cut(struct buf *buf, size_t size)
{
    assert(size <= buf_size(buf));
    buf->end = buf->start + size;
    buf->error = 0;
}

void buf_consume(struct buf *buf, size_t size)
{
    assert(size <= buf_size(buf));
    buf->start += size;
    if (buf->start == buf->end) {
        buf->start = 0;
        buf->end = 0;
    }
}

void buf_clear(struct buf *buf, size_t keep)
{
    if (buf->capacity > keep) {
        buf_done(buf);
    }
    buf->start = 0;
    buf->end = 0;
    buf->error = 0;
}
