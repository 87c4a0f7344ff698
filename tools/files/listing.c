#include "tools/files/listing.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/word.h"
#include "schema/schema.h"
#include "tools/box/tool.h"
#include "tools/content/content.h"
#include "tools/content/mounts.h"

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
    (void)snprintf(out, LIMIT_PATH_BYTES, "/mnt/%c%s", parse_lower(path[0]), path + 2);
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

enum { LISTING_READ = 20000 };

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void append_entry(int dir_fd, const char *name, struct buf *text)
{
    struct stat st;
    char size[16];
    char target[PATH_MAX];
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return; /* the directory is gone */
    }
    ssize_t length = S_ISLNK(st.st_mode) ? readlinkat(dir_fd, name, target, sizeof target - 1) : 0;
    target[length > 0 ? length : 0] = '\0';
    word_append(text, name, strlen(name));
    if (S_ISDIR(st.st_mode)) {
        buf_append_text(text, "/\n");
    } else if (S_ISLNK(st.st_mode)) {
        buf_append_text(text, " -> ");
        word_append_next(text, target, strlen(target));
        buf_append_text(text, "\n");
    } else if (!S_ISREG(st.st_mode)) {
        buf_append_text(text, " (not a regular file)\n");
    } else {
        buf_appendf(text, " (%s)\n", content_size((uint64_t)st.st_size, size));
    }
}

int listing_read(DIR *dir, struct listing *ret_listing)
{
    struct listing listing = {.names = calloc(LISTING_READ, sizeof *listing.names)};
    const struct dirent *entry = NULL;
    if (!listing.names) {
        return -ENOMEM;
    }
    while (!listing.more && (entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        listing.more = listing.count == LISTING_READ;
        char *name = listing.more ? NULL : strdup(entry->d_name);
        if (name) {
            listing.names[listing.count++] = name;
        }
    }
    qsort(listing.names, listing.count, sizeof *listing.names, compare_names);
    *ret_listing = listing;
    return 0;
}

void listing_done(struct listing *listing)
{
    for (size_t i = 0; i < listing->count; i++) {
        free(listing->names[i]);
    }
    free(listing->names);
    *listing = (struct listing){};
}

static int compose(int dir_fd, const struct listing *listing, const char *path, long long first,
                   long long last, struct buf *text)
{
    size_t count = listing->count;
    size_t at = first > 1 ? (size_t)first - 1 : 0;
    size_t limit = last > 0 && (size_t)last < count ? (size_t)last : count;
    size_t next = at;
    char shown[WORD_BYTES + 1];
    buf_appendf(text, "[directory %s, %zu%s %s]\n",
                word_show(path, strlen(path), shown, sizeof shown), count,
                listing->more ? " or more" : "", count == 1 ? "entry" : "entries");
    while (next < limit && buf_size(text) < LIMIT_TEXT_BYTES) {
        append_entry(dir_fd, listing->names[next++], text);
    }
    if (next < count && next > at) {
        buf_appendf(text, "[entries %zu-%zu of %zu; continue with start_line=%zu]\n", at + 1, next,
                    count, next + 1);
    }
    return buf_error(text);
}

int listing_compose(int dir_fd, const char *path, long long first, long long last, struct buf *text)
{
    defer_closedir DIR *dir = fd_directory(dir_fd);
    if (!dir) {
        return -errno;
    }
    OWNED(listing_done) struct listing listing = {};
    int r = listing_read(dir, &listing);
    return r ? r : compose(dirfd(dir), &listing, path, first, last, text);
}

json_t *listing_names(int dir_fd)
{
    defer_closedir DIR *dir = fd_directory(dir_fd);
    if (!dir) {
        return NULL;
    }
    OWNED(listing_done) struct listing listing = {};
    json_t *object = json_object();
    (void)listing_read(dir, &listing);
    for (size_t i = 0; i < listing.count; i++) {
        if (listing.names[i][0] != '.') {
            (void)json_object_set_new(object, listing.names[i], json_true()); /* not if not UTF-8 */
        }
    }
    return object;
}

/* Copies the name in the directory (borrowed) that is the same but for how its characters are
 * composed. Returns whether there is one. */
static bool same_name(int dir_fd, const char *name, char out[NAME_MAX + 1])
{
    defer_closedir DIR *dir = fd_directory(fcntl(dir_fd, F_DUPFD_CLOEXEC, 3));
    const char *found = fd_next_name(dir);
    for (unsigned i = 1; i < LISTING_READ && found && !normal_same(found, name); i++) {
        found = fd_next_name(dir);
    }
    (void)snprintf(out, NAME_MAX + 1, "%s", found ? found : "");
    (void)lseek(dir_fd, 0, SEEK_SET); /* which both descriptors share */
    return found && normal_same(out, name);
}

enum { CLIMBS_MOST = 16, NEIGHBOURS_SHOWN = 10 };

static void look_up(struct not_found *lookup);

static void append_neighbours(const json_t *names, struct buf *text)
{
    struct word_list list = {.out = text, .before = " ", .most = NEIGHBOURS_SHOWN};
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach ((json_t *)(uintptr_t)names, key, value) {
        if (word_list_next(&list)) {
            word_append(text, key, strlen(key));
        }
    }
    word_list_end(&list);
}

/* Appends "data/sales.csv not found. In data: 2023.csv, 2024.csv", or the name that the model may
 * mean. */
static void describe_neighbours(const struct not_found *lookup, const char *name,
                                size_t parent_size, const json_t *names, struct buf *text)
{
    const char *work = lookup->tools->config.spec->paths.work;
    bool is_directory = lookup->path[lookup->end] == '/';
    const char *near = near_key(names, name);
    word_append(text, lookup->path, strlen(lookup->path));
    buf_append_text(text, " not found");
    if (is_directory) {
        buf_append_text(text, ": there is no directory ");
        word_append(text, lookup->path, lookup->end);
    }
    buf_append_text(text, ".");
    if (near) {
        buf_append_text(text, " Did you mean ");
        char whole[LIMIT_PATH_BYTES + NAME_MAX + 1];
        int length = snprintf(whole, sizeof whole, "%.*s%s", (int)parent_size, lookup->path, near);
        word_append(text, whole, (size_t)length);
        buf_append_text(text, "?");
        return;
    }
    if (lookup->path[0] == '/' && (parent_size == 1 || json_object_size(names) == 0)) {
        buf_appendf(text, " Files are in %s.", work);
        return;
    }
    if (json_object_size(names) == 0) {
        return;
    }
    buf_append_text(text, " In ");
    word_append(text, parent_size ? lookup->path : work,
                parent_size ? parent_size - (parent_size > 1) : strlen(work));
    buf_append_text(text, ":");
    append_neighbours(names, text);
}

/* Appends "out/a.csv not found: out is a symlink to old, which does not exist." */
static void describe_dangling(const struct not_found *lookup, const char *target, size_t size,
                              struct buf *text)
{
    bool is_directory = lookup->path[lookup->end] == '/';
    word_append(text, lookup->path, strlen(lookup->path));
    buf_append_text(text, " not found: ");
    if (is_directory) {
        word_append(text, lookup->path, lookup->end);
    } else {
        buf_append_text(text, "it");
    }
    buf_append_text(text, " is a symlink to ");
    word_append_next(text, target, size);
    buf_append_text(text, ", which does not exist in the sandbox.");
}

/* Changes the path to that of the name which is the same but for how its characters are composed.
 * Returns whether there is one. */
static bool respell(struct not_found *lookup, const char *name, size_t parent_size, int parent_fd)
{
    char path[LIMIT_PATH_BYTES];
    char same[NAME_MAX + 1];
    if (lookup->climbs++ >= CLIMBS_MOST || !same_name(parent_fd, name, same) ||
        snprintf(path, sizeof path, "%.*s%s%s", (int)parent_size, lookup->path, same,
                 lookup->path + lookup->end) >= (int)LIMIT_PATH_BYTES) {
        return false;
    }
    memcpy(lookup->path, path, sizeof path);
    return true;
}

static void parent_opened(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    struct not_found *lookup = arg;
    size_t end = lookup->end;
    const char *slash = memrchr(lookup->path, '/', end);
    size_t parent_size = slash ? (size_t)(slash - lookup->path) + 1 : 0;
    if (reply->error == ENOENT && parent_size > 1 && lookup->climbs++ < CLIMBS_MOST) {
        lookup->end = parent_size - 1;
        look_up(lookup);
        return;
    }
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    char name[LIMIT_PATH_BYTES];
    char target[LIMIT_PATH_BYTES];
    (void)snprintf(name, sizeof name, "%.*s", (int)(end - parent_size), lookup->path + parent_size);
    ssize_t length = reply->error ? -1 : readlinkat(fds[0], name, target, sizeof target);
    if (!reply->error && length < 0 && respell(lookup, name, parent_size, fds[0])) {
        lookup->fn(lookup->arg, 0, NULL);
        return;
    }
    json_auto_t *names = reply->error ? json_object() : listing_names(take_fd(&fds[0]));
    if (length > 0) {
        describe_dangling(lookup, target, (size_t)length, &text);
    } else if (!names) {
        lookup->fn(lookup->arg, ENOENT, NULL);
        return;
    } else {
        describe_neighbours(lookup, name, parent_size, names, &text);
    }
    lookup->fn(lookup->arg, 0, &text);
}

/* Opens the directory in which path[0 … end) should be. */
static void look_up(struct not_found *lookup)
{
    char parent[LIMIT_PATH_BYTES];
    (void)path_split(lookup->path, lookup->end, parent);
    server_box_open_file(lookup->tools->server_box, parent, parent_opened, lookup);
}

static void guess_said(struct not_found *lookup, const char *guess)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    word_append(&text, lookup->path, strlen(lookup->path));
    buf_append_text(&text, " not found. Did you mean ");
    word_append(&text, guess, strlen(guess));
    buf_append_text(&text, "?");
    lookup->fn(lookup->arg, 0, &text);
}

static void look_into_mounts(struct not_found *lookup);

static void mount_opened(void *arg, const struct wire_reply *reply, int[WIRE_FDS])
{
    struct not_found *lookup = arg;
    if (reply->error) {
        look_into_mounts(lookup);
    } else {
        guess_said(lookup, lookup->guess);
    }
}

/* A file of the same name in one of the user's other directories. */
static void look_into_mounts(struct not_found *lookup)
{
    const struct box_spec *spec = lookup->tools->config.spec;
    while (data_beside(spec, lookup->mounts++, lookup->path, lookup->guess, sizeof lookup->guess)) {
        if (lookup->guess[0]) {
            server_box_open_file(lookup->tools->server_box, lookup->guess, mount_opened, lookup);
            return;
        }
    }
    look_up(lookup);
}

static void begin(struct not_found *lookup, struct tools *tools, char path[LIMIT_PATH_BYTES],
                  not_found_fn fn, void *arg)
{
    *lookup = (struct not_found){.tools = tools,
                                 .path = path,
                                 .end = strlen(path),
                                 .climbs = lookup->climbs,
                                 .mounts = lookup->mounts,
                                 .fn = fn,
                                 .arg = arg};
    while (lookup->end > 1 && path[lookup->end - 1] == '/') {
        path[--lookup->end] = '\0';
    }
}

void not_found_respell(struct not_found *lookup, struct tools *tools, char path[LIMIT_PATH_BYTES],
                       not_found_fn fn, void *arg)
{
    begin(lookup, tools, path, fn, arg);
    look_up(lookup);
}

void not_found_start(struct not_found *lookup, struct tools *tools, char path[LIMIT_PATH_BYTES],
                     not_found_fn fn, void *arg)
{
    char guess[LIMIT_PATH_BYTES];
    begin(lookup, tools, path, fn, arg);
    if (data_guess(tools->config.spec, path, guess, sizeof guess)) {
        guess_said(lookup, guess);
    } else if (strchr(path, '\\')) {
        for (size_t i = 0; i <= lookup->end; i++) {
            guess[i] = (char)(path[i] == '\\' ? '/' : path[i]);
        }
        guess_said(lookup, guess);
    } else {
        look_into_mounts(lookup);
    }
}
