#pragma once
#include <dirent.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct buf;

/* Names in a directory except "." and "..", sorted. */
struct listing {
    char **names;
    size_t count;
    bool more; /* there are others, too many to list */
};

/* 0 or -ENOMEM. */
int listing_read(DIR *dir, struct listing *ret_listing);
void listing_done(struct listing *listing);

/* A directory as text: one entry a line, directories with a slash, files with their size, sorted by
 * name, bounded; from entry number first (from 1) to last (0: as many as fit). Checks entries
 * through dir_fd only and follows no symlink. dir_fd: taken. 0 or -errno. */
int listing_compose(int dir_fd, const char *path, long long first, long long last,
                    struct buf *text);

/* New: an object with the directory's names as keys, sorted, bounded; NULL when out of memory or if
 * dir_fd is no directory. dir_fd: taken. */
json_t *listing_names(int dir_fd);

/* The one of those names that is the same but for how its characters are composed, or NULL. */
const char *listing_same(const json_t *names, const char *name);
