/* Runs a fuzz target over each file of a directory, or over standard input when none is given (for
 * AFL++): the corpus is a regression test with any compiler. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

static uint8_t input[1 << 20];

static int replay_fd(int fd)
{
    size_t have = 0;
    ssize_t n = 0;
    while (have < sizeof input && (n = read(fd, input + have, sizeof input - have)) > 0) {
        have += (size_t)n;
    }
    return n < 0 ? -1 : LLVMFuzzerTestOneInput(input, have);
}

int main(int argc, char **argv)
{
    if (argc == 1) {
        return replay_fd(STDIN_FILENO) < 0;
    }
    DIR *dir = opendir(argv[1]);
    if (!dir) {
        perror(argv[1]);
        return 2;
    }
    unsigned seen = 0;
    struct dirent *entry = NULL;
    while ((entry = readdir(dir))) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        int fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || replay_fd(fd) < 0) {
            perror(entry->d_name);
            return 1;
        }
        (void)close(fd);
        seen++;
    }
    (void)closedir(dir);
    return seen ? 0 : 77; /* an empty corpus is a skip, not a pass */
}
