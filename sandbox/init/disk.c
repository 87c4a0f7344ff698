/* Watches what an errand writes to the stage, which is on the host's disk and has no quota. Soft, as the
 * watchdog of the memory is: it looks now and then, and rests ten times as long as a look takes. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/limits.h"
#include "sandbox/init/init.h"

enum { BLOCK = 512, REST = 10, DEPTH = LIMIT_PACKAGE_DEPTH + 8 };

static uint64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

struct sum {
    uint64_t bytes;
    uint64_t entries;
    bool hides; /* folders that cannot be read, or deeper ones than a layer may have */
};

/* What moves meanwhile may be missed or counted twice: the next look tells. fd: taken. */
static void add_folder(struct sum *sum, int fd, unsigned depth)
{
    DIR *dir = fdopendir(fd);
    const struct dirent *entry = NULL;
    struct stat st;
    if (!dir) {
        (void)close(fd);
        return;
    }
    while ((entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            continue;
        }
        sum->bytes += (uint64_t)st.st_blocks * BLOCK;
        sum->entries++;
        if (S_ISDIR(st.st_mode) && depth == DEPTH) {
            sum->hides = true;
        } else if (S_ISDIR(st.st_mode)) {
            int below =
                openat(dirfd(dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            if (below >= 0) {
                add_folder(sum, below, depth + 1);
            }
            sum->hides = sum->hides || (below < 0 && errno == EACCES);
        }
    }
    (void)closedir(dir);
}

static bool is_disk_nearly_full(void)
{
    struct statvfs fs;
    /* A tmpfs without a bound says 0 of 0 blocks. */
    return statvfs("/stage", &fs) == 0 && fs.f_blocks > 0 &&
           (uint64_t)fs.f_bavail * fs.f_frsize < LIMIT_DISK_SPARE_BYTES;
}

void watch_disk(const struct init *init)
{
    static uint64_t next_ms;
    struct sum sum = {};
    uint64_t began_ms = now_ms();
    if (!init->guest_runs || began_ms < next_ms) {
        return;
    }
    int fd = open("/stage", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0) {
        add_folder(&sum, fd, 0);
    }
    next_ms = now_ms() + INIT_DISK_MS + REST * (now_ms() - began_ms);
    if (sum.bytes > init->config->stage_bytes || sum.entries > 2ULL * LIMIT_PACKAGE_FILES ||
        sum.hides || is_disk_nearly_full()) {
        init_send(&(struct wire_reply){.event = WIRE_DISK, .disk_bytes = sum.bytes}, -1);
        (void)family_signal(init->root, SIGKILL);
        next_ms = UINT64_MAX;
    }
}
