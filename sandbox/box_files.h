#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Files, at the sandbox's paths and with the guest's rights. */

struct box;

enum box_write_mode { BOX_WRITE_OVERWRITE, BOX_WRITE_CREATE, BOX_WRITE_APPEND };

struct box_file {
    mode_t mode; /* S_IFREG, S_IFDIR, or the actual type with EMEDIUMTYPE */
    bool existed;
    uint64_t size_bytes;
    uint32_t token;   /* for box_file_commit() or _abort(); 0: none, of an open file */
    const char *path; /* what box_file_resolve() has found */
};

/* error: 0 or an errno value; EMEDIUMTYPE: neither a regular file nor a directory; EBADF, EBADFD:
 * the permissions of the file, or of its directory, do not let code write there. fd: taken by the
 * callee, -1 on error. Called exactly once, later; with ECONNRESET when the sandbox dies. */
typedef void (*box_file_fn)(void *arg, int error, int fd, const struct box_file *file);

/* path: relative to /work, or absolute in the sandbox; shorter than LIMIT_PATH_BYTES. Opens a
 * regular file or a directory for reading. 0 or -errno. */
int box_file_open(struct box *box, const char *path, box_file_fn fn, void *arg);

/* Finds the one path of the file that path leads to: through no symlink, and without "." and "..";
 * relative if it is in the workspace, else absolute. The file, and directories, may be missing. */
int box_file_resolve(struct box *box, const char *path, box_file_fn fn, void *arg);
/* Opens such a path for writing and makes missing directories; ELOOP: a symlink is there now. The
 * new content gets the name at commit; an append changes the file at once. */
int box_file_write(struct box *box, const char *path, enum box_write_mode mode, box_file_fn fn,
                   void *arg);
/* replaced: the file that it may replace; NULL: any. Else fn gets ESTALE. */
int box_file_commit(struct box *box, uint32_t token, const struct stat *replaced, box_file_fn fn,
                    void *arg);
void box_file_abort(struct box *box, uint32_t token);

/* Makes a file in the directory of overflow files, which code can read but not write. fn: fd is for
 * writing. 0 or -errno. */
int box_output_make(struct box *box, const char *name, box_file_fn fn, void *arg);
void box_output_remove(struct box *box, const char *name);
