#pragma once
#include <dirent.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct buf;

/* Names in a folder but "." and "..", sorted. */
struct listing {
    char **names;
    size_t count;
    bool more; /* there are others, too many to be listed */
};

/* 0 or -ENOMEM. */
int listing_read(DIR *dir, struct listing *ret_listing);
void listing_done(struct listing *listing);

/* A folder as text: one entry a line, folders with a slash, files with their size, sorted by name,
 * bounded; from entry number first (from 1) to last (0: as far as there is room). Looks at names
 * through dir_fd only and follows no link. dir_fd: taken. 0 or -errno. */
int listing_compose(int dir_fd, const char *path, long long first, long long last,
                    struct buf *text);

/* New: an object with the folder's names as keys, sorted, bounded; NULL when there is no memory or dir_fd is
 * no folder. dir_fd: taken. */
json_t *listing_names(int dir_fd);
