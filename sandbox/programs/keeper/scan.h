#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct keeper;
struct record;

/* Finds what each path is, into found and round of the records. Returns false when there
 * are too many entries. */
bool scan(struct keeper *keeper);
/* Where init reports each call that changes files, and only code does: notes what one touches. */
void scan_touch(struct keeper *keeper, const char *path, uint32_t state);
/* Finds what has become of that, instead of what each path is: records, each once, heap. Sets
 * keeper->touched.lost where that is not known. What is still open for writing stays noted. */
struct record **scan_touched(struct keeper *keeper, size_t *ret_count);
/* The record of one path, made if need be. NULL: no memory. */
struct record *scan_record(struct keeper *keeper, const char *path);

/* --- whether a scan is needed --- */

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
