/* Preloaded into a server, so that a test need not wait for what takes minutes: CLOCK_MONOTONIC is
 * ahead by as many seconds as the file SANDPIPER_TEST_LATER begins with, a native long. The server
 * notices with the next event that wakes it. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const volatile long *ahead_s;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("SANDPIPER_TEST_LATER");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *mapped = mmap(NULL, sizeof *ahead_s, PROT_READ, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) {
        abort();
    }
    (void)close(fd);
    ahead_s = mapped;
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock_id, struct timespec *tp)
{
    int r = (int)syscall(SYS_clock_gettime, clock_id, tp);
    if (r == 0 && clock_id == CLOCK_MONOTONIC && ahead_s) {
        tp->tv_sec += *ahead_s;
    }
    return r;
}
