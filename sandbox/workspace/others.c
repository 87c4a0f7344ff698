/* Whether other sandboxes use a workspace: a walk may miss what they move. */
#include <fcntl.h>

#include "base/own.h"
#include "sandbox/types.h"
#include "sandbox/workspace/protected.h"

/* A directory is never open for writing, so nobody can hold a write lock on it; asking for one
 * reveals others' read locks. */
static struct flock lock_of(short type)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = 0x73616e64, .l_len = 1};
}

int box_protected_join(const struct box_spec *spec)
{
    struct flock lock = lock_of(F_RDLCK);
    int fd = spec->workspace ? open(spec->workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        (void)fcntl(fd, F_OFD_SETLK, &lock); /* if it fails, others are not noticed */
    }
    return fd;
}

bool box_protected_is_shared(int fd)
{
    struct flock lock = lock_of(F_WRLCK);
    return fd >= 0 && fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

void box_protected_leave(int *fd)
{
    struct flock lock = lock_of(F_UNLCK);
    if (*fd >= 0) {
        (void)fcntl(*fd, F_OFD_SETLK, &lock);
    }
    drop_fd(fd);
}
