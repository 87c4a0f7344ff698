#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "base/path.h"
#include "sandbox/programs/apply/apply.h"
#include "sandbox/programs/common/git_index.h"

/* What a user's index of git lists. */
struct entry {
    const char *path;
    uint32_t mtime_s;
    uint32_t bytes;
};

static struct {
    char path[APPLY_PATH_BYTES]; /* of the index */
    unsigned char *bytes;
    struct entry *entries; /* sorted by path, as the index is */
    size_t count;
} tracked;

/* Of an index that is not understood there are none, nor of version 4, which shortens paths. */
static void find_entries(size_t size)
{
    struct git_index index;
    struct entry entry;
    bool known = git_index_begin(&index, tracked.bytes, size) && index.version < 4 &&
                 index.left <= size / GIT_ENTRY_OBJECT;
    tracked.entries = calloc(known ? index.left + 1UL : 1, sizeof *tracked.entries);
    for (const unsigned char *at = NULL;
         known && tracked.entries && (at = git_index_next(&index, &entry.path));) {
        entry.mtime_s = git_index_number(at + GIT_ENTRY_MTIME);
        entry.bytes = git_index_number(at + GIT_ENTRY_SIZE);
        tracked.entries[tracked.count++] = entry;
    }
    tracked.count = known && index.at > 0 ? tracked.count : 0;
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

static int compare_path(const void *path, const void *entry)
{
    return strcmp(path, ((const struct entry *)entry)->path);
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
            const struct entry *entry = tracked.count
                                            ? bsearch(name, tracked.entries, tracked.count,
                                                      sizeof *tracked.entries, compare_path)
                                            : NULL;
            return entry && entry->bytes == (uint32_t)facts->bytes &&
                   entry->mtime_s == (uint32_t)(facts->mtime_ns / 1000000000);
        }
    }
    return false;
}
