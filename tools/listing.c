#include "tools/listing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/limits.h"
#include "tools/content.h"
#include "tools/path.h"

enum { LISTING_READ = 20000 };

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int append_entry(int dir_fd, char *name, struct buf *text)
{
    struct stat st;
    char size[16];
    char target[256];
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return 0; /* gone meanwhile */
    }
    ssize_t length = S_ISLNK(st.st_mode) ? readlinkat(dir_fd, name, target, sizeof target - 1) : 0;
    target[length > 0 ? length : 0] = '\0';
    path_make_printable(name, strlen(name));
    path_make_printable(target, strlen(target));
    if (S_ISDIR(st.st_mode)) {
        return buf_appendf(text, "%s/\n", name);
    }
    if (S_ISLNK(st.st_mode)) {
        return buf_appendf(text, "%s -> %s\n", name, target);
    }
    if (!S_ISREG(st.st_mode)) {
        return buf_appendf(text, "%s (not a regular file)\n", name);
    }
    return buf_appendf(text, "%s (%s)\n", name, content_size((uint64_t)st.st_size, size));
}

/* Names of an open folder, sorted; *ret_more: there are others. Returns their number. */
static size_t read_names(DIR *dir, char **names, bool *ret_more)
{
    size_t count = 0;
    const struct dirent *entry = NULL;
    *ret_more = false;
    while (!*ret_more && (entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        *ret_more = count == LISTING_READ;
        char *name = *ret_more ? NULL : strdup(entry->d_name);
        if (name) {
            names[count++] = name;
        }
    }
    qsort(names, count, sizeof *names, compare_names);
    return count;
}

/* Entries from index at up to limit, as many as one answer takes. *ret_next: behind the last of them. */
static int append_entries(int dir_fd, char **names, size_t at, size_t limit, struct buf *text,
                          size_t *ret_next)
{
    int r = 0;
    while (r == 0 && at < limit && buf_size(text) < LIMIT_TEXT_BYTES) {
        r = append_entry(dir_fd, names[at++], text);
    }
    *ret_next = at;
    return r;
}

static int compose(DIR *dir, char **names, const char *path, long long first, long long last,
                   struct buf *text)
{
    bool more = false;
    size_t count = read_names(dir, names, &more);
    size_t at = first > 1 ? (size_t)first - 1 : 0;
    size_t limit = last > 0 && (size_t)last < count ? (size_t)last : count;
    size_t next = at;
    int r = buf_appendf(text, "[directory %s, %zu%s %s]\n", path, count, more ? " or more" : "",
                        count == 1 ? "entry" : "entries");
    r = r ? r : append_entries(dirfd(dir), names, at, limit, text, &next);
    if (r == 0 && next < count && next > at) {
        r = buf_appendf(text, "[entries %zu-%zu of %zu; continue with start_line=%zu]\n", at + 1,
                        next, count, next + 1);
    }
    for (size_t i = 0; i < count; i++) {
        free(names[i]);
    }
    return r;
}

int listing_compose(int dir_fd, const char *path, long long first, long long last, struct buf *text)
{
    DIR *dir = fdopendir(dir_fd);
    if (!dir) {
        int r = -errno;
        (void)close(dir_fd);
        return r;
    }
    char **names = calloc(LISTING_READ, sizeof *names);
    int r = names ? compose(dir, names, path, first, last, text) : -ENOMEM;
    free(names);
    (void)closedir(dir);
    return r;
}

json_t *listing_names(int dir_fd)
{
    DIR *dir = fdopendir(dir_fd);
    if (!dir) {
        (void)close(dir_fd);
        return NULL;
    }
    bool more = false;
    json_t *object = json_object();
    char **names = calloc(LISTING_READ, sizeof *names);
    size_t count = names ? read_names(dir, names, &more) : 0;
    for (size_t i = 0; i < count; i++) {
        if (names[i][0] != '.') {
            (void)json_object_set_new(object, names[i], json_true()); /* not if not UTF-8 */
        }
        free(names[i]);
    }
    free(names);
    (void)closedir(dir);
    return object;
}
