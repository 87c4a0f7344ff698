#pragma once
#include <dirent.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/limits.h"
#include "sandbox/sandbox.h"

struct buf;
struct tools;

/* Paths as arguments of tools. The sandbox is the boundary, not these checks: a path leads the
 * server to the same file as the guest. */

/* Copies a path argument: a resource's URI becomes its path, "~" becomes the sandbox's home
 * directory, and a path of the host at or below one of the user's directories becomes the
 * sandbox's. Returns NULL, or the sentence that says what is wrong with it. */
const char *path_take(const struct box_spec *spec, const json_t *argument,
                      char out[LIMIT_PATH_BYTES]);

/* Whether symlinks lead the path, which is in the workspace as it is written, out of there.
 * leads_to: what box_file_resolve() has found. */
bool path_leads_out(const struct box_paths *paths, const char *path, const char *leads_to);

/* A sentence for an errno value of a file operation. It names the writable directories by their
 * paths. Returns out. */
const char *path_error(const struct box_paths *paths, const char *path, int error, char *out,
                       size_t size);

/* Splits off the last name: writes the directory it is in, "." for the current one, and returns
 * where the name begins. */
size_t path_split(const char *path, size_t size, char directory[LIMIT_PATH_BYTES]);

/* Names in a directory except "." and "..", sorted. */
struct listing {
    char **names;
    size_t count;
    bool more; /* there are others, too many to list */
};

/* 0 or -ENOMEM. */
int listing_read(DIR *dir, struct listing *ret_listing);
void listing_done(struct listing *listing);

/* A directory as text: one entry a line, directories with a slash, files with their size, sorted by
 * name, bounded; from entry number first (from 1) to last (0: as many as fit). Checks entries
 * through dir_fd only and follows no symlink. dir_fd: taken. 0 or -errno. */
int listing_compose(int dir_fd, const char *path, long long first, long long last,
                    struct buf *text);

/* New: an object with the directory's names as keys, sorted, bounded; NULL when out of memory or if
 * dir_fd is no directory. dir_fd: taken. */
json_t *listing_names(int dir_fd);

/* Finds what a caller may have meant by a path that does not exist. */

/* error: 0 or an errno value. text: the sentence to end the call with; borrowed. Without both, the
 * path is now that of a file whose name is the same but for how its characters are composed: open
 * it. */
typedef void (*not_found_fn)(void *arg, int error, const struct buf *text);

struct not_found {
    struct tools *tools;
    char *path;
    size_t end;      /* of path: the beginning that does not exist */
    unsigned climbs; /* how often it was shortened or changed, in all starts */
    unsigned mounts; /* of the user's directories that were looked into for it */
    char guess[LIMIT_PATH_BYTES];
    not_found_fn fn;
    void *arg;
};

/* path: borrowed until fn is called, maybe before this returns. Starts with lookup zeroed, and
 * again where the changed path does not exist either. */
void not_found_start(struct not_found *lookup, struct tools *tools, char path[LIMIT_PATH_BYTES],
                     not_found_fn fn, void *arg);

/* The same for a file that is to be made: looks only for another spelling of its path. Any text
 * says that there is none. */
void not_found_respell(struct not_found *lookup, struct tools *tools, char path[LIMIT_PATH_BYTES],
                       not_found_fn fn, void *arg);
