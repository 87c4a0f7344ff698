#include "sandbox/init/usage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox/init/init.h"

enum {
    BLOCK = 512,
    SEEN = 8192, /* distinct files; what does not fit is counted each time */
    PROBES = 64,
    LINK_BYTES = 4096,
    PROC_BYTES = 1 << 20,
};

/* A table of files, by their inode; an inode of 0 is free. */
static struct {
    dev_t device;
    ino_t inode;
} seen[SEEN];

void usage_add_folder(struct usage *usage, int fd, unsigned depth, const struct usage *most)
{
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry = NULL;
    struct stat st;
    if (!dir) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return;
    }
    while (usage->bytes <= most->bytes && usage->entries <= most->entries &&
           (entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            continue;
        }
        usage->bytes += (uint64_t)st.st_blocks * BLOCK;
        usage->entries++;
        if (S_ISDIR(st.st_mode) && depth == 0) {
            usage->hides = true;
        } else if (S_ISDIR(st.st_mode)) {
            int below =
                openat(dirfd(dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            usage->hides = usage->hides || (below < 0 && errno == EACCES);
            usage_add_folder(usage, below, depth - 1, most);
        }
    }
    (void)closedir(dir);
}

void usage_begin(void)
{
    memset(seen, 0, sizeof seen);
}

static bool is_new(const struct stat *st)
{
    for (unsigned i = 0; i < PROBES; i++) {
        unsigned at = (unsigned)((st->st_ino + i) % SEEN);
        if (seen[at].device == st->st_dev && seen[at].inode == st->st_ino) {
            return false;
        }
        if (seen[at].inode == 0) {
            seen[at].device = st->st_dev;
            seen[at].inode = st->st_ino;
            return true;
        }
    }
    return true;
}

static DIR *open_proc(pid_t pid, const char *name)
{
    char path[48];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)proc_thread(pid), name);
    return opendir(path);
}

void usage_add_deleted(struct usage *usage, pid_t pid)
{
    static const char deleted[] = " (deleted)"; /* proc(5) */
    DIR *dir = open_proc(pid, "fd");
    const struct dirent *entry = NULL;
    struct stat st;
    while (dir && (entry = readdir(dir))) {
        char target[LINK_BYTES];
        ssize_t size = readlinkat(dirfd(dir), entry->d_name, target, sizeof target - 1);
        if (size <= 0 || target[0] != '/') {
            continue;
        }
        target[size] = '\0';
        /* A name of this length is cut; the number of links tells all the same. */
        if ((size < LINK_BYTES - 1 && !strstr(target, deleted)) ||
            fstatat(dirfd(dir), entry->d_name, &st, 0) < 0) {
            continue;
        }
        if (S_ISREG(st.st_mode) && st.st_nlink == 0 && is_new(&st)) {
            usage->bytes += (uint64_t)st.st_blocks * BLOCK;
            usage->entries++;
        }
    }
    if (dir) {
        (void)closedir(dir);
    }
}

uint64_t usage_flights(pid_t pid, const char *descriptor)
{
    static const char name[] = "scm_fds:"; /* unix_show_fdinfo(), net/unix/af_unix.c */
    char path[32];
    char text[1024];
    (void)snprintf(path, sizeof path, "fdinfo/%.16s", descriptor);
    const char *count = read_proc(pid, path, text, sizeof text) > 0 ? strstr(text, name) : NULL;
    return count ? strtoul(count + strlen(name), NULL, 10) : 0;
}

/* Whether a socket of pid has descriptors on their way to it. */
static bool has_flights(pid_t pid)
{
    DIR *dir = open_proc(pid, "fd");
    const struct dirent *entry = NULL;
    bool found = false;
    while (dir && !found && (entry = readdir(dir))) {
        char target[32] = "";
        found = readlinkat(dirfd(dir), entry->d_name, target, sizeof target - 1) > 0 &&
                strncmp(target, "socket:", strlen("socket:")) == 0 &&
                usage_flights(pid, entry->d_name) > 0;
    }
    if (dir) {
        (void)closedir(dir);
    }
    return found;
}

bool usage_hides(pid_t pid)
{
    static char maps[PROC_BYTES];
    size_t size = read_proc(proc_thread(pid), "maps", maps, sizeof maps);
    /* Shared memory without a name looks so too, and is none of a disk. */
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
    uint64_t sum = 0;
    static const char *const fields[] = {"wchar: ", "write_bytes: "};
    size_t size = read_proc(pid, "io", text, sizeof text);
    for (unsigned i = 0; size > 0 && i < sizeof fields / sizeof *fields; i++) {
        const char *found = strstr(text, fields[i]);
        sum += found ? strtoul(found + strlen(fields[i]), NULL, 10) : 0;
    }
    return sum;
}
