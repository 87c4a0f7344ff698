#include "sandbox/limits/cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "base/parse.h"

enum { STALE_SECONDS = 10 };

void cgroup_hold(int fd)
{
    /* Anybody who can open the directory can lock it: a lock must not be waited for. */
    (void)flock(fd, LOCK_SH | LOCK_NB);
}

/* Whether name belongs to a sandbox whose server is gone. The number in it says nothing: the server
 * may be in another pid namespace, and pid 1 there. */
static bool is_stale(int parent_fd, const char *name)
{
    static const char prefix[] = "sandpiper-";
    const char *rest = NULL;
    uint64_t pid = 0;
    struct stat st;
    if (strncmp(name, prefix, sizeof prefix - 1) != 0 ||
        parse_digits(name + sizeof prefix - 1, &pid, &rest) < 0 || *rest != '-') {
        return false;
    }
    defer_close int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    /* A server may be about to lock a young one. */
    return fd >= 0 && fstat(fd, &st) == 0 && time(NULL) - st.st_ctime >= STALE_SECONDS &&
           flock(fd, LOCK_EX | LOCK_NB) == 0;
}

unsigned cgroup_sweep_stale(int parent_fd, bool remove)
{
    unsigned count = 0;
    defer_closedir DIR *dir = fd_entries(parent_fd);
    for (const char *name = NULL; (name = fd_next_name(dir));) {
        if (is_stale(parent_fd, name)) {
            count++;
            if (remove) {
                (void)unlinkat(parent_fd, name, AT_REMOVEDIR);
            }
        }
    }
    return count;
}
