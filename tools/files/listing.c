#include "tools/files/listing.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/normal.h"
#include "base/own.h"
#include "base/word.h"
#include "tools/content/content.h"

enum { LISTING_READ = 20000 };

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void append_entry(int dir_fd, const char *name, struct buf *text)
{
    struct stat st;
    char size[16];
    char target[PATH_MAX];
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return; /* the directory is gone */
    }
    ssize_t length = S_ISLNK(st.st_mode) ? readlinkat(dir_fd, name, target, sizeof target - 1) : 0;
    target[length > 0 ? length : 0] = '\0';
    word_append(text, name, strlen(name));
    if (S_ISDIR(st.st_mode)) {
        buf_append_text(text, "/\n");
    } else if (S_ISLNK(st.st_mode)) {
        buf_append_text(text, " -> ");
        word_append_next(text, target, strlen(target));
        buf_append_text(text, "\n");
    } else if (!S_ISREG(st.st_mode)) {
        buf_append_text(text, " (not a regular file)\n");
    } else {
        buf_appendf(text, " (%s)\n", content_size((uint64_t)st.st_size, size));
    }
}

int listing_read(DIR *dir, struct listing *ret_listing)
{
    struct listing listing = {.names = calloc(LISTING_READ, sizeof *listing.names)};
    const struct dirent *entry = NULL;
    if (!listing.names) {
        return -ENOMEM;
    }
    while (!listing.more && (entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        listing.more = listing.count == LISTING_READ;
        char *name = listing.more ? NULL : strdup(entry->d_name);
        if (name) {
            listing.names[listing.count++] = name;
        }
    }
    qsort(listing.names, listing.count, sizeof *listing.names, compare_names);
    *ret_listing = listing;
    return 0;
}

void listing_done(struct listing *listing)
{
    for (size_t i = 0; i < listing->count; i++) {
        free(listing->names[i]);
    }
    free(listing->names);
    *listing = (struct listing){};
}

static int compose(int dir_fd, const struct listing *listing, const char *path, long long first,
                   long long last, struct buf *text)
{
    size_t count = listing->count;
    size_t at = first > 1 ? (size_t)first - 1 : 0;
    size_t limit = last > 0 && (size_t)last < count ? (size_t)last : count;
    size_t next = at;
    char shown[WORD_BYTES + 1];
    buf_appendf(text, "[directory %s, %zu%s %s]\n",
                word_show(path, strlen(path), shown, sizeof shown), count,
                listing->more ? " or more" : "", count == 1 ? "entry" : "entries");
    while (next < limit && buf_size(text) < LIMIT_TEXT_BYTES) {
        append_entry(dir_fd, listing->names[next++], text);
    }
    if (next < count && next > at) {
        buf_appendf(text, "[entries %zu-%zu of %zu; continue with start_line=%zu]\n", at + 1, next,
                    count, next + 1);
    }
    return buf_error(text);
}

int listing_compose(int dir_fd, const char *path, long long first, long long last, struct buf *text)
{
    defer_closedir DIR *dir = fd_directory(dir_fd);
    if (!dir) {
        return -errno;
    }
    OWNED(listing_done) struct listing listing = {};
    int r = listing_read(dir, &listing);
    return r ? r : compose(dirfd(dir), &listing, path, first, last, text);
}

json_t *listing_names(int dir_fd)
{
    defer_closedir DIR *dir = fd_directory(dir_fd);
    if (!dir) {
        return NULL;
    }
    OWNED(listing_done) struct listing listing = {};
    json_t *object = json_object();
    (void)listing_read(dir, &listing);
    for (size_t i = 0; i < listing.count; i++) {
        if (listing.names[i][0] != '.') {
            (void)json_object_set_new(object, listing.names[i], json_true()); /* not if not UTF-8 */
        }
    }
    return object;
}

const char *listing_same(const json_t *names, const char *name)
{
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach ((json_t *)(uintptr_t)names, key, value) {
        if (normal_same(key, name)) {
            return key;
        }
    }
    return NULL;
}
