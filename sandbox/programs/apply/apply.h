#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/fd.h"
#include "sandbox/protocol/apply_journal.h"

/* Parts of the applying process. Results: 0, -errno, or a positive enum apply_status. */

/* A temporary name and its NUL: ".sandpiper-", 16 digits, ".tmp". */
enum { APPLY_TEMPORARY_NAME = 32 };

struct apply_run {
    int dir_fd;
    int upper_fd;
    uint64_t mount_id; /* of DIR */
    bool gives_away;   /* has CAP_CHOWN */
    struct apply_journal *journal;
    struct apply_item **items; /* by index */
    int *ahead;      /* by index: its file, whole and on the disk, without a name yet; or -1 */
    bool alone;      /* none can be made so */
    uint32_t ready;  /* the item, from 1, for which a directory makes way now: it can be made */
    bool unfinished; /* what is deleted may be in something that does not come, */
    bool unnamed;    /* or in something new that must be named */
    bool committed;  /* or in a new object of git */
    bool torn;       /* the same of a git directory: nothing more of it comes */
};

/* One name as it is at the moment. */
struct apply_look {
    struct apply_facts facts; /* mode 0: there is none */
    uint64_t mount_id;
    uid_t uid;
    gid_t gid;
    bool is_whiteout; /* a character device 0:0 */
};

/* Whether a directory makes way for it. */
static inline bool apply_is_in_way(const struct apply_item *item)
{
    return item->source.mode && !S_ISDIR(item->source.mode) && S_ISDIR(item->before.mode);
}

/* Whether most of it goes: as of a log that code has copied and emptied, or of a file that has
 * become a symlink to its new place. */
static inline bool apply_shortens(const struct apply_item *item)
{
    enum { PAGE = 4096 };
    uint64_t bytes = S_ISREG(item->source.mode) ? item->source.bytes : 0;
    return (S_ISREG(item->source.mode) || S_ISLNK(item->source.mode)) &&
           S_ISREG(item->before.mode) && item->before.bytes > 0 &&
           (bytes == 0 || (item->before.bytes >= PAGE && bytes < item->before.bytes / 2));
}

static inline bool apply_is_of_git(const struct apply_item *item)
{
    return apply_path_git_size(item->path) > 0;
}

/* main.c: whether the server still lives, and wants it done. */
bool apply_is_wanted(void);

/* --- place.c: names below DIR and below the changes --- */

/* Never follows a symlink; name "": dir_fd itself. 0 or -errno; -EXDEV: on another mount than DIR
 * (mount_id 0: any). */
int apply_facts_at(int dir_fd, const char *name, uint64_t mount_id, struct apply_look *ret_look);
/* The directory of path's last component, *ret_name, opened with O_PATH, one component after the
 * other. -ENOTDIR: one of them is a symlink or no directory. */
int apply_open_parent(int root_fd, uint64_t mount_id, const char *path, const char **ret_name);
/* Whether the user's repository that the file is in has its content: it is as the index has seen
 * it. Else code's alone may have it, as after `git stash -u`. */
bool apply_is_tracked(const struct apply_run *run, const char *path,
                      const struct apply_facts *facts);
/* Whether DIR has the directory in which the item is to be, or the last one above that which there
 * was, as it was collected. parent_fd: of the first, or negative. */
bool apply_is_above(const struct apply_run *run, const struct apply_item *item, int parent_fd);
/* renameat2(2) within one directory. 0 or -errno; -EINVAL: the file system has none of the
 * flags. */
int apply_rename(int dir_fd, const char *from, const char *to, unsigned flags);

/* Chooses a temporary name and records it in the journal: for this item (from 1; 0: for a directory
 * above one), in the directory of path in which name begins a component. */
int apply_name_temporary(struct apply_run *run, uint32_t item, const char *path, const char *name,
                         char temporary[APPLY_TEMPORARY_NAME]);
/* The journal names it no longer. */
void apply_forget_temporary(struct apply_run *run);
/* Removes it, whatever it is. 0, also when it has gone, or -errno; -ENOTEMPTY: a directory that
 * holds something. */
int apply_remove_temporary(int dir_fd, const char *temporary);
/* Whether what the temporary name holds was made by this process or the killed one before it. */
bool apply_is_ours(const struct apply_run *run, const struct apply_look *look);
/* Removes it if it is ours, and forgets it. */
void apply_discard_temporary(struct apply_run *run, int dir_fd, const char *temporary);

/* --- main.c --- */

/* The temporary name holds what DIR had: removes that if it is what the change began with. Else
 * puts it back, which had come between the check and the rename. 0, a status or -errno. */
int apply_finish_swap(const struct apply_item *item, int dir_fd, const char *temporary,
                      const char *name);

/* One item at work: main.c checks and decides, place.c changes DIR. */

struct work {
    struct apply_run *run;
    struct apply_item *item;
    uint32_t number; /* of the item, from 1 */
    int dir_fd;      /* the directory in DIR; -1: there is none */
    const char *name;
    struct apply_look target;
    int upper_fd; /* the directory in the changes */
    const char *upper_name;
    int source_fd;  /* of a regular file */
    uint64_t hash;  /* of DIR's file; 0: not read */
    bool last;      /* no other pass comes */
    bool more;      /* entries follow inside; the directory is kept writable */
    bool same;      /* DIR has the content already, */
    bool same_mode; /* and the mode */
};

/* Whether somebody would write on into DIR's file if that was removed. */
static inline bool work_is_written(const struct work *work)
{
    return fd_is_written_at(work->dir_fd, work->name, work->target.facts.mode) > 0;
}

/* --- main.c --- */

/* Whether DIR's file is the one that the change began with. Where another item has replaced or
 * removed another name of the same file, the file's ctime is from that. */
bool work_is_before(const struct work *work, const struct apply_facts *now);
/* Whether the source is the one that was listed: 0, APPLY_BUSY or -errno. */
int work_check_source(const struct work *work);
/* The text of a symlink, with a NUL. Its length, or 0. */
size_t work_read_link(int dir_fd, const char *name, char text[APPLY_PATH_BYTES]);
/* Opens DIR's regular file for reading: the one that was found. -1: it cannot be read. */
int work_open_target(const struct work *work);

/* --- place.c --- */

/* Makes the file without a name; it may not be on the disk yet. The descriptor, or -1. */
int work_make_ahead(struct work *work);
/* Makes what the changes have under a temporary name. 0, a status or -errno. */
int work_make(struct work *work, const char *temporary, int *ret_fd);
/* What was made takes the name. 0, a status or -errno. */
int work_replace(struct work *work);
/* DIR's directory or file keeps what is in it, and gets the mode. */
int work_change_mode(struct work *work);
/* A directory only if it is empty. */
int work_remove_target(struct work *work);
