#pragma once
#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/buf.h"

/* What the keeper says of changes, in a memfd: records one after the other, sorted by
 * apply_path_compare(). The server checks what it receives. */

enum change_flags {
    CHANGE_IN_DIR = 1,     /* the user has changed it in DIR since this change was begun */
    CHANGE_BARE = 2,       /* it lies in a git repository without .git, see workspace/protected.h */
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

/* What the applying process (programs/apply) is to do, and what it has done: one file or
 * memfd, which the process maps shared and updates after each item. So whoever continues after a
 * kill knows what is left, and which temporary name may have stayed. Written by the server; the
 * items come from the keeper. All numbers in the machine's byte order. */

#define APPLY_MAGIC 0x5350414cU

enum {
    APPLY_PATH_BYTES = 4096, /* with the NUL: PATH_MAX */
    APPLY_TEMPORARY_BYTES = APPLY_PATH_BYTES + 64,
    APPLY_ITEM_ALIGN = 8,
};

/* What stat(2) says of one file; mode 0: there is none. */
struct apply_facts {
    uint64_t inode;
    uint64_t bytes;
    int64_t ctime_ns;
    int64_t mtime_ns;
    uint32_t mode; /* st_mode */
    uint32_t reserved;
};

enum apply_status {
    APPLY_TO_DO,
    APPLY_DONE,     /* DIR has it now */
    APPLY_SAME,     /* DIR had it already */
    APPLY_CONFLICT, /* DIR's file is not the one in before */
    APPLY_BUSY,     /* the source changes while it is copied, or is not the one in source */
    APPLY_ODD,      /* a device, FIFO or socket, here or in DIR */
    APPLY_FULL,     /* directory to be removed that holds something else */
    APPLY_WRITTEN,  /* somebody has DIR's file open for writing */
    APPLY_LAST,     /* its content may be in another item, which is not applied */
    APPLY_REFUSED,  /* not chosen: there to be known */
    APPLY_FAILED,   /* error */
    APPLY_STATUS_COUNT,
};

enum apply_marks {
    APPLY_IMPLIED = 1,   /* a directory that has no line in a list: what is in it tells of it */
    APPLY_BARE = 2,      /* see CHANGE_BARE */
    APPLY_TORN = 4,      /* of a git directory, of which something else is a conflict */
    APPLY_UNLISTED = 8,  /* no list has shown it */
    APPLY_RELISTED = 16, /* it is not what the last list has shown */
    APPLY_UNREAD = 32,   /* a directory: what is in it could not be read, or lies too deep */
    APPLY_CACHED = 64,   /* it lies in a cache, and is not chosen: only its equal is kept for it */
};

struct apply_item {
    uint32_t size;   /* of the item, its path with a NUL, and padding to APPLY_ITEM_ALIGN */
    uint32_t status; /* enum apply_status */
    int32_t error;   /* errno of APPLY_FAILED */
    uint32_t marks;  /* enum apply_marks */
    uint32_t above;  /* how many directories of the path DIR had: none of them is made again */
    uint32_t reserved;
    uint64_t parent;           /* inode of the last of them; 0: DIR itself */
    struct apply_facts before; /* of DIR's file, when the change was begun */
    struct apply_facts source; /* of the file in the changes, as it was listed; mode 0: deleted */
    uint64_t hash;            /* of the source's content, content_hash(); 0: none. Writing through a
                                 mapping changes no facts */
    struct apply_facts after; /* of DIR's file; set by the process with APPLY_DONE, APPLY_SAME */
    char path[];              /* relative to DIR and to the changes; no "." and "..", no "//" */
};

/* In place of an inode, in before: what DIR had is not known. */
#define APPLY_UNKNOWN UINT64_MAX
/* The same of a temporary name: */
#define APPLY_MAKING UINT64_C(0)   /* the temporary name can only hold what is being made */
#define APPLY_MADE_NONE UINT64_MAX /* for a deletion */

struct apply_journal {
    uint32_t magic;
    uint32_t count;     /* of items */
    uint64_t size;      /* of the whole file */
    uint32_t owner_uid; /* of new files, where the process may choose */
    uint32_t owner_gid;
    uint64_t key[2];   /* of the hashes */
    uint32_t complete; /* 1: each item has a status */
    /* For which item the temporary name is, counted from 1; 0: for a directory above one. */
    uint32_t temporary_item;
    /* The inode that the process has made under the temporary name, or one of APPLY_MADE_NONE and
     * APPLY_MAKING. Any other inode there is what DIR had. */
    uint64_t temporary_inode;
    /* Path of the temporary name in DIR, written before it is made; empty: none. */
    char temporary[APPLY_TEMPORARY_BYTES];
    /* Items follow, sorted by apply_path_compare(). */
};

/* Whether path is one as an item has it: relative, of names only. */
bool apply_path_is_valid(const char *path);

/* Sorts paths as bytes with "/" before all others, so that what is in a directory comes right
 * after it. As strcmp(3). */
int apply_path_compare(const char *one, const char *other);

/* Whether path is in the directory, at any depth. */
bool apply_path_is_below(const char *path, const char *directory);

/* The size of the part of path that is a git directory, in any case; 0: it is in none. */
size_t apply_path_git_size(const char *path);

/* A journal in an empty buffer; then its items, in their order. 0, -ENOMEM, or -EINVAL for a path
 * that no item can have. Without a failure the buffer is a whole journal after each call. */
int apply_journal_begin(struct buf *journal, uint32_t owner_uid, uint32_t owner_gid);
int apply_journal_add(struct buf *journal, const char *path, const struct apply_facts *before,
                      const struct apply_facts *source);

/* Whether these bytes, aligned to APPLY_ITEM_ALIGN, are a journal whose items can be read without
 * further checks. A store's journal may be damaged. */
bool apply_journal_is_valid(const void *bytes, size_t size);

/* The item after this one of a valid journal; NULL: its first. NULL at the end. */
struct apply_item *apply_journal_next(const struct apply_journal *journal,
                                      const struct apply_item *item);

/* Of stat(2). A directory has 0 bytes: what is in it has facts of its own. */
struct apply_facts apply_facts_of(const struct stat *st);
/* Of a name in a directory, which is not followed; mode 0: nothing is there, or nobody may look. */
struct apply_facts apply_facts_in(int dir_fd, const char *name);

/* Whether a file is still the one that the facts describe. Of directories inode and mode count:
 * their size and times tell what is in them. */
bool apply_facts_equal(const struct apply_facts *one, const struct apply_facts *other);
/* The same, but any directory with the same mode is alike: an undo may have to make another one. */
bool apply_facts_alike(const struct apply_facts *one, const struct apply_facts *other);
/* As apply_facts_equal() without the ctime, which renaming and removing other names of a file
 * change. */
bool apply_facts_equal_moved(const struct apply_facts *one, const struct apply_facts *other);

/* Between the server (helpers.h) and the applying process (programs/apply). What is to be done
 * stands in the journal. */

/* The one message to the process, with the descriptors of DIR, the changes and the journal. */
enum { APPLY_FILTER_STEPS = 256 };
struct apply_request {
    uint32_t filter_count;
    uint32_t reserved;
    struct sock_filter filter[APPLY_FILTER_STEPS];
};

/* The process's one message, before it exits. */
struct apply_reply {
    int32_t error; /* > 0: why it has not begun */
};
