#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "base/path.h"
#include "sandbox/programs/apply/apply.h"

/* The entries of a user's index of git, gitformat-index(5), versions 2 and 3. */
static struct {
    char path[APPLY_PATH_BYTES]; /* of the index */
    unsigned char *bytes;
    const unsigned char **entries; /* sorted by name */
    size_t count;
} tracked;

enum { INDEX_HEADER = 12, INDEX_TIME = 8, INDEX_SIZE = 36, INDEX_FLAGS = 60, INDEX_NAME = 62 };

static uint32_t number_at(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static const char *name_of_entry(const unsigned char *entry)
{
    return (const char *)entry + INDEX_NAME + (entry[INDEX_FLAGS] & 0x40 ? 2 : 0);
}

/* Of an index that is not understood there are none. */
static void find_entries(size_t size)
{
    bool known = size > INDEX_HEADER && memcmp(tracked.bytes, "DIRC\0\0\0", 7) == 0 &&
                 (tracked.bytes[7] == 2 || tracked.bytes[7] == 3);
    uint32_t count = known ? number_at(tracked.bytes + 8) : 0;
    tracked.entries = calloc(count < size ? count + 1UL : 1, sizeof *tracked.entries);
    for (size_t at = INDEX_HEADER; tracked.entries && tracked.count < count && count < size;) {
        const unsigned char *entry = tracked.bytes + at;
        const char *name = at + INDEX_NAME + 2 < size ? name_of_entry(entry) : NULL;
        const char *end =
            name ? memchr(name, 0, size - (size_t)(name - (char *)tracked.bytes)) : NULL;
        if (!end) {
            tracked.count = 0;
            return;
        }
        tracked.entries[tracked.count++] = entry;
        at += ((size_t)(end - (const char *)entry) + 8) & ~(size_t)7;
    }
}

/* The whole file: heap, *ret_size. fstat(2) is none of this program's calls. NULL: too large, or no
 * memory. */
static unsigned char *read_all(int fd, size_t *ret_size)
{
    enum { FIRST_BYTES = 1 << 16, MOST_BYTES = 256 << 20 };
    unsigned char *bytes = NULL;
    size_t used = 0;
    ssize_t got = 1;
    for (size_t space = FIRST_BYTES; got > 0 && space <= MOST_BYTES; space *= 2) {
        unsigned char *more = realloc(bytes, space);
        if (!more) {
            break;
        }
        bytes = more;
        while (used < space && (got = read(fd, bytes + used, space - used)) > 0) {
            used += (size_t)got;
        }
    }
    if (got != 0) {
        free(bytes);
        bytes = NULL;
    }
    *ret_size = used;
    return bytes;
}

/* tracked becomes what the index has; without bytes where there is none. */
static void read_index(const struct apply_run *run, const char *path)
{
    const char *name = NULL;
    size_t size = 0;
    if (strcmp(tracked.path, path) == 0) {
        return;
    }
    defer_close int parent = apply_open_parent(run->dir_fd, run->mount_id, path, &name);
    defer_close int fd =
        parent < 0 ? -1 : openat(parent, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    free(tracked.bytes);
    free(tracked.entries);
    tracked.entries = NULL;
    tracked.count = 0;
    (void)snprintf(tracked.path, sizeof tracked.path, "%s", path);
    tracked.bytes = read_all(fd, &size);
    if (tracked.bytes) {
        find_entries(size);
    }
}

static int compare_name(const void *name, const void *entry)
{
    return strcmp(name, name_of_entry(*(const unsigned char *const *)entry));
}

bool apply_is_tracked(const struct apply_run *run, const char *path,
                      const struct apply_facts *facts)
{
    char index[APPLY_PATH_BYTES];
    char above[APPLY_PATH_BYTES];
    (void)snprintf(above, sizeof above, "%s", path);
    for (bool more = true; more;) {
        more = path_cut_last(above);
        const char *top = more ? above : "";
        if ((size_t)snprintf(index, sizeof index, "%s%s.git/index", top, *top ? "/" : "") >=
            sizeof index) {
            return false;
        }
        read_index(run, index);
        if (strcmp(tracked.path, index) == 0) {
            const char *name = path + strlen(top) + (*top != 0);
            const unsigned char *const *entry = tracked.count
                                                    ? bsearch(name, tracked.entries, tracked.count,
                                                              sizeof *tracked.entries, compare_name)
                                                    : NULL;
            return entry && number_at(*entry + INDEX_SIZE) == (uint32_t)facts->bytes &&
                   number_at(*entry + INDEX_TIME) == (uint32_t)(facts->mtime_ns / 1000000000);
        }
    }
    return false;
}
