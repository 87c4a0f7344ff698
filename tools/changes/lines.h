#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "tools/changes/paths.h"

/* What the texts of lists and of applications share. */

/* Also in quotes: what would read as another part of its line. */
void text_append_path(struct buf *out, const char *path);
const char *text_plural(size_t count);
/* Where changes are that are left out, see changes_paths_left(). */
const char *text_left(bool cached, bool ignored);

/* Lines that are appended while they fit, in front of the last one. */
struct lines {
    struct buf *out;
    size_t begin;    /* bytes before them */
    bool all;        /* fit */
    size_t left_out; /* lines */
};

bool lines_have_space(const struct lines *lines, size_t size);
/* Whether no line fits any more: then counts one, which need not be made. Code chooses how many
 * there are. */
bool lines_leave_out(struct lines *lines);
void lines_append(struct lines *lines, const struct buf *line);
/* Names the paths under which nothing has changed. has: tells it. */
void lines_append_unchanged(struct lines *lines, const struct changes_paths *paths,
                            bool (*has)(const void *arg, const char *path), const void *arg,
                            size_t *ret_count);
