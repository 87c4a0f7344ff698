#pragma once
#include <stdbool.h>
#include <sys/types.h>

struct stat;

/* Tells that nothing has happened in a directory since the last scan, so that the next one can be
 * left out, inotify(7). It watches each directory that a scan reads, before it reads it. Where not
 * everything is reported it is off, and each call is scanned. */
struct watch {
    int fd;  /* an inotify instance, which the server polls too; -1: off */
    bool on; /* whatever changes after the last scan is reported */
    dev_t device;
    unsigned directories;
    int last; /* the number of the latest one */
};

/* Whether nothing has changed since the last scan began. Forgets what has. */
bool watch_is_quiet(struct watch *watch);
/* A scan of the directory begins, and has ended; whole: it has read all. */
void watch_begin(struct watch *watch, int root_fd);
void watch_end(struct watch *watch, int root_fd, bool whole);
/* Of each directory before it is read, and of each entry. */
void watch_directory(struct watch *watch, int fd);
void watch_entry(struct watch *watch, const struct stat *st);
