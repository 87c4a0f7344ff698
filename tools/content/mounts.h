#pragma once
#include <stdbool.h>
#include <stddef.h>

/* Describes the user's directories (--mount) to models. They are below /data if the sandbox has its
 * own root. */

struct box_spec;
struct buf;

/* " The user's directories, read-only: /data/a, /data/b; writable: /data/c." if that fits, else a
 * sentence that names none; empty when there are none. size: at least 72. */
void data_describe(const struct box_spec *spec, char *out, size_t size);

/* Appends a line for each directory with its path on the host, which a user may mention. 0 or
 * -ENOMEM */
int data_list(const struct box_spec *spec, struct buf *out);

/* The sandbox's path of what the user calls path: a path of the host at or below the workspace or a
 * mounted directory, unless it can as well be one of the sandbox. False: it is none. */
bool data_find(const struct box_spec *spec, const char *path, char *out, size_t size);

/* The same of the user's home directory with rest after it, such as "/Sandpiper/a.csv". */
bool data_find_home(const struct box_spec *spec, const char *rest, char *out, size_t size);

/* Writes "the user's directory /srv/in is /data/in here" if text has a path of the host at or below
 * such a directory. Returns whether it has one. */
bool data_explain(const struct box_spec *spec, const char *text, char *out, size_t size);

/* The place of a relative path in the mounted directory number at; "": it has none. False: there is
 * no such directory. */
bool data_beside(const struct box_spec *spec, unsigned at, const char *path, char *out,
                 size_t size);

/* Guesses the meaning of a path that does not exist: one that begins with the name of a mounted
 * directory. False: no guess. */
bool data_guess(const struct box_spec *spec, const char *path, char *out, size_t size);
