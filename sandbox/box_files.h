#pragma once
#include <sys/stat.h>

#include "sandbox/protocol/init_client.h"

/* Files, at the sandbox's paths and with the guest's rights. fn: called exactly once, later, with
 * init's response: file, token, path, and the open file as fds[0]. Of its errors, ECONNRESET: the
 * sandbox died; EMEDIUMTYPE: neither a regular file nor a directory, file.mode says what; EBADF,
 * EBADFD: the permissions of the file, or of its directory, do not let code write there. */

struct box;

/* path: relative to /work, or absolute in the sandbox; shorter than LIMIT_PATH_BYTES. Opens a
 * regular file or a directory for reading. 0 or -errno. */
int box_file_open(struct box *box, const char *path, init_client_fn fn, void *arg);

/* Finds the one path of the file that path leads to: through no symlink, and without "." and "..";
 * relative if it is in the workspace, else absolute. The file, and directories, may be missing. */
int box_file_resolve(struct box *box, const char *path, init_client_fn fn, void *arg);
/* Opens such a path for writing and makes missing directories; ELOOP: a symlink is there now. The
 * new content gets the name at commit, which the response's token stands for; an append changes the
 * file at once, and has no token. */
int box_file_write(struct box *box, const char *path, enum wire_write_mode mode, init_client_fn fn,
                   void *arg);
/* replaced: the file that it may replace; NULL: any. Else fn gets ESTALE. */
int box_file_commit(struct box *box, uint32_t token, const struct stat *replaced, init_client_fn fn,
                    void *arg);
void box_file_abort(struct box *box, uint32_t token);

/* Makes a file in the directory of overflow files, which code can read but not write. fn: fd is for
 * writing. 0 or -errno. */
int box_output_make(struct box *box, const char *name, init_client_fn fn, void *arg);
void box_output_remove(struct box *box, const char *name);
