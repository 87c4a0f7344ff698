/* What the user's files were when each change was begun, in a file of the store: a later server
 * continues from there. Each entry is facts and a path with its NUL; of several for a path the last
 * one holds. The file is the server's own, code cannot reach it; a write that was cut short by a
 * kill ends what is read. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/own.h"
#include "sandbox/programs/keeper/changes.h"
#include "sandbox/programs/keeper/keeper.h"

#define BASE_NAME "base"
#define BASE_FRESH "base.new"

enum { BASE_MOST_BYTES = 256 << 20 };

static int base_open(const struct keeper *keeper, int flags)
{
    return keeper->store_fd < 0 ? -1
                                : openat(keeper->store_fd, BASE_NAME,
                                         flags | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
}

static void take(struct keeper *keeper, const char *bytes, size_t size)
{
    struct apply_facts facts;
    for (size_t at = 0; at + sizeof facts < size;) {
        const char *path = bytes + at + sizeof facts;
        const char *end = memchr(path, '\0', size - at - sizeof facts);
        struct record *record = end && apply_path_is_valid(path) ? record_get(keeper, path) : NULL;
        if (!end) {
            return;
        }
        if (record) {
            memcpy(&record->cow.base, bytes + at, sizeof facts);
            record->cow.based = true;
        }
        at = (size_t)(end + 1 - bytes);
    }
}

void base_load(struct keeper *keeper)
{
    struct stat st;
    defer_close int fd = base_open(keeper, O_RDONLY);
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_size <= 0 || st.st_size > BASE_MOST_BYTES) {
        return;
    }
    char *bytes = malloc((size_t)st.st_size);
    ssize_t got = bytes ? read(fd, bytes, (size_t)st.st_size) : -1;
    if (got > 0) {
        take(keeper, bytes, (size_t)got);
    }
    free(bytes);
}

static int append_entry(struct buf *out, const struct record *record)
{
    int r = buf_append(out, &record->cow.base, sizeof record->cow.base);
    return r ? r : buf_append(out, record->path, strlen(record->path) + 1);
}

struct rewriting {
    struct buf entries;
    int error;
};

static void take_found(struct keeper *keeper, struct record *record, void *arg)
{
    struct rewriting *rewriting = arg;
    if (!record->now) {
        record_drop(keeper, record);
    } else if (record->cow.based && rewriting->error == 0) {
        rewriting->error = append_entry(&rewriting->entries, record);
    }
}

/* Each server writes the file again, so that it does not grow with what comes and goes, and nothing
 * is added after an entry that was cut short. */
void base_loaded(struct keeper *keeper)
{
    struct rewriting rewriting = {.entries = BUF_EMPTY};
    records_each(keeper, take_found, &rewriting);
    if (keeper->store_fd >= 0 && rewriting.error == 0) {
        (void)unlinkat(keeper->store_fd, BASE_FRESH, 0);
        defer_close int fd = openat(keeper->store_fd, BASE_FRESH,
                                    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0 &&
            fd_write_all(fd, buf_bytes(&rewriting.entries), buf_size(&rewriting.entries)) == 0) {
            (void)renameat(keeper->store_fd, BASE_FRESH, keeper->store_fd, BASE_NAME);
        }
    }
    buf_done(&rewriting.entries);
}

void base_note(const struct keeper *keeper, const struct record *record)
{
    OWNED(buf_done) struct buf entry = BUF_EMPTY;
    if (keeper->store_fd < 0) {
        return;
    }
    defer_close int fd = base_open(keeper, O_WRONLY | O_APPEND);
    if (fd >= 0 && append_entry(&entry, record) == 0) {
        (void)write(fd, buf_bytes(&entry), buf_size(&entry));
    }
}
