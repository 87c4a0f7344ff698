/* What a path leads to, without ".", ".." and symlinks. Everything that the server does with the
 * path of a file that is to be written goes by this one; it is then opened through no symlink, so
 * whoever puts one in its way meanwhile gains nothing.
 *
 * Goes down name by name, as the kernel does: after a symlink, ".." is the directory above its
 * target. What does not exist can be made, so its names count as directories. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "sandbox/programs/common/content.h"
#include "sandbox/programs/common/processes.h"
#include "sandbox/programs/init/init.h"

enum { SYMLINKS_MOST = 40 }; /* as the kernel, path_resolution(7) */

struct walk {
    int fd;           /* the last part of text that exists */
    unsigned missing; /* how many names of text do not */
    unsigned symlinks;
    char text[2 * LIMIT_PATH_BYTES]; /* absolute; "" is the root */
    char rest[2 * LIMIT_PATH_BYTES]; /* what is still to come */
};

/* fd: taken, or -errno. */
static int walk_to(struct walk *walk, int fd)
{
    if (fd < 0) {
        return fd;
    }
    drop_fd(&walk->fd);
    walk->fd = fd;
    return 0;
}

static int walk_up(struct walk *walk)
{
    (void)path_cut_last(walk->text);
    if (walk->missing > 0) {
        walk->missing--;
        return 0;
    }
    return walk_to(walk, fd_open_named(walk->fd, "..", O_PATH | O_DIRECTORY, 0));
}

/* symlink_fd: the symlink that comes after text. */
static int walk_through(struct walk *walk, int symlink_fd)
{
    char target[LIMIT_PATH_BYTES];
    struct statfs fs;
    size_t size = strlen(walk->rest) + 1;
    ssize_t length = readlinkat(symlink_fd, "", target, sizeof target);
    if (length < 0 || fstatfs(symlink_fd, &fs) < 0) {
        return -errno;
    }
    if (fs.f_type == PROC_SUPER_MAGIC) {
        return -EACCES; /* through this process it would lead to init's own */
    }
    if (++walk->symlinks > SYMLINKS_MOST) {
        return -ELOOP;
    }
    if ((size_t)length + size > sizeof walk->rest || (size_t)length == sizeof target) {
        return -ENAMETOOLONG;
    }
    memmove(walk->rest + length, walk->rest, size);
    memcpy(walk->rest, target, (size_t)length);
    if (length > 0 && target[0] == '/') {
        walk->text[0] = '\0';
        return walk_to(walk, fd_open_named(AT_FDCWD, "/", O_PATH | O_DIRECTORY, 0));
    }
    return 0;
}

static int walk_down(struct walk *walk, const char *name)
{
    struct stat st;
    size_t used = strlen(walk->text);
    defer_close int fd = walk->missing ? -ENOENT : fd_open_beneath(walk->fd, name, O_PATH);
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISLNK(st.st_mode)) {
        return walk_through(walk, fd);
    }
    int size = snprintf(walk->text + used, sizeof walk->text - used, "/%s", name);
    if (size < 0 || used + (size_t)size >= sizeof walk->text) {
        return -ENAMETOOLONG;
    }
    if (fd == -ENOENT) {
        walk->missing++;
        return 0;
    }
    return walk_to(walk, fd < 0 ? fd : take_fd(&fd));
}

static int walk_all(struct walk *walk)
{
    char name[NAME_MAX + 1];
    bool is_directory = false; /* by how the path ends: "new/" is no name for a new file */
    int r = 0;
    while (r == 0) {
        size_t slashes = strspn(walk->rest, "/");
        size_t size = strcspn(walk->rest + slashes, "/");
        if (size == 0) {
            is_directory = is_directory || slashes > 0;
            return is_directory && walk->missing > 0 ? -EISDIR : 0;
        }
        if (size >= sizeof name) {
            return -ENAMETOOLONG;
        }
        (void)snprintf(name, sizeof name, "%.*s", (int)size, walk->rest + slashes);
        size += slashes;
        memmove(walk->rest, walk->rest + size, strlen(walk->rest + size) + 1);
        bool is_up = strcmp(name, "..") == 0;
        is_directory = is_up || strcmp(name, ".") == 0;
        if (is_up) {
            r = walk_up(walk);
        } else if (!is_directory) {
            r = walk_down(walk, name);
        }
    }
    return r;
}

static void resolve(const struct init *init, const struct wire_request *request)
{
    static struct walk walk;
    bool is_absolute = request->path[0] == '/';
    struct wire_reply reply = {.event = WIRE_RESPONSE, .id = request->id};
    walk = (struct walk){.fd = -1};
    (void)snprintf(walk.rest, sizeof walk.rest, "%s", request->path);
    (void)snprintf(walk.text, sizeof walk.text, "%s", is_absolute ? "" : init->paths.work);
    int r = walk_to(&walk, fd_open_named(AT_FDCWD, is_absolute ? "/" : ".", O_PATH, 0));
    r = r ? r : walk_all(&walk);
    const char *inside = path_behind(walk.text, init->paths.work);
    const char *path = inside ? (*inside ? inside : ".") : walk.text[0] ? walk.text : "/";
    size_t size = strlen(path) + 1;
    r = r || size <= sizeof reply.path ? r : -ENAMETOOLONG;
    if (r == 0) {
        memcpy(reply.path, path, size);
    }
    drop_fd(&walk.fd);
    reply.error = -r;
    reply_send(&reply, -1);
}

/* --- files --- */

/* Opens files for the file tools, by the sandbox's paths and with the guest's rights. Symlinks that
 * the guest planted lead a read to what the guest itself can reach; a write follows none, since its
 * path was resolved above. Everything but regular files and directories is refused before it is
 * read. Nothing here blocks. */

/* A file being written. It has no name, or where the file system has no such files a temporary one
 * beside the final one, until it is complete. */
static struct pending {
    uint32_t token; /* 0: free */
    int dir_fd;
    int fd;        /* of the file */
    bool has_name; /* the temporary one */
    bool must_not_exist;
    char temporary[32]; /* "": appends to the file itself */
    char name[256];
    char path[LIMIT_PATH_BYTES];
    unsigned made; /* directories of path, which go again if the file does not get its name */
} pending[INIT_WRITES];
static uint32_t last_token;
static int output_fd = -1;

void files_keep_outputs(int fd)
{
    output_fd = fd;
}

int files_output_fd(void)
{
    return output_fd;
}

/* Whether this is the directory for overflow files, which neither the file tools nor code may
 * write to. A mount enforces that by itself; for a supervisor it is a directory like any other. */
static bool is_for_outputs(int dir_fd)
{
    struct stat st;
    struct stat outputs;
    return output_fd >= 0 && fstat(dir_fd, &st) == 0 && fstat(output_fd, &outputs) == 0 &&
           st.st_dev == outputs.st_dev && st.st_ino == outputs.st_ino;
}

/* Files of /proc are regular in name only: through this process they would show init. */
static int refuse_odd(int fd, struct stat *ret_stat)
{
    struct statfs fs;
    if (fstat(fd, ret_stat) < 0 || fstatfs(fd, &fs) < 0) {
        return -errno;
    }
    if (fs.f_type == PROC_SUPER_MAGIC) {
        return -EACCES;
    }
    if (!S_ISREG(ret_stat->st_mode) && !S_ISDIR(ret_stat->st_mode)) {
        return -EMEDIUMTYPE; /* our code for: neither a file nor a directory */
    }
    return 0;
}

static void respond_file(uint32_t id, int error, int fd, const struct stat *st, uint32_t token,
                         bool existed)
{
    struct wire_reply reply = {.event = WIRE_RESPONSE, .id = id, .error = error, .token = token};
    if (!error || error == EMEDIUMTYPE) {
        reply.file = (struct wire_file){
            .mode = st->st_mode, .existed = existed, .size_bytes = (uint64_t)st->st_size};
    }
    reply_send(&reply, error ? -1 : fd);
}

static void open_read(const struct init *, const struct wire_request *request)
{
    struct stat st = {};
    /* Checks before it opens: opening a device or a FIFO can have effects, and fails on sockets. */
    defer_close int fd = fd_open_named(AT_FDCWD, request->path, O_PATH, 0);
    int error = fd < 0 ? -fd : -refuse_odd(fd, &st);
    drop_fd(&fd);
    if (!error) {
        fd = fd_open_named(AT_FDCWD, request->path, O_RDONLY | O_NONBLOCK, 0);
        error = fd < 0 ? -fd : -refuse_odd(fd, &st);
    }
    respond_file(request->id, error, fd, &st, 0, !error);
}

/* Why nothing can be made in the directory. */
static int reason(int dir_fd, int error)
{
    bool is_read_only = error == EACCES && faccessat(dir_fd, ".", W_OK, AT_EACCESS) < 0;
    return is_read_only ? EBADFD : error; /* our code for: its permissions do not let code write */
}

/* Opens path's directories one below the other, through no symlink, and makes missing ones. Uses
 * descriptors, because mkdir(2) on a whole path would follow symlinks. Splits path into names. */
static int make_directories(char *path, unsigned *made)
{
    char *rest = NULL;
    int fd = fd_open_named(AT_FDCWD, *path == '/' ? "/" : ".", O_PATH | O_DIRECTORY, 0);
    for (char *name = strtok_r(path, "/", &rest); name && fd >= 0;
         name = strtok_r(NULL, "/", &rest)) {
        int next = fd_open_beneath(fd, name, O_PATH | O_DIRECTORY);
        if (next == -ENOENT) {
            int r = is_for_outputs(fd) ? -EROFS : mkdirat(fd, name, 0777) < 0 ? -errno : 0;
            *made += r == 0;
            next = r == 0 || r == -EEXIST ? fd_open_beneath(fd, name, O_PATH | O_DIRECTORY)
                                          : -reason(fd, -r);
        }
        (void)close(fd);
        fd = next;
    }
    return fd;
}

/* Removes the last directories of path, which were made for its file, as far as nothing is in them.
 */
static void remove_directories(const char *path, unsigned count)
{
    char text[LIMIT_PATH_BYTES];
    char parent[LIMIT_PATH_BYTES];
    (void)snprintf(text, sizeof text, "%s", path);
    for (; count > 0 && path_cut_last(text); count--) {
        (void)snprintf(parent, sizeof parent, "%s", text);
        defer_close int fd = path_cut_last(parent)
                                 ? fd_open_straight(*parent ? parent : "/", O_PATH | O_DIRECTORY)
                                 : fd_open_named(AT_FDCWD, ".", O_PATH | O_DIRECTORY, 0);
        if (fd < 0 || unlinkat(fd, path_last(text), AT_REMOVEDIR) < 0) {
            return;
        }
    }
}

/* Opens the directory of path's last part and makes missing ones, which it counts. *ret_name is
 * that part. Returns the descriptor or -errno. */
static int open_parent(const char *path, const char **ret_name, unsigned *made)
{
    static char text[LIMIT_PATH_BYTES];
    (void)snprintf(text, sizeof text, "%s", path);
    char *name = strrchr(text, '/');
    *ret_name = path;
    if (!name) {
        return fd_open_named(AT_FDCWD, ".", O_PATH | O_DIRECTORY, 0);
    }
    *ret_name = path + (name - text) + 1;
    name[name == text ? 1 : 0] = '\0';
    int fd = fd_open_straight(text, O_PATH | O_DIRECTORY);
    return fd == -ENOENT ? make_directories(text, made) : fd;
}

static struct pending *pending_find(uint32_t token)
{
    for (unsigned i = 0; i < INIT_WRITES; i++) {
        if (pending[i].token == token) {
            return &pending[i];
        }
    }
    return NULL;
}

static void pending_close(struct pending *p)
{
    (void)close(p->dir_fd);
    drop_fd(&p->fd);
    *p = (struct pending){};
}

static int link_nameless(const struct pending *p)
{
    char path[32];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", p->fd);
    return linkat(AT_FDCWD, path, p->dir_fd, p->temporary, AT_SYMLINK_FOLLOW) < 0 ? errno : 0;
}

/* A file without a name leaves nothing behind if this process is killed, O_TMPFILE in open(2). It
 * gets one by way of /proc only, linkat(2). */
static int make_file(struct pending *p, int dir_fd)
{
    char path[32];
    int fd = openat(dir_fd, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    p->has_name = fd < 0 || access(path, F_OK) < 0;
    if (p->has_name) {
        drop_fd(&fd);
        fd = fd_open_named(dir_fd, p->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    }
    return fd;
}

/* Notes the file, which is being written. *ret_token: of the note, which takes dir_fd. 0 or -errno
 */
static int note(struct pending *p, int dir_fd, int fd, uint32_t *ret_token)
{
    p->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (p->fd < 0) {
        return -errno;
    }
    last_token = last_token + 1 ? last_token + 1 : 1;
    p->token = last_token;
    p->dir_fd = dir_fd;
    *ret_token = p->token;
    return 0;
}

static int note_append(int dir_fd, int fd, uint32_t *ret_token)
{
    struct pending *p = pending_find(0);
    if (!p) {
        return -EMFILE;
    }
    p->temporary[0] = '\0'; /* a write that failed may have left one */
    return note(p, dir_fd, fd, ret_token);
}

/* Makes the file that takes the name when it is complete. Takes dir_fd on success. */
static int begin_write(int dir_fd, const char *name, mode_t mode,
                       const struct wire_request *request, uint32_t *ret_token)
{
    struct pending *p = pending_find(0);
    if (!p) {
        return -EMFILE;
    }
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) < 0) {
        return -errno;
    }
    size_t name_size = strlen(name) + 1;
    if (name_size > sizeof p->name) {
        return -ENAMETOOLONG;
    }
    (void)snprintf(p->temporary, sizeof p->temporary, ".write-%016llx", (unsigned long long)random);
    int fd = make_file(p, dir_fd);
    if (fd < 0) {
        return fd;
    }
    defer_close int old = fd_open_named(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
    (void)fchmod(fd, mode & 0777);
    int r = !request->keeps_attributes        ? 0
            : old >= 0                        ? attributes_copy(old, fd)
            : old == -ENOENT || old == -ELOOP ? 0
                                              : old; /* its ACL must not be lost */
    r = r ? r : note(p, dir_fd, fd, ret_token);
    if (r < 0) {
        (void)unlinkat(dir_fd, p->temporary, 0);
        (void)close(fd);
        return r;
    }
    p->must_not_exist = request->write_mode != WIRE_WRITE_OVERWRITE;
    memcpy(p->name, name, name_size);
    return fd;
}

/* Whether code could write to the file, which a rename over it does not ask. Opening it would tell:
 * but also copy it, with --cow, and wake who watches it. 0 or an errno value */
static int check_writable(int dir_fd, const char *name)
{
    if (faccessat(dir_fd, name, W_OK, AT_EACCESS | AT_SYMLINK_NOFOLLOW) == 0) {
        return 0;
    }
    return errno == EACCES ? EBADF
                           : errno; /* our code for: its permissions do not let code write */
}

/* Of a new file. */
static mode_t new_mode(void)
{
    mode_t mask = umask(022);
    (void)umask(mask);
    return 0666 & ~mask;
}

/* Checks what path's last part names: *ret_existed and *ret_mode. A symlink has come there since
 * the path was resolved. */
static int check_target(int dir_fd, const char *name, enum wire_write_mode mode, bool *ret_existed,
                        mode_t *ret_mode)
{
    struct stat st;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        if (errno != ENOENT) {
            return -errno;
        }
        *ret_existed = false;
        *ret_mode = new_mode();
        return 0;
    }
    if (mode == WIRE_WRITE_CREATE) {
        return -EEXIST;
    }
    if (S_ISDIR(st.st_mode)) {
        return -EISDIR;
    }
    if (!S_ISREG(st.st_mode)) {
        return S_ISLNK(st.st_mode) ? -ELOOP : -EMEDIUMTYPE;
    }
    *ret_existed = true;
    *ret_mode = st.st_mode & 0777;
    return -check_writable(dir_fd, name);
}

static void open_write(const struct init *, const struct wire_request *request)
{
    const char *name = NULL;
    struct stat st = {};
    uint32_t token = 0;
    bool existed = false;
    mode_t mode = 0644;
    unsigned made = 0;
    defer_close int fd = -1;
    defer_close int dir_fd = open_parent(request->path, &name, &made);
    int error = dir_fd < 0 ? -dir_fd : is_for_outputs(dir_fd) ? EROFS : 0;
    if (!error && (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)) {
        error = EISDIR;
    }
    if (!error) {
        error =
            -check_target(dir_fd, name, (enum wire_write_mode)request->write_mode, &existed, &mode);
    }
    bool appends = existed && request->write_mode == WIRE_WRITE_APPEND;
    if (!error && appends) {
        fd = fd_open_named(dir_fd, name, O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK, 0);
        error = fd == -EINVAL ? EOPNOTSUPP : fd < 0 ? -fd : 0; /* --cow: it has such an ACL */
    } else if (!error) {
        fd = begin_write(dir_fd, name, mode, request, &token);
        error = fd < 0 ? reason(dir_fd, -fd) : 0;
    }
    if (!error) {
        error = -refuse_odd(fd, &st);
    }
    if (!error && appends && st.st_nlink > 1) {
        error = EMLINK; /* its other names may be outside the writable directories */
    }
    if (!error && appends) {
        error = -note_append(dir_fd, fd, &token);
    }
    respond_file(request->id, error, fd, &st, token, existed);
    struct pending *p = token ? pending_find(token) : NULL;
    if (p) {
        (void)take_fd(&dir_fd); /* the file being written holds it */
        p->made = made;
        (void)snprintf(p->path, sizeof p->path, "%s", request->path);
    } else {
        remove_directories(request->path, made);
    }
}

/* Gives the file its name, if what has the name is what is expected: somebody may have saved
 * another one meanwhile. 0 or an errno value */
static int exchange(const struct pending *p, const struct apply_facts *expected)
{
    struct apply_facts made = apply_facts_in(p->dir_fd, p->temporary);
    struct apply_facts have = {};
    if (syscall(SYS_renameat2, p->dir_fd, p->temporary, p->dir_fd, p->name, RENAME_EXCHANGE) < 0) {
        return errno;
    }
    have = apply_facts_in(p->dir_fd, p->temporary);
    if (apply_facts_equal_moved(&have, expected)) {
        (void)unlinkat(p->dir_fd, p->temporary, 0);
        return 0;
    }
    (void)syscall(SYS_renameat2, p->dir_fd, p->temporary, p->dir_fd, p->name, RENAME_EXCHANGE);
    if (apply_facts_in(p->dir_fd, p->temporary).inode !=
        made.inode) { /* they have done so once more */
        (void)renameat(p->dir_fd, p->temporary, p->dir_fd, p->name);
    }
    return ESTALE;
}

static int put_in_place(const struct pending *p, const struct apply_facts *expected)
{
    int error = expected->mode ? exchange(p, expected) : EINVAL;
    unsigned flags = p->must_not_exist ? RENAME_NOREPLACE : 0;
    if (error == EINVAL) { /* or the file system has no exchange */
        error = syscall(SYS_renameat2, p->dir_fd, p->temporary, p->dir_fd, p->name, flags) < 0
                    ? errno
                    : 0;
    }
    return error;
}

/* 0 or an errno value */
static int commit(const struct pending *p, const struct wire_request *request)
{
    int error = -fd_flush(p->fd);
    if (!error && p->temporary[0]) {
        error = p->has_name ? 0 : link_nameless(p);
        error = error ? error : put_in_place(p, &request->expected);
    }
    if (error) {
        (void)unlinkat(p->dir_fd, p->temporary, 0);
        remove_directories(p->path, p->made);
    }
    return error;
}

/* Processes that flush a file and give it its name. */
static struct {
    pid_t pid; /* 0: free */
    uint32_t id;
} commits[INIT_WRITES];

/* A disk takes its time, which code can prolong, and this program watches memory meanwhile: so that
 * is a separate process. The response follows its exit: it may be killed. */
static void commit_write(const struct init *, const struct wire_request *request)
{
    struct pending *p = request->token ? pending_find(request->token) : NULL;
    unsigned at = 0;
    if (!p) {
        reply_result(request->id, ENOENT);
        return;
    }
    while (at < INIT_WRITES && commits[at].pid) {
        at++;
    }
    pid_t pid = at < INIT_WRITES ? fork() : -1;
    if (pid == 0) {
        _exit(commit(p, request)); /* no errno value is above 133 */
    }
    if (pid > 0) {
        commits[at].pid = pid;
        commits[at].id = request->id;
    } else {
        reply_result(request->id, commit(p, request));
    }
    pending_close(p);
}

void files_reaped(pid_t pid, int status)
{
    for (unsigned i = 0; i < INIT_WRITES; i++) {
        if (commits[i].pid == pid) {
            commits[i].pid = 0;
            reply_result(commits[i].id, WIFEXITED(status) ? WEXITSTATUS(status) : ENOMEM);
        }
    }
}

static void abort_write(const struct init *, const struct wire_request *request)
{
    struct pending *p = request->token ? pending_find(request->token) : NULL;
    if (p) {
        (void)unlinkat(p->dir_fd, p->temporary, 0);
        remove_directories(p->path, p->made);
        pending_close(p);
    }
    reply_result(request->id, 0);
}

/* --- overflow files --- */

/* Code can only read this directory: it is on a mount of which this program holds the only
 * descriptor, or outside the directories that code's Landlock rules let it write to. So a name
 * leads to the file that was made here. */
static void make_output(const struct init *, const struct wire_request *request)
{
    struct stat st = {};
    defer_close int fd = openat(output_fd, request->path,
                                O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
    int error = fd < 0 || fstat(fd, &st) < 0 ? errno : 0;
    respond_file(request->id, error, fd, &st, /* token= */ 0, /* existed= */ false);
}

/* A process that exits when its parent has closed everything after the pipe. */
static void close_aside(int fd)
{
    defer_close_pair int ends[2] = {-1, -1};
    char byte = 0;
    pid_t pid = pipe2(ends, O_CLOEXEC) < 0 ? -1 : fork();
    if (pid == 0) {
        (void)close(ends[1]);
        (void)read(ends[0], &byte, 1);
        _exit(0);
    }
    (void)close(fd);
}

/* Freeing a large file takes the kernel long, and blocks whoever closes it last: so that is a
 * separate process. */
static void remove_output(const struct init *, const struct wire_request *request)
{
    int fd = openat(output_fd, request->path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    int error = unlinkat(output_fd, request->path, 0) < 0 ? errno : 0;
    if (fd >= 0) {
        close_aside(fd);
    }
    reply_result(request->id, error);
}

bool files_serve(const struct init *init, const struct wire_request *request)
{
    static void (*const serve[WIRE_OP_COUNT])(const struct init *, const struct wire_request *) = {
        [WIRE_OPEN_READ] = open_read,         [WIRE_RESOLVE] = resolve,
        [WIRE_OPEN_WRITE] = open_write,       [WIRE_COMMIT] = commit_write,
        [WIRE_ABORT] = abort_write,           [WIRE_MAKE_OUTPUT] = make_output,
        [WIRE_REMOVE_OUTPUT] = remove_output,
    };
    bool serves = request->op < WIRE_OP_COUNT && serve[request->op];
    if (serves) {
        serve[request->op](init, request);
    }
    return serves;
}
