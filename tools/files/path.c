#include "tools/files/path.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/word.h"
#include "tools/content/mounts.h"
#include "tools/content/resource_uri.h"

/* A path of Windows, "C:\\Users\\me" or "\\\\host\\share". */
static bool is_of_windows(const char *path)
{
    return (isalpha((unsigned char)path[0]) && path[1] == ':' &&
            (path[2] == '\\' || path[2] == '/')) ||
           strncmp(path, "\\\\", 2) == 0;
}

/* The same as Linux has it in Windows, where WSL mounts the drives. */
static void as_in_wsl(const char *path, char out[LIMIT_PATH_BYTES])
{
    (void)snprintf(out, LIMIT_PATH_BYTES, "/mnt/%c%s", tolower((unsigned char)path[0]), path + 2);
    for (char *at = out; (at = strchr(at, '\\'));) {
        *at = '/';
    }
}

const char *path_take(const struct box_spec *spec, const json_t *argument,
                      char out[LIMIT_PATH_BYTES])
{
    static const char too_long[] = "/path: is longer than 4095 bytes";
    const char *path = json_string_value(argument);
    size_t size = json_string_length(argument);
    if (size == 0) {
        return "/path: is empty; send a path relative to the workspace or absolute in the sandbox";
    }
    if (size >= LIMIT_PATH_BYTES) {
        return too_long;
    }
    if (strlen(path) != size) {
        return "/path: contains a NUL character";
    }
    char named[LIMIT_PATH_BYTES];
    if (resource_file_path(path, named)) {
        path = named;
        size = strlen(named);
    }
    if (is_of_windows(path)) {
        char linux_path[LIMIT_PATH_BYTES];
        as_in_wsl(path, linux_path);
        return data_find(spec, linux_path, out, LIMIT_PATH_BYTES)
                   ? NULL
                   : "/path: is a path of Windows, and the sandbox runs Linux; send one relative "
                     "to "
                     "the workspace, with \"/\", such as \"data/table.csv\"";
    }
    bool at_home = path[0] == '~' && (path[1] == '/' || path[1] == '\0');
    if (at_home && strlen(spec->paths.home) + size > LIMIT_PATH_BYTES) {
        return too_long;
    }
    if (resource_path(path, out)) { /* as results name files where clients list them */
        return NULL;
    }
    if (at_home && data_find_home(spec, path + 1, out, LIMIT_PATH_BYTES)) {
        return NULL;
    }
    if (at_home) {
        (void)snprintf(out, LIMIT_PATH_BYTES, "%s%s", spec->paths.home, path + 1);
    } else if (!data_find(spec, path, out, LIMIT_PATH_BYTES)) {
        memcpy(out, path, size + 1);
    }
    return NULL;
}

size_t path_split(const char *path, size_t size, char directory[LIMIT_PATH_BYTES])
{
    const char *slash = memrchr(path, '/', size);
    size_t length = slash == path ? 1 : slash ? (size_t)(slash - path) : 0;
    (void)snprintf(directory, LIMIT_PATH_BYTES, "%.*s", length ? (int)length : 1,
                   length ? path : ".");
    return slash ? (size_t)(slash - path) + 1 : 0;
}

static const char read_only_here[] =
    "is read-only in the workspace: it belongs to the interpreter, programs outside the sandbox "
    "act on it, or it has hard links outside; the user can allow the last two with --allow-write";

/* Relative paths begin in the workspace; ".." can lead out of it. */
static bool is_in(const char *path, const char *dir)
{
    size_t size = strlen(dir);
    if (path[0] == '/') {
        if (strncmp(path, dir, size) != 0 || path[size] != '/') {
            return false;
        }
        path += size;
    }
    int depth = 0;
    while (*path && depth >= 0) {
        path += strspn(path, "/");
        size = strcspn(path, "/");
        bool is_here = size == 0 || (size == 1 && path[0] == '.');
        bool is_up = size == 2 && strncmp(path, "..", 2) == 0;
        depth += is_here ? 0 : is_up ? -1 : 1;
        path += size;
    }
    return depth >= 0;
}

bool path_leads_out(const struct box_paths *paths, const char *path, const char *leads_to)
{
    return leads_to[0] == '/' && is_in(path, paths->work);
}

const char *path_error(const struct box_paths *paths, const char *path, int error, char *out,
                       size_t size)
{
    static const struct {
        int error;
        const char *text;
    } sentences[] = {
        {ENOENT, "not found"},
        {EEXIST, "already exists; use mode=\"overwrite\" or mode=\"append\""},
        {EISDIR, "is a directory"},
        {ENOTDIR, "has a parent that is not a directory"},
        {EACCES, "is not accessible from the sandbox"},
        {EPERM,
         "cannot be changed: it or its directory is immutable or append-only (chattr), or the "
         "directory is sticky and the file another user's"},
        {EBADF,
         "is read-only: its permissions or its owner do not let code write to it; where code owns "
         "it, os.chmod() changes that"},
        {EBADFD,
         "is in a directory that is read-only by its permissions: change a file there in place, "
         "with mode=\"append\" or Python, or the directory with os.chmod() if code owns it"},
        {EROFS, "is read-only in the sandbox"},
        {ELOOP, "follows too many symbolic links"},
        {ENAMETOOLONG, "has a name that is too long"},
        {ENOSPC,
         "does not fit: the disk of the sandbox (--disk) or of the user's directory is full; "
         "remove files"},
        {EDQUOT, "does not fit: the disk quota is reached"},
        {EOVERFLOW,
         "cannot be changed: it or its directory belongs to a user or group that does not exist in "
         "the sandbox; write elsewhere"},
        {EFBIG, "would exceed the size limit of a file (--disk)"},
        {EMEDIUMTYPE, "is not a regular file (a pipe, socket or device); it is not opened"},
        {EBUSY, read_only_here},
        {EMLINK,
         "has hard links, which appending would change too; use mode=\"overwrite\", which creates "
         "a separate file"},
        {EOPNOTSUPP, /* of init's copying */
         "has an access control list or extended attributes that the sandbox cannot copy; change "
         "it with Python, in place, or with --cow by mode=\"overwrite\""},
        {ENXIO, "is not a regular file (a pipe, socket or device); it is not opened"},
        {ESTALE, "stale file handle: the directory was replaced on the server"},
        {ECANCELED, "could not be accessed: the server is stopping"},
        {ECONNRESET, "could not be accessed: the sandbox exited meanwhile; try again"},
    };
    const char *text = strerror(error);
    for (unsigned i = 0; i < sizeof sentences / sizeof *sentences; i++) {
        if (sentences[i].error == error) {
            text = sentences[i].text;
        }
    }
    char shown[WORD_BYTES + 1];
    (void)word_show(path, strlen(path), shown, sizeof shown);
    if (error == EROFS && is_in(path, paths->work)) {
        (void)snprintf(out, size, "%s %s.", shown, read_only_here);
    } else if (error == EROFS) {
        (void)snprintf(out, size, "%s %s; write below %s or %s.", shown, text, paths->work,
                       paths->tmp);
    } else if (error == EACCES && path[0] == '/' && !is_in(path, paths->work)) {
        (void)snprintf(out, size, "%s %s; what it can use is below %s and %s.", shown, text,
                       paths->work, paths->tmp);
    } else {
        (void)snprintf(out, size, "%s %s.", shown, text);
    }
    return out;
}
