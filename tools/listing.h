#pragma once
#include <jansson.h>

struct buf;

/* A folder as text: one entry a line, folders with a slash, files with their size, sorted by name,
 * bounded. Looks at names through dir_fd only and follows no link. dir_fd: taken.
 * 0 or -errno. */
int listing_compose(int dir_fd, const char *path, struct buf *text);

/* New: an object with the folder's names as keys, bounded; NULL when there is no memory or dir_fd is
 * no folder. dir_fd: taken. */
json_t *listing_names(int dir_fd);
