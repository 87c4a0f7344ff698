#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Files, in the box's view and with the guest's rights. Part of sandbox.h, which others include. */

struct box;

enum box_write_mode { BOX_WRITE_OVERWRITE, BOX_WRITE_CREATE, BOX_WRITE_APPEND };

struct box_file {
    mode_t mode; /* S_IFREG, S_IFDIR, or what it is when error is EMEDIUMTYPE */
    bool existed;
    uint64_t size_bytes;
    uint32_t token; /* for box_file_commit / _abort; 0: nothing to commit */
};

/* error: 0 or an errno value; EMEDIUMTYPE: neither a regular file nor a folder. fd: taken by the
 * callee, -1 on error. Called once, later, or at the box's end with ECONNRESET. */
typedef void (*box_file_fn)(void *arg, int error, int fd, const struct box_file *file);

/* path: relative to /work, or absolute in the box; shorter than LIMIT_PATH_BYTES. Opens a regular
 * file or a folder for reading. 0 or -errno. */
int box_file_open(struct box *box, const char *path, box_file_fn fn, void *arg);

/* Opens for writing; missing folders are made. The new content takes the name at commit; an append
 * is in place at once. */
int box_file_write(struct box *box, const char *path, enum box_write_mode mode, box_file_fn fn,
                   void *arg);
int box_file_commit(struct box *box, uint32_t token, box_file_fn fn, void *arg);
void box_file_abort(struct box *box, uint32_t token);

/* Makes a file in the view's directory for whole outputs, which code can read and not write. fn: fd is for
 * writing. 0 or -errno. */
int box_output_make(struct box *box, const char *name, box_file_fn fn, void *arg);
void box_output_remove(struct box *box, const char *name);
