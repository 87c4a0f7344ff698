#pragma once
#include <stdbool.h>
#include <stddef.h>

struct buf;

bool ipynb_is(const char *path);

/* Appends a notebook of format 4 as text: its cells, and what they have printed; other outputs by
 * their types. 0, -ENOMEM, or -EINVAL: it is none. */
int ipynb_decode(const char *bytes, size_t size, struct buf *out);
