#pragma once
#include <stdbool.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fail.h"

/* A user's file that is read, and replaced as a whole or not at all. */

struct replace {
    char *path; /* where it is, behind symbolic links */
    bool exists;
    struct stat stat;
    struct buf text;
    char *backup; /* after replace_write(): the old text; NULL when there was none */
};

/* Reads path, which need not exist. The file is the object's until replace_done(). 0 or -errno. */
int replace_read(struct replace *file, const char *path, struct fail *ret_fail);

/* Keeps the old text beside the file, in the first free name of path.bak, path.bak.1, …, then puts the
 * new one in its place by rename(2), with the owner and mode of the old. Folders that are missing are
 * made. Nothing is left of a failure. -EBUSY when somebody else has written the file since it was read. 0 or -errno. */
int replace_write(struct replace *file, const char *text, size_t size, struct fail *ret_fail);

void replace_done(struct replace *file);
