#pragma once
#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fail.h"

/* A user's file that is read, and replaced as a whole or not at all. Other processes that do the
 * same wait: a lock on the file's directory is held from replace_read() to replace_done(). */

struct replace {
    char path[PATH_MAX]; /* the file, with symlinks resolved */
    int directory_fd;    /* has the lock; -1: none */
    bool exists;
    struct stat stat;
    struct buf text;
    char backup[PATH_MAX]; /* after replace_write(): the path of the old text; "": there was none */
};

#define REPLACE_NONE ((struct replace){.directory_fd = -1})

/* Reads path, which need not exist; makes missing directories. Refuses a file that is read-only or
 * whose owner a new one could not have. Waits for the lock. 0 or -errno. */
int replace_read(struct replace *file, const char *path, struct fail *ret_fail);

#define REPLACE_BACKUP ".before-sandpiper"

/* Keeps the old text beside the file, in the place of that of an earlier change, then puts the new
 * one in its place by rename(2), with the owner and mode of the old. Leaves nothing behind on
 * failure. -EBUSY when another program has written the file since it was read. 0 or -errno. */
int replace_write(struct replace *file, const char *text, size_t size, struct fail *ret_fail);

void replace_done(struct replace *file);
