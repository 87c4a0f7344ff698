#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "base/parse.h"
#include "sandbox/programs/common/proc.h"
#include "sandbox/programs/common/usage.h"

enum {
    BLOCK = 512,
    PROBES = 64,
    LINK_BYTES = 4096,
    PROC_BYTES = 1 << 20,
};

static struct inode_set seen; /* files; further ones are counted each time */

bool inode_set_add(struct inode_set *set, uint64_t device, uint64_t inode)
{
    const uint64_t key = (inode ^ device << 32) + 1; /* 0: a free slot */
    for (unsigned i = 0; i < PROBES; i++) {
        uint64_t *slot = &set->keys[(key + i) % INODE_SET_SIZE];
        if (*slot == key) {
            return false;
        }
        if (*slot == 0) {
            *slot = key;
            return true;
        }
    }
    return true;
}

void usage_add_directory(struct usage *usage, int fd, unsigned depth, const struct usage *most)
{
    defer_closedir DIR *dir = fd_directory(fd);
    const char *name = NULL;
    struct stat st;
    while (usage->bytes <= most->bytes && usage->entries <= most->entries &&
           (name = fd_next_name(dir))) {
        if (fstatat(dirfd(dir), name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            continue;
        }
        usage->bytes += (uint64_t)st.st_blocks * BLOCK;
        usage->entries++;
        if (S_ISDIR(st.st_mode) && depth == 0) {
            usage->hides = true;
        } else if (S_ISDIR(st.st_mode)) {
            int below = openat(dirfd(dir), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            usage->hides = usage->hides || (below < 0 && errno == EACCES);
            usage_add_directory(usage, below, depth - 1, most);
        }
    }
}

void usage_begin(void)
{
    seen = (struct inode_set){};
}

void usage_add_deleted(struct usage *usage, pid_t pid)
{
    static const char deleted[] = " (deleted)"; /* proc(5) */
    defer_closedir DIR *dir = open_proc(proc_thread(pid), "fd");
    struct stat st;
    for (const char *name = NULL; (name = fd_next_name(dir));) {
        char target[LINK_BYTES];
        ssize_t size = readlinkat(dirfd(dir), name, target, sizeof target - 1);
        if (size <= 0 || target[0] != '/') {
            continue;
        }
        target[size] = '\0';
        /* A target of this length is truncated; the number of links decides all the same. */
        if ((size < LINK_BYTES - 1 && !strstr(target, deleted)) ||
            fstatat(dirfd(dir), name, &st, 0) < 0) {
            continue;
        }
        if (S_ISREG(st.st_mode) && st.st_nlink == 0 && inode_set_add(&seen, st.st_dev, st.st_ino)) {
            usage->bytes += (uint64_t)st.st_blocks * BLOCK;
            usage->entries++;
        }
    }
}

uint64_t usage_flights(pid_t pid, const char *descriptor)
{
    char path[32];
    char text[1024];
    (void)snprintf(path, sizeof path, "fdinfo/%.16s", descriptor);
    size_t size = read_proc(pid, path, text, sizeof text);
    /* unix_show_fdinfo(), net/unix/af_unix.c */
    return size > 0 ? parse_field(text, "scm_fds:", 0) : 0;
}

/* Whether a socket of pid has descriptors in transit to it. */
static bool has_flights(pid_t pid)
{
    defer_closedir DIR *dir = open_proc(proc_thread(pid), "fd");
    bool found = false;
    for (const char *name = NULL; !found && (name = fd_next_name(dir));) {
        char target[32] = "";
        found = readlinkat(dirfd(dir), name, target, sizeof target - 1) > 0 &&
                strncmp(target, "socket:", strlen("socket:")) == 0 && usage_flights(pid, name) > 0;
    }
    return found;
}

bool usage_hides(pid_t pid)
{
    static char maps[PROC_BYTES];
    size_t size = read_proc(proc_thread(pid), "maps", maps, sizeof maps);
    /* Shared memory without a name looks the same, but is not on a disk. */
    for (const char *at = maps; size > 0 && (at = strstr(at, " (deleted)\n"));) {
        const char *line = at;
        while (line > maps && line[-1] != '\n') {
            line--;
        }
        const char *path = memchr(line, '/', (size_t)(at - line));
        if (path && strncmp(path, "/dev/zero", strlen("/dev/zero")) != 0) {
            return true;
        }
        at++;
    }
    return size + 1 >= sizeof maps || has_flights(pid);
}

uint64_t usage_written(pid_t pid)
{
    char text[1024];
    size_t size = read_proc(pid, "io", text, sizeof text);
    return size > 0 ? parse_field(text, "wchar:", 0) + parse_field(text, "write_bytes:", 0) : 0;
}
