#include "tests/unit/temp.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/unit.h"

void temp_make(struct temp *temp)
{
    char path[200];
    const char *tmp = getenv("TMPDIR");
    (void)snprintf(path, sizeof path, "%s/sandpiper-unit-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(path));
    /* Without links in it, so that expected paths can be compared as text. */
    char *real = realpath(path, NULL);
    assert_non_null(real);
    (void)snprintf(temp->path, sizeof temp->path, "%s", real);
    free(real);
    temp->fd = open(temp->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(temp->fd >= 0);
}

static int remove_one(const char *path, const struct stat *, int, struct FTW *)
{
    return remove(path);
}

void temp_remove(struct temp *temp)
{
    enum { ROUNDS = 1000, PAUSE_NS = 10000000 };
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    (void)close(temp->fd);
    /* A helper of the tested code may remove things in it at the same moment. */
    for (unsigned i = 0; i < ROUNDS && nftw(temp->path, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0;
         i++) {
        (void)nanosleep(&pause, NULL);
    }
    assert_int_equal(access(temp->path, F_OK), -1);
}

static void make_parents(const struct temp *temp, const char *name)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s", name);
    for (char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdirat(temp->fd, path, 0755);
        *slash = '/';
    }
}

void temp_directory(const struct temp *temp, const char *name)
{
    make_parents(temp, name);
    assert_int_equal(mkdirat(temp->fd, name, 0755), 0);
}

void temp_file(const struct temp *temp, const char *name, const char *content, mode_t mode)
{
    make_parents(temp, name);
    int fd = openat(temp->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, strlen(content)), strlen(content));
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(close(fd), 0);
}

void temp_link(const struct temp *temp, const char *target, const char *name)
{
    make_parents(temp, name);
    assert_int_equal(symlinkat(target, temp->fd, name), 0);
}

const char *temp_path(const struct temp *temp, const char *name, char out[PATH_MAX])
{
    (void)snprintf(out, PATH_MAX, "%s/%s", temp->path, name);
    return out;
}
