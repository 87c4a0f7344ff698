#pragma once
#include <linux/limits.h>
#include <sys/types.h>

/* A directory of a test's own below TMPDIR. All paths that follow are relative to it. */
struct temp {
    char path[256];
    int fd;
};

void temp_make(struct temp *temp);
/* Removes the directory with all that is in it. */
void temp_remove(struct temp *temp);

/* Missing directories of the path are made. */
void temp_directory(const struct temp *temp, const char *name);
void temp_file(const struct temp *temp, const char *name, const char *content, mode_t mode);
void temp_link(const struct temp *temp, const char *target, const char *name);
/* The absolute path of name, into out. Returns out. */
const char *temp_path(const struct temp *temp, const char *name, char out[PATH_MAX]);
