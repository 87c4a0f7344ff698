#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* What the keeper says of changes, in a memfd: records one after the other, sorted by
 * apply_path_compare(). The server checks what it receives. */

enum change_flags {
    CHANGE_IN_DIR = 1,     /* the user has changed it in DIR since this change was begun */
    CHANGE_BARE = 2,       /* it lies in a git repository without .git, see refused.h */
    CHANGE_UNREADABLE = 4, /* its content could not be read */
    CHANGE_NOT_DONE = 8,   /* of a discard: error */
    CHANGE_MOVED = 64,     /* the server's own: a line says that a directory was moved with it */
    CHANGE_RAW = 32,       /* its part of the patch is not UTF-8, so no result can show it */
    CHANGE_INVISIBLE = 16, /* it adds characters that are not seen, or change how others are */
};

struct change_record {
    uint32_t size; /* of the record, its path with a NUL, and padding to 8 */
    char sign;     /* '+', '~', '-' */
    uint8_t flags;
    uint16_t before;   /* 0777 bits of what is changed in DIR */
    uint32_t mode;     /* st_mode; of a deleted file what it was in DIR */
    uint32_t added;    /* lines; UINT32_MAX: binary or unknown */
    uint32_t removed;  /* the same */
    int32_t error;     /* errno of CHANGE_NOT_DONE, or 0 */
    uint64_t bytes;    /* of the file, or of what it was */
    uint64_t patch_at; /* where its part of the patch is, in CHANGE_PATCH_NAME; size 0: none */
    uint64_t patch_size;
    uint64_t hash;         /* of what is new or gone; 0: unknown, or neither. Only to compare it */
    uint32_t target_bytes; /* of a symlink's target, which follows the path with a NUL; 0: none */
    uint32_t reserved;
    char path[]; /* relative to the workspace */
};

/* The whole patch, among the overflow files. */
#define CHANGE_PATCH_NAME "changes.diff"

/* Appends a record; its sizes are taken from path and target, which may be NULL. 0 or -ENOMEM. */
int change_record_add(struct buf *records, const struct change_record *record, const char *path,
                      const char *target);
/* The target of a symlink, or NULL. */
const char *change_record_target(const struct change_record *record);

/* Whether the mode is worth a word: others gain something, all of a directory, or nothing else has
 * changed. */
bool change_record_shows_mode(const struct change_record *record);

/* Whether these bytes, aligned to 8, are records that can be read without further checks. */
bool change_records_are_valid(const void *records, size_t size);

/* The record after this one of valid ones; NULL: the first. NULL at the end. */
const struct change_record *change_record_next(const void *records, size_t size,
                                               const struct change_record *record);
