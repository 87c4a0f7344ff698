#pragma once
#include <stddef.h>

/* A growing run of bytes with a consumed front. Embedded; starts from BUF_EMPTY. */
struct buf {
    char *data;
    size_t start; /* first byte not yet consumed */
    size_t end;   /* one past the last byte */
    size_t capacity;
    int error; /* of an append: 0 or -ENOMEM */
};

#define BUF_EMPTY ((struct buf){})

void buf_done(struct buf *buf);

static inline size_t buf_size(const struct buf *buf)
{
    return buf->end - buf->start;
}

static inline const char *buf_bytes(const struct buf *buf)
{
    return buf->data ? buf->data + buf->start : "";
}

/* The content with a NUL behind it, which does not count; "" when out of memory. */
const char *buf_text(struct buf *buf);

/* 0, or -ENOMEM: an append has failed since the content was last cut or cleared. */
static inline int buf_error(const struct buf *buf)
{
    return buf->error;
}

/* Makes space for size more bytes and sets *ret_space to where they go; buf_commit() then counts
 * those that were written. *ret_space is never NULL, also for size 0. 0 or -ENOMEM. */
int buf_reserve(struct buf *buf, size_t size, char **ret_space);
void buf_commit(struct buf *buf, size_t size);

/* After one has failed, the following append nothing: buf_error() says so once, at the end. All
 * return the same. */
int buf_append(struct buf *buf, const void *bytes, size_t size);
int buf_append_text(struct buf *buf, const char *text);
__attribute__((format(printf, 2, 3))) int buf_appendf(struct buf *buf, const char *fmt, ...);

/* The same for a text in an array of size bytes, which has a NUL: appends as much as fits. */
__attribute__((format(printf, 3, 4))) void buf_extend(char *text, size_t size, const char *fmt,
                                                      ...);

/* Appends the content of other, and takes over its failure. */
void buf_append_buf(struct buf *buf, const struct buf *other);

/* Keeps only the first size bytes. */
void buf_cut(struct buf *buf, size_t size);

/* Drops size bytes at the front. */
void buf_consume(struct buf *buf, size_t size);

/* Forgets the content; frees the memory when it has grown past keep bytes. */
void buf_clear(struct buf *buf, size_t keep);
