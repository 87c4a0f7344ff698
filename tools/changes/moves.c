/* Directories that were moved: what is gone below one is new below another. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/limits.h"
#include "base/own.h"
#include "tools/changes/text.h"

enum { FILES_LEAST = 2, STEPS_MOST = 1000000 }; /* code chooses how many changes there are */

struct sides {
    struct change_record **gone; /* sorted by path */
    struct change_record **new;  /* the same */
    struct change_record **by_content;
    size_t gone_count;
    size_t new_count;
    size_t steps;
};

static int compare_paths(const void *one, const void *other)
{
    return strcmp((*(struct change_record *const *)one)->path,
                  (*(struct change_record *const *)other)->path);
}

static int compare_content(const void *one, const void *other)
{
    uint64_t a = (*(struct change_record *const *)one)->hash;
    uint64_t b = (*(struct change_record *const *)other)->hash;
    return a < b ? -1 : a > b;
}

static bool is_same(const struct change_record *gone, const struct change_record *new)
{
    return gone->mode == new->mode && gone->hash == new->hash &&
           (gone->hash != 0 || S_ISDIR(gone->mode));
}

static int compare_to_path(const void *path, const void *record)
{
    return strcmp(path, (*(struct change_record *const *)record)->path);
}

/* The new record of this path, or NULL. */
static struct change_record *find_new(const struct sides *sides, const char *path)
{
    struct change_record **found = bsearch(path, sides->new, sides->new_count,
                                           sizeof(struct change_record *), compare_to_path);
    return found ? *found : NULL;
}

/* How many records, from this one on, lie below a directory (size bytes of its path) and are new
 * below another; 0: not all that are gone there. marks: them, and those that they became. */
static size_t count_moved(struct sides *sides, size_t first, size_t size, const char *to,
                          bool marks)
{
    const char *from = sides->gone[first]->path;
    size_t count = 0;
    for (size_t i = first; i < sides->gone_count; i++) {
        struct change_record *gone = sides->gone[i];
        char path[LIMIT_PATH_BYTES];
        if (strncmp(gone->path, from, size) != 0 || gone->path[size] != '/') {
            break;
        }
        (void)snprintf(path, sizeof path, "%s%s", to, gone->path + size);
        struct change_record *new = sides->steps++ < STEPS_MOST ? find_new(sides, path) : NULL;
        if (!new || !is_same(gone, new)) {
            return 0;
        }
        gone->flags |= marks ? CHANGE_MOVED : 0;
        new->flags |= marks ? CHANGE_MOVED : 0;
        count++;
    }
    return count;
}

/* Writes where the directory went in which the record lay first. Returns how many went along. */
static size_t find_target(struct sides *sides, size_t first, size_t size, char to[LIMIT_PATH_BYTES])
{
    const struct change_record *gone = sides->gone[first];
    const char *rest = gone->path + size;
    size_t rest_size = strlen(rest);
    size_t at = 0;
    for (size_t end = sides->new_count; at < end;) { /* the first of its content */
        size_t middle = at + (end - at) / 2;
        bool before = sides->by_content[middle]->hash < gone->hash;
        at = before ? middle + 1 : at;
        end = before ? end : middle;
    }
    for (; gone->hash != 0 && at < sides->new_count && sides->steps++ < STEPS_MOST; at++) {
        const struct change_record *new = sides->by_content[at];
        size_t length = strlen(new->path);
        if (new->hash != gone->hash) {
            break;
        }
        if (length <= rest_size || strcmp(new->path + length - rest_size, rest) != 0) {
            continue;
        }
        (void)snprintf(to, LIMIT_PATH_BYTES, "%.*s", (int)(length - rest_size), new->path);
        size_t count = count_moved(sides, first, size, to, /* marks= */ false);
        if (count >= FILES_LEAST) {
            return count;
        }
    }
    return 0;
}

/* "docs/ -> documentation/ (31 files moved)" */
static void append_move(struct lines *lines, struct sides *sides, size_t first, size_t size,
                        const char *to)
{
    OWNED(buf_done) struct buf line = BUF_EMPTY;
    char from[LIMIT_PATH_BYTES];
    (void)snprintf(from, sizeof from, "%.*s", (int)size, sides->gone[first]->path);
    text_append_path(&line, from);
    buf_append_text(&line, "/ -> ");
    text_append_path(&line, to);
    buf_appendf(&line, "/ (%zu files moved)\n",
                count_moved(sides, first, size, to, /* marks= */ false));
    if (!buf_error(&line) && lines_have_space(lines, buf_size(&line))) {
        buf_append_buf(lines->out, &line);
        (void)count_moved(sides, first, size, to, /* marks= */ true);
    }
}

/* The largest directory that went as a whole and in which the record lay first. Returns how many
 * records it had. */
static size_t find_move(struct lines *lines, struct sides *sides, size_t first)
{
    const char *path = sides->gone[first]->path;
    const char *before = first > 0 ? sides->gone[first - 1]->path : "";
    char to[LIMIT_PATH_BYTES];
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        size_t size = (size_t)(slash - path);
        bool is_first = strncmp(before, path, size + 1) != 0;
        size_t count = is_first ? find_target(sides, first, size, to) : 0;
        if (count > 0) {
            append_move(lines, sides, first, size, to);
            return count;
        }
    }
    return 0;
}

int changes_text_moves(const struct changes_view *view, struct lines *lines)
{
    size_t count = changes_count(view->records, view->size);
    struct change_record **list = calloc(3 * count + 1, sizeof(struct change_record *));
    struct sides sides = {.gone = list, .new = list + count, .by_content = list + 2 * count};
    if (!list) {
        return -ENOMEM;
    }
    for (const struct change_record *at = NULL;
         (at = change_record_next(view->records, view->size, at));) {
        struct change_record *record = (void *)(uintptr_t)at;
        record->flags &= (uint8_t)~CHANGE_MOVED;
        struct refused refused;
        size_t size = 0;
        bool plain =
            (record->flags & ~CHANGE_RAW) == 0 && !changes_is_refused(view, record, &refused) &&
            changes_paths_left(view->paths, record->path, record->mode, &size) == CHANGES_LEFT_NONE;
        if (record->sign == '-') {
            sides.gone[sides.gone_count++] = record;
            record->hash = plain ? record->hash : 0;
        } else if (record->sign == '+' && plain) {
            sides.by_content[sides.new_count] = record;
            sides.new[sides.new_count++] = record;
        }
    }
    qsort(sides.gone, sides.gone_count, sizeof(struct change_record *), compare_paths);
    qsort(sides.new, sides.new_count, sizeof(struct change_record *), compare_paths);
    qsort(sides.by_content, sides.new_count, sizeof(struct change_record *), compare_content);
    for (size_t i = 0; i < sides.gone_count;) {
        size_t moved = find_move(lines, &sides, i);
        i += moved > 0 ? moved : 1;
    }
    free(list);
    return 0;
}
