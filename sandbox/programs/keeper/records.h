#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox/protocol/apply_journal.h"

struct buf;
struct keeper;

/* --- content: what a path is or was --- */

enum kind {
    KIND_NONE, /* there is nothing */
    KIND_FILE,
    KIND_LINK,
    KIND_DIRECTORY,
    KIND_OTHER, /* a FIFO or socket: no copy can be kept */
};

/* What one path was between two changes. Shared by what refers to it. */
struct version {
    struct version *next_known;   /* with facts in the same bucket */
    struct apply_facts facts;     /* of what it was last seen as; mode 0: it was not */
    struct apply_facts described; /* of what it was found as */
    int64_t found_ns;             /* ctime of the user's that code has found; 0: code has made it */
    unsigned references;
    enum kind kind;
    uint32_t mode; /* 0777 bits */
    bool kept;     /* data is there */
    int64_t mtime_ns;
    uint64_t bytes;
    uint64_t data_bytes; /* of data: what it takes, which holes do not */
    char *data;          /* of a file; the target of a symlink */
    char *attributes;    /* extended ones: name, NUL, size as uint32_t, value; or NULL */
    size_t attributes_size;
};

/* --- records: what is known of each path --- */

struct record {
    struct record *next; /* with the same hash */
    char *path;          /* relative to the workspace */
    struct version *now;
    struct apply_facts facts; /* at the last scan; mode 0: there is nothing */
    struct apply_facts found; /* by the current scan */
    uint32_t hash;
    uint32_t round;       /* of the scan that has seen it last */
    unsigned links;       /* names of the file at the last scan */
    unsigned found_links; /* by the current scan */
    unsigned steps;       /* that refer to it */
    bool noted;           /* facts were taken from a scan */
    bool stayed;          /* the same inode was there at the scan before */
    bool unread;          /* a directory that the last scan could not read */
    bool listed;          /* by scan_touched() */
    uint32_t maker;       /* state of the call that has touched it; 0: several have, */
    uint32_t making;      /* before the scan of this round */
    struct {
        bool covers;   /* a whiteout or opaque directory with cover_facts hides what the user has
                          there */
        bool based;    /* base is known */
        bool compared; /* facts with compared_to, the user's file at that time: */
        bool differs;
        bool same; /* it was what the user had as base: it follows that until code changes it */
        uint64_t same_hash; /* of its content then */
        int64_t below_ns;   /* ctime of the user's directory, all in which is known; 0: not known */
        bool listed;        /* these are what the last list has shown: */
        struct apply_facts listed_facts;
        uint64_t listed_hash;
        bool applied; /* the user's directory got what facts describe */
        bool is_bare; /* a git directory, whatever its name; and the same of a directory above it */
        bool in_bare;
        uint64_t lower_inode; /* of the user's directory of this name, when all was known; or 0 */
        bool adrift;          /* the user's directory that it lies in is gone, or another one */
        bool elsewhere;       /* see is_elsewhere() in scan.c; as of `looked`, by keeper.looks */
        uint32_t looked;
        struct apply_facts cover_facts;
        uint64_t index_hash;     /* see index_hash(): of what base describes */
        struct apply_facts base; /* of the user's file when the change was begun */
        struct apply_facts compared_to;
    } cow; /* with --cow */
    struct {
        unsigned turns; /* edits of a way that are to come at it */
        struct version *goal;
        size_t moves;     /* of directories, that come before the goal */
        char *moved_from; /* the name that holds the goal's file meanwhile, or NULL */
        unsigned mark;
        bool held;
        bool linked; /* what was written stays under other names of the file */
        bool awaits; /* some edit brings content to the name, or moves something from it */
        int error;
    } scratch; /* each for the function that sets it */
};

struct records {
    struct record **list;
    size_t count;
    size_t space;
};

/* table.c */
struct record *record_find(const struct keeper *keeper, const char *path);
/* Finds or makes it, with a NULL now. NULL: no memory, or too many. */
struct record *record_get(struct keeper *keeper, const char *path);
void record_drop(struct keeper *keeper, struct record *record);
/* For qsort(3) of pointers to records: by apply_path_compare(), so that a directory stands right
 * before what is in it. */
int record_compare(const void *one, const void *other);
/* All records, sorted by it: heap, *ret_count. NULL: no memory. */
struct record **records_sorted(const struct keeper *keeper, size_t *ret_count);
/* The next of all records, in no order; NULL: there are no more. The one before it may be dropped.
 */
struct records_at {
    uint32_t bucket;
    struct record *next;
};
struct record *records_next(const struct keeper *keeper, struct records_at *at);
/* None is held or awaited any more. */
void records_release(const struct keeper *keeper);
struct version *version_new(enum kind kind);
/* Makes the version what the facts describe, without a copy. */
void version_describe(struct version *version, const struct apply_facts *facts);
/* A new one. NULL: no memory. */
struct version *version_of(const struct apply_facts *facts);
struct version *version_take(struct version *version);
void version_release(struct keeper *keeper, struct version **version);
/* Releases what is there, and takes the other in its place. */
void version_set(struct keeper *keeper, struct version **version, struct version *to);
/* Frees those that nothing refers to and that are only known as what was put somewhere. */
void versions_forget(struct keeper *keeper);
/* What the version is at present: until the facts change, it is found by them. */
void version_seen_as(struct keeper *keeper, struct version *version,
                     const struct apply_facts *facts);
/* A file that has other names has lost one: that changes its facts, but not what it is. */
void versions_changed(struct keeper *keeper, const struct apply_facts *from,
                      const struct apply_facts *to);
/* Whether the facts are still those that the version was last seen as. */
bool version_is_at(const struct version *version, const struct apply_facts *facts);
/* The version that was last seen as this, borrowed, or NULL. */
struct version *version_known(const struct keeper *keeper, const struct apply_facts *facts);
/* Whether they differ in more than times: what is worth a name. */
bool version_differs(const struct version *one, const struct version *other);
enum kind kind_of_mode(uint32_t mode);
/* Of path, and not to be guessed: code chooses names. */
uint32_t table_hash(const char *path);
/* A list on the heap with count items of that size, where it has space for one more. NULL: no
 * memory, and the list stays. */
void *array_grow(void *list, size_t count, size_t *space, size_t size);
/* Adds an item to such a list: of a struct with list, count and space. Whether there was memory. */
#define array_add(to, ...)                                                                         \
    ({                                                                                             \
        __typeof__(to) to_ = (to);                                                                 \
        void *grown_ = array_grow(to_->list, to_->count, &to_->space, sizeof(typeof(*to_->list))); \
        if (grown_) {                                                                              \
            to_->list = grown_;                                                                    \
            to_->list[to_->count++] = (__VA_ARGS__);                                               \
        }                                                                                          \
        grown_ != NULL;                                                                            \
    })

/* place.c: no function follows a symlink, and none leaves the directory at root_fd. */
/* The directory that path is in, as O_PATH; *ret_name: the last part. A descriptor or -errno. */
int place_parent(int root_fd, const char *path, const char **ret_name);
/* 0, with mode 0 where there is nothing, or -errno. ret_links may be NULL. */
int place_look(int root_fd, const char *path, struct apply_facts *ret_facts, unsigned *ret_links);
/* The same; mode 0 also where nobody may look. */
struct apply_facts place_facts(int root_fd, const char *path);
/* Copies what facts describe. Returns a version, not kept where it has no space or changes
 * meanwhile; NULL: no memory. */
struct version *place_read(struct keeper *keeper, int root_fd, const char *path,
                           const struct apply_facts *facts);
/* Copies what is at path and is what the version was last seen as, if there is space. */
void place_keep(struct keeper *keeper, const char *path, struct version *version);
/* The bytes of a file or the target of a symlink, which facts describe: data has space for them,
 * and is zero.
 * False: they could not be read, or have changed. */
bool place_content(int root_fd, const char *path, const struct apply_facts *facts, char *data);
/* Whether the file at path, which facts describe, has the bytes of the version, of which there is a
 * copy. */
bool place_has_content(const struct keeper *keeper, const char *path,
                       const struct apply_facts *facts, const struct version *version);
/* Whether somebody has it open or mapped for writing: 1, 0 or -errno. */
int place_is_written(const struct keeper *keeper, const char *path);
/* For a file that is being written or has no other name at the moment: ".write-", 16 digits. */
enum { PLACE_TEMPORARY_NAME = 32 };
void place_temporary_name(char out[PLACE_TEMPORARY_NAME]);
/* Makes path in the workspace what version says. expected: what must be there until then, or NULL:
 * whatever; the user may change it at the same moment. *ret_put: of what it has put there; mode 0
 * if somebody has changed it since. 0; -ESTALE: something else is there, or somebody writes to it;
 * or -errno. */
int place_put(const struct keeper *keeper, const char *path, const struct version *version,
              const struct apply_facts *expected, struct apply_facts *ret_put);
/* The same into the file that is there, which keeps its other names. -EBUSY: somebody has it open.
 */
int place_put_over(const struct keeper *keeper, const char *path, const struct version *version,
                   const struct apply_facts *expected, struct apply_facts *ret_put);
/* The same by another name of the file at `other`, which has the content. */
int place_put_link(const struct keeper *keeper, const char *path, const char *other,
                   const struct apply_facts *expected, struct apply_facts *ret_put);
/* The same where the content is what it is to be: the file stays the one that others have open. */
int place_set_attributes(const struct keeper *keeper, const char *path,
                         const struct version *version, const struct apply_facts *expected,
                         struct apply_facts *ret_put);
/* Gives what is at path a name that nothing has. As above. */
int place_move(const struct keeper *keeper, const char *path, const char *target,
               const struct apply_facts *expected, struct apply_facts *ret_put);
/* The same with what is at path in another directory: its content, type and mode bits. */
int place_copy(const struct keeper *keeper, int from_fd, const char *path,
               const struct apply_facts *facts);
/* Gives a directory its mode and time back, after what is in it. */
void place_end_directory(const struct keeper *keeper, const char *path,
                         const struct version *version);
/* Removes it, if it is there; a directory only when it is empty. 0 or -errno. */
int place_remove(const struct keeper *keeper, const char *path);
/* Whether two files, symlinks or directories at path have the same content and mode bits. */
bool place_same(int one_fd, const struct apply_facts *one, int other_fd,
                const struct apply_facts *other, const char *path);

/* --- scan.c --- */

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

/* --- keeper.c --- */

/* What the status line says of changed files. */
struct rows {
    struct row *list;
    size_t count;
    size_t space;
};
enum row_kind {
    ROW_SURE,
    ROW_DOUBTED, /* it may be the user's own change */
    ROW_MOVED,   /* a directory, with all that is in it */
};
void rows_add(struct rows *rows, const struct record *record, const struct version *from,
              enum row_kind kind);
/* Appends the rows, as WIRE_KEPT_ROW items, and frees them. Returns how many files found no
 * space. */
uint32_t rows_tell(struct rows *rows, struct buf *text);
