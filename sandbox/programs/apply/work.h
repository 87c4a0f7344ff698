#pragma once
#include "sandbox/programs/apply/apply.h"

/* One item at work: item.c checks and decides, place.c changes DIR. */

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

/* --- item.c --- */

/* Whether DIR's file is the one that the change began with. Where another item has replaced or
 * removed another name of the same file, the file's ctime is from that. */
bool work_is_before(const struct work *work, const struct apply_facts *now);
/* Whether the source is the one that was listed: 0, APPLY_BUSY or -errno. */
int work_check_source(const struct work *work);
/* The text of a symlink, with a NUL. Its length, or 0. */
size_t work_read_link(int dir_fd, const char *name, char text[APPLY_PATH_BYTES]);
/* Opens DIR's regular file for reading: the one that was found. -1: it cannot be read. */
int work_open_target(const struct work *work);
/* Whether somebody would write on into a file that is removed. */
bool work_is_written(int dir_fd, const char *name, const struct apply_facts *facts);

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
