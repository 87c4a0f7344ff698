/* The sweeper removes a folder of a server: what was put away in it while the server lives, and all of it
 * when that has ended. See sandbox/packages/packages.c and sandbox/room.c.
 *
 *   sandpiper-sweeper NAME [PREFIX]     fd 3: a pipe, a byte for each piece of rubbish; fd 4: the folder
 *                                       that NAME is in
 *
 * It also removes what others have left there: a server that was killed together with its sweeper. In a
 * folder such as /tmp that are only the rooms, known by PREFIX, their lock file, and whose both are. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sandbox/init/init.h"
#include "sandbox/init/tree.h"
#include "sandbox/start/sweeper.h"

enum {
    SWEEPER_PIPE_FD = 3,
    SWEEPER_FOLDER_FD = 4,
    SWEEPER_ROUNDS =
        3000, /* with a pause each: half a minute, for errands that the kernel is ending */
    SWEEPER_PAUSE_NS = 10000000,
    STALE_SECONDS = 10,
};

/* Calls fn for each entry of a folder whose name begins with prefix. */
static void each_entry(int parent_fd, const char *name, const char *prefix,
                       void (*fn)(int folder_fd, const char *name))
{
    int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry = NULL;
    while (dir && (entry = readdir(dir))) {
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0 && entry->d_name[0] != '.') {
            fn(dirfd(dir), entry->d_name);
        }
    }
    if (dir) {
        (void)closedir(dir);
    } else if (fd >= 0) {
        (void)close(fd);
    }
}

/* Whether nobody holds the lock of that server's folder. A young one may be just about to take it.
 * *ret_lock: held, or -1. */
static bool is_stale(int boxes_fd, const char *name, const char *lock, int *ret_lock)
{
    char path[300];
    struct stat st;
    (void)snprintf(path, sizeof path, "%s/%s", name, lock);
    int fd = openat(boxes_fd, path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    bool has_none = fd < 0 && errno == ENOENT;
    *ret_lock = fd;
    int r = fd < 0 ? fstatat(boxes_fd, name, &st, AT_SYMLINK_NOFOLLOW) : fstat(fd, &st);
    if (r < 0 || time(NULL) - st.st_mtime < STALE_SECONDS) {
        return false;
    }
    return has_none || (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0);
}

static void remove_stale(int boxes_fd, const char *name)
{
    int lock_fd = -1;
    if (is_stale(boxes_fd, name, "lock", &lock_fd)) {
        (void)tree_remove(boxes_fd, name);
    }
    if (lock_fd >= 0) {
        (void)close(lock_fd);
    }
}

/* Where others have their things, only what is certainly a room of this user's. */
static void remove_stale_room(int folder_fd, const char *name)
{
    struct stat room;
    struct stat lock;
    int lock_fd = -1;
    bool is_stale_one = is_stale(folder_fd, name, ROOM_LOCK, &lock_fd) && lock_fd >= 0;
    if (is_stale_one && fstat(lock_fd, &lock) == 0 && S_ISREG(lock.st_mode) &&
        lock.st_uid == geteuid() && fstatat(folder_fd, name, &room, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISDIR(room.st_mode) && room.st_uid == geteuid()) {
        (void)tree_remove(folder_fd, name);
    }
    if (lock_fd >= 0) {
        (void)close(lock_fd);
    }
}

static void remove_rubbish(int folder_fd, const char *name)
{
    (void)tree_remove(folder_fd, name);
}

int sweeper_main(int argc, char **argv)
{
    char bytes[64];
    ssize_t size = 0;
    if (argc < 2 || argc > 3) {
        return 1;
    }
    const char *name = argv[1];
    for (int signal = 1; signal < 32; signal++) {
        (void)sigaction(signal, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    }
    if (argc == 3) {
        each_entry(SWEEPER_FOLDER_FD, ".", argv[2], remove_stale_room);
    } else {
        each_entry(SWEEPER_FOLDER_FD, ".", "", remove_stale);
    }
    do {
        size = read(SWEEPER_PIPE_FD, bytes, sizeof bytes);
        if (size > 0) {
            each_entry(SWEEPER_FOLDER_FD, name, "rubbish-", remove_rubbish);
        }
    } while (size > 0 || (size < 0 && errno == EINTR));
    for (int round = 0; round < SWEEPER_ROUNDS; round++) {
        if (tree_remove(SWEEPER_FOLDER_FD, name)) {
            return 0;
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = SWEEPER_PAUSE_NS}, NULL);
    }
    return 1;
}
