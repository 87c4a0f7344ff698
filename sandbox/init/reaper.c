/* The reaper removes what the kernel does not: the box's cgroup folders.
 *
 * Processes and mounts of a box end with its pid 1, also when the server is killed; a cgroup folder
 * stays until somebody removes it. So the server starts this program, outside of the box and in a
 * session of its own (a kill of the host's process group does not reach it), gives it the read end
 * of a pipe and the folders' parents, and lives. When the pipe ends, the server has: whatever is
 * still in the folders is killed and the folders go.
 *
 *   sandpiper-reaper NAME COUNT     fd 3: the pipe; fds 4 … 4+COUNT-1: the parent folders */
#include "sandbox/init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { REAPER_PIPE_FD = 3, REAPER_FIRST_FD = 4, REAPER_ROUNDS = 5000 };

static void kill_members(int parent_fd, const char *name)
{
    char path[128];
    char text[4096];
    (void)snprintf(path, sizeof path, "%s/cgroup.procs", name);
    int fd = openat(parent_fd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    ssize_t size = read(fd, text, sizeof text - 1);
    (void)close(fd);
    text[size > 0 ? size : 0] = '\0';
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        pid_t pid = (pid_t)strtoul(line, NULL, 10);
        if (pid > 1) {
            (void)kill(pid, SIGKILL);
        }
    }
}

int reaper_main(int argc, char **argv)
{
    if (argc != 3) {
        return 1;
    }
    const char *name = argv[1];
    int count = (int)strtoul(argv[2], NULL, 10);
    for (int signal = 1; signal < 32; signal++) {
        (void)sigaction(signal, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    }
    char byte = 0;
    ssize_t size = 0;
    do {
        size = read(REAPER_PIPE_FD, &byte, 1);
    } while (size > 0 || (size < 0 && errno == EINTR));
    for (int round = 0; round < REAPER_ROUNDS; round++) {
        int left = 0;
        for (int i = 0; i < count; i++) {
            if (unlinkat(REAPER_FIRST_FD + i, name, AT_REMOVEDIR) < 0 && errno != ENOENT) {
                left++;
                kill_members(REAPER_FIRST_FD + i, name);
            }
        }
        if (left == 0) {
            return 0;
        }
        struct timespec pause = {.tv_nsec = 1000000};
        (void)nanosleep(&pause, NULL);
    }
    return 1;
}
