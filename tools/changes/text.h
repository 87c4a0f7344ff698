#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "sandbox/sandbox.h"
#include "tools/changes/paths.h"

/* The texts of list_changes and apply_changes. Pure. All functions return 0 or -ENOMEM, and append
 * whole lines of LIMIT_TEXT_BYTES at most and a last one. */

struct changes_view {
    const void *records; /* valid, see apply_journal.h */
    size_t size;
    const struct changes_paths *paths;
    const struct refused_rules *rules; /* NULL: of changes that are discarded */
    const char *patch_path;            /* of the whole patch, as code sees it */
    json_t *unshown; /* {path: true} of those for which a list had no space; is changed. NULL: of
                        changes that are discarded */
};

/* Whether a record is at path or in it. arg: const struct changes_view. */
bool changes_view_have(const void *arg, const char *path);

/* One line for each change, or for each directory that was moved, and how many there are. */
int changes_text_list(const struct changes_view *view, struct buf *out);

/* Appends bytes of the whole patch. 0 or -errno. */
typedef int (*changes_patch_fn)(void *arg, uint64_t at, size_t size, struct buf *out);

/* The patch of the files that fit; or what read returns. */
int changes_text_patch(const struct changes_view *view, changes_patch_fn read, void *arg,
                       struct buf *out);

/* For people: all changes, each with its part of the patch, as an array of parts of
 * LIMIT_VIEW_BYTES:
 * {"changes": [[line, patch]...]}; "end" of the first is how the list ends. An empty line goes on
 * with the file before it. New; NULL: out of memory, or read has failed. */
json_t *changes_text_parts(const struct changes_view *view, changes_patch_fn read, void *arg);

/* Of a list that nobody gets. */
void changes_text_none(const struct changes_view *view);

/* Adds to the last line of a result that so many processes of code run, if any. */
int changes_text_running(unsigned processes, struct buf *out);

/* What has become of an apply. */
struct changes_applied {
    const struct apply_journal *journal; /* of what was to be applied; NULL: nothing was begun */
    struct buf refused;                  /* of struct changes_refused, each with its name */
    size_t refused_last;                 /* size of the last one; 0: none */
    size_t refused_count;                /* of changes */
    int error;                           /* see box_applied_fn */
    const json_t *unshown;               /* see changes_view */
};

/* The row of a git directory that is not applied because a part of it is a conflict. */
#define CHANGES_TORN "torn"

/* Notes that a change is not applied unless refused->size bytes of its path are named. Sorted. */
int changes_refuse(struct changes_applied *applied, const char *path,
                   const struct refused *refused);
void changes_applied_done(struct changes_applied *applied);

/* How a result ends. */
struct changes_end {
    size_t left;      /* changes that are not applied now; SIZE_MAX: unknown */
    const char *path; /* of a file that has all lines, as code sees it, or NULL */
    size_t cached;    /* of left: in caches that no path names, */
    size_t ignored;   /* and ignored by .gitignore files, which no path names */
    bool is_cut;      /* set: there are more lines than fit */
    bool is_error;    /* set: nothing is done, or a conflict is named, or a discard failed */
};

int changes_text_applied(const struct changes_applied *applied, const struct changes_paths *paths,
                         struct changes_end *end, struct buf *out);
/* All its lines, however many. */
int changes_text_applied_whole(const struct changes_applied *applied,
                               const struct changes_paths *paths, struct buf *out);
int changes_text_discarded(const struct changes_view *view, struct changes_end *end,
                           struct buf *out);

/* How many records there are. */
size_t changes_count(const void *records, size_t size);

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
