#include "tools/path.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/word.h"

const char *path_take(const json_t *argument, char out[LIMIT_PATH_BYTES])
{
    const char *path = json_string_value(argument);
    size_t size = json_string_length(argument);
    if (size == 0) {
        return "/path: is empty; name a file, relative to the workspace or absolute in the "
               "sandbox";
    }
    if (size >= LIMIT_PATH_BYTES) {
        return "/path: is longer than 4095 bytes";
    }
    if (strlen(path) != size) {
        return "/path: has a NUL character in it";
    }
    memcpy(out, path, size + 1);
    return NULL;
}

static const char read_only_here[] =
    "is read-only in the workspace: the interpreter lies there, or programs outside of the sandbox "
    "act "
    "on it, or it has names outside (hard links); the user can allow the last two with "
    "--allow-write";

/* Relative paths are the workspace's. */
static bool is_in(const char *path, const char *dir)
{
    size_t size = strlen(dir);
    return path[0] != '/' || (strncmp(path, dir, size) == 0 && path[size] == '/');
}

const char *path_error(const struct box_view *view, const char *path, int error, char *out,
                       size_t size)
{
    static const struct {
        int error;
        const char *text;
    } sentences[] = {
        {ENOENT, "not found"},
        {EEXIST, "is there already; use mode=\"overwrite\" or mode=\"append\""},
        {EISDIR, "is a directory"},
        {ENOTDIR, "leads through something that is not a directory"},
        {EACCES, "may not be accessed from the sandbox"},
        {EPERM, "may not be accessed from the sandbox"},
        {EROFS, "is read-only in the sandbox"},
        {ELOOP, "leads through too many symbolic links"},
        {ENAMETOOLONG, "has a name that is too long"},
        {ENOSPC,
         "does not fit: the disk is full, be it the sandbox's own (--disk) or that of a folder of "
         "the user's; remove files"},
        {EDQUOT, "does not fit: the disk quota is reached"},
        {EFBIG, "would be larger than a file of the sandbox may be (--disk)"},
        {EMEDIUMTYPE, "is not a regular file (a pipe, socket or device); it is not opened"},
        {EBUSY, read_only_here},
        {EMLINK,
         "has other names (hard links), which appending would change as well; use "
         "mode=\"overwrite\", which gives this name a file of its own"},
        {ENXIO, "is not a regular file (a pipe, socket or device); it is not opened"},
        {ESTALE, "is gone: the user's folder was replaced on its server"},
        {ECONNRESET, "could not be reached: the sandbox ended meanwhile; try again"},
    };
    const char *text = strerror(error);
    for (unsigned i = 0; i < sizeof sentences / sizeof *sentences; i++) {
        if (sentences[i].error == error) {
            text = sentences[i].text;
        }
    }
    char shown[WORD_BYTES + 1];
    (void)word_show(path, strlen(path), shown, sizeof shown);
    if (error == EROFS && is_in(path, view->work)) {
        (void)snprintf(out, size, "%s %s.", shown, read_only_here);
    } else if (error == EROFS) {
        (void)snprintf(out, size, "%s %s; write below %s or %s.", shown, text, view->work,
                       view->tmp);
    } else {
        (void)snprintf(out, size, "%s %s.", shown, text);
    }
    return out;
}
