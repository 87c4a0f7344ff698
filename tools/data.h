#pragma once
#include <stdbool.h>
#include <stddef.h>

/* The user's folders (--mount), at /data where a box has a root of its own, as models are told of them. */

struct box_spec;
struct buf;

/* " The user's folders, read-only: /data/a, /data/b; writable: /data/c." where that has room, else a
 * sentence that names none; empty when there are none. size: at least 72. */
void data_describe(const struct box_spec *spec, char *out, size_t size);

/* Appends a line for each folder with its place on the host, of which a user may speak. 0 or -ENOMEM */
int data_list(const struct box_spec *spec, struct buf *out);

/* What a path that leads nowhere may mean below /data: a path of the host into a folder that is shown,
 * or one that begins with a folder's name. False: nothing. */
bool data_guess(const struct box_spec *spec, const char *path, char *out, size_t size);
