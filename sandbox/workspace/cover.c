/* Covers names with mounts over themselves, and follows symlinks and settings to their targets. */
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "sandbox/types.h"
#include "sandbox/workspace/protected.h"
#include "sandbox/workspace/state.h"

/* What git's configuration and files refer to: directories of hooks, included files, other git
 * directories. */

enum { INCLUDES = 4, CONFIG_BYTES = 1 << 16 };

static bool is_open(const struct walk *walk, const char *name)
{
    uint64_t bits = box_protected_find(name, strlen(name));
    return (walk->open & bits) == bits;
}

/* Reads a file's text without its last line feed. */
static bool read_file(struct walk *walk, struct spot spot, char *text, size_t size)
{
    defer_close int fd = fd_open_beneath(spot.root_fd, spot.path, O_RDONLY | O_NONBLOCK);
    ssize_t got = fd < 0 ? -1 : fd_pread_all(fd, text, size - 1, 0);
    text[got > 0 ? got : 0] = '\0';
    walk->found->incomplete |= got == (ssize_t)size - 1;
    if (got > 0 && text[got - 1] == '\n') {
        text[got - 1] = '\0';
    }
    return got > 0;
}

/* The value of "key = value", in place, as git-config(1) describes it, or NULL: the line has
 * another key. */
static char *value_of(char *line, const char *key)
{
    size_t size = strlen(key);
    bool quoted = false;
    if (strncasecmp(line, key, size) != 0 || line[size + strspn(line + size, " \t")] != '=') {
        return NULL;
    }
    char *value = strchr(line, '=') + 1;
    value += strspn(value, " \t");
    char *end = value;
    char *kept = value;
    for (const char *at = value; *at && *at != '\r' && (quoted || !strchr("#;", *at)); at++) {
        if (*at == '"') {
            quoted = !quoted;
        } else {
            at += *at == '\\' && at[1];
            *end++ = *at;
        }
        kept = quoted || !strchr(" \t", *at) ? end : kept;
    }
    *kept = '\0';
    return value;
}

static void take_config(struct walk *walk, const char *tree, struct spot spot, unsigned depth);

static bool walk_follow(struct walk *walk, const char *directory, const char *text,
                        struct spot *ret_spot);
static bool walk_protect_named(struct walk *walk, const char *directory, const char *text,
                               struct spot *ret_spot);

/* [include] and [includeIf]: relative to the file that has the line. Covers the file whether the
 * condition holds or not. */
static void take_include(struct walk *walk, const char *tree, struct spot spot, const char *value,
                         unsigned depth)
{
    char directory[PATH_MAX];
    const char *slash = strrchr(spot.path, '/');
    int size = slash ? (int)(slash - spot.path) : 0;
    (void)snprintf(directory, sizeof directory, "%.*s", size, spot.path);
    if (spot.root_fd == walk->root_fd && walk_protect_named(walk, directory, value, &spot)) {
        take_config(walk, tree, spot, depth + 1);
    }
}

/* The directory of core.hooksPath. The top directory itself cannot be read-only: there each name
 * that git runs is, if it exists, githooks(5). */
static void take_hooks(struct walk *walk, const char *tree, const char *hooks)
{
    static const char *const names[] = {
        "applypatch-msg",     "pre-applypatch",
        "post-applypatch",    "pre-commit",
        "pre-merge-commit",   "prepare-commit-msg",
        "commit-msg",         "post-commit",
        "pre-rebase",         "post-checkout",
        "post-merge",         "pre-push",
        "pre-receive",        "update",
        "proc-receive",       "post-receive",
        "post-update",        "push-to-checkout",
        "pre-auto-gc",        "post-rewrite",
        "sendemail-validate", "fsmonitor-watchman",
        "post-index-change",  "reference-transaction",
    };
    struct spot spot;
    if (!walk_follow(walk, tree, hooks, &spot)) {
        return;
    }
    if (*spot.path) {
        (void)walk_protect_named(walk, tree, hooks, &spot);
        return;
    }
    for (unsigned i = 0; spot.root_fd == walk->root_fd && i < sizeof names / sizeof *names; i++) {
        (void)walk_protect_named(walk, "", names[i], &spot);
    }
}

static void take_config(struct walk *walk, const char *tree, struct spot spot, unsigned depth)
{
    static char texts[INCLUDES][CONFIG_BYTES];
    char *state = NULL;
    bool include = false;
    if (depth >= INCLUDES || !read_file(walk, spot, texts[depth], CONFIG_BYTES)) {
        return;
    }
    char *line = strtok_r(texts[depth], "\n", &state);
    for (; line; line = strtok_r(NULL, "\n", &state)) {
        line += strspn(line, " \t");
        char *close = *line == '[' ? strchr(line, ']') : NULL;
        if (close) {
            include = strncasecmp(line + 1, "include", 7) == 0;
            line = close + 1 + strspn(close + 1, " \t");
        }
        const char *hooks = is_open(walk, ".git/hooks") ? NULL : value_of(line, "hookspath");
        const char *path = include && !is_open(walk, ".git/config") ? value_of(line, "path") : NULL;
        if (hooks && *hooks) { /* relative to where hooks run: the tree */
            take_hooks(walk, tree, hooks);
        } else if (path && *path) {
            take_include(walk, tree, spot, path, depth);
        }
    }
}

void walk_protect_git(struct walk *walk, const char *path)
{
    const char *rest = NULL;
    for (unsigned i = 0; box_protected_name(i); i++) {
        if (protected_begins(i, PROTECTED_GIT, &rest) && *rest &&
            !protected_is_open(walk->open, i)) {
            const char *name = walk_keep(walk, path, rest);
            if (name) {
                walk_protect_any(walk, name);
            }
        }
    }
}

static void take_one(struct walk *walk, const char *tree, const char *path)
{
    static const char *const configs[] = {"config", "config.worktree"};
    (void)walk_protect(walk, path, /* writable= */ true, /* want_directory= */ true);
    walk_protect_git(walk, path);
    for (unsigned i = 0; i < 2; i++) {
        const char *config = walk_keep(walk, path, configs[i]);
        if (config) {
            take_config(walk, tree, (struct spot){walk->root_fd, config, false}, 0);
        }
    }
}

void walk_take_git(struct walk *walk, const char *tree, const char *path)
{
    char text[PATH_MAX];
    struct spot spot;
    const char *common = walk_keep(walk, path, "commondir"); /* gitrepository-layout(5) */
    take_one(walk, tree, path);
    if (common && read_file(walk, (struct spot){walk->root_fd, common, false}, text, sizeof text) &&
        walk_follow(walk, path, text, &spot) && spot.root_fd == walk->root_fd) {
        take_one(walk, tree, spot.path);
    }
}

void walk_take_git_file(struct walk *walk, const char *tree, const char *path)
{
    static const char key[] = "gitdir:";
    char text[PATH_MAX];
    struct spot spot = {walk->root_fd, path, false};
    if (read_file(walk, spot, text, sizeof text) && strncmp(text, key, sizeof key - 1) == 0 &&
        walk_follow(walk, tree, text + sizeof key - 1 + strspn(text + sizeof key - 1, " "),
                    &spot) &&
        spot.root_fd == walk->root_fd) {
        walk_take_git(walk, tree, spot.path);
    }
}

enum { HOPS = 16 };

const char *walk_keep(struct walk *walk, const char *directory, const char *name)
{
    char *path = walk->text + walk->text_used;
    size_t left = sizeof walk->text - walk->text_used;
    int size = snprintf(path, left, "%s%s%s", directory, *directory ? "/" : "", name);
    if (size < 0 || (size_t)size >= left) {
        walk->found->incomplete = true;
        return NULL;
    }
    walk->text_used += (size_t)size + 1;
    return path;
}

static int mount_over(int fd, uint64_t attributes)
{
    struct mount_attr attr = {.attr_set = attributes};
    defer_close int tree_fd = (int)syscall(
        SYS_open_tree, fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_EMPTY_PATH);
    if (tree_fd < 0 || syscall(SYS_mount_setattr, tree_fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr,
                               sizeof attr) < 0) {
        return -1;
    }
    return (int)syscall(SYS_move_mount, tree_fd, "", fd, "",
                        MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
}

/* Whether the spot is covered already, or more strictly. Notes it if not. */
static bool is_covered(struct walk *walk, struct spot spot)
{
    for (unsigned i = 0; i < walk->covered_count; i++) {
        const struct spot *known = &walk->covered[i];
        if (known->root_fd == spot.root_fd && known->writable <= spot.writable &&
            strcmp(known->path, spot.path) == 0) {
            return true;
        }
    }
    if (walk->covered_count < COVERED) {
        walk->covered[walk->covered_count++] = spot;
    }
    return false;
}

int walk_cover(struct walk *walk, struct spot spot)
{
    uint64_t attributes =
        MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (spot.writable ? 0 : MOUNT_ATTR_RDONLY);
    defer_close int fd = fd_open_beneath(spot.root_fd, spot.path, O_PATH);
    if (fd < 0) {
        errno = ENOENT;
        return -1;
    }
    return walk->mounts ? mount_over(fd, attributes) : 0;
}

/* Calls walk_cover() once for each spot and keeps a failure in walk. Returns whether the spot was
 * uncovered. */
static bool cover_once(struct walk *walk, struct spot spot)
{
    if (!*spot.path || is_covered(walk, spot)) {
        return false;
    }
    if (walk_cover(walk, spot) < 0 && errno != ENOENT) {
        walk->error = errno;
    }
    return true;
}

/* Where code reaches a host path, which is absolute and has no symlinks; false: nowhere. */
static bool find_spot(const struct walk *walk, const char *host_path, struct spot *ret_spot)
{
    for (unsigned i = 0; i < walk->root_count; i++) {
        const char *path = path_behind(host_path, walk->roots[i].host);
        if (walk->root_fds[i] >= 0 && path) {
            *ret_spot = (struct spot){walk->root_fds[i], path, true};
            return true;
        }
    }
    return false;
}

/* at: the part of the path that is known to hold no symlink; rest: the part after it, replaced
 * where at ends in a symlink. */
struct course {
    char at[PATH_MAX];
    char rest[PATH_MAX];
    char link[PATH_MAX];
    unsigned hops;
};

/* Moves one component from rest to at. False: it does not exist. */
static bool step_over(struct walk *walk, struct course *course)
{
    struct spot spot;
    char *rest = course->rest + strspn(course->rest, "/");
    size_t size = strcspn(rest, "/");
    size_t used = strlen(course->at);
    bool last = rest[size + strspn(rest + size, "/")] == '\0';
    bool up = size == 2 && memcmp(rest, "..", 2) == 0;
    if (up) {
        path_cut_last(course->at);
    }
    if (up || size == 0 || (size == 1 && *rest == '.')) {
        memmove(course->rest, rest + size, strlen(rest + size) + 1);
        return true;
    }
    if (used + size + 2 > sizeof course->at) {
        return false;
    }
    (void)snprintf(course->at + used, sizeof course->at - used, "/%.*s", (int)size, rest);
    bool below = find_spot(walk, course->at, &spot) && *spot.path;
    defer_close int fd = below ? fd_open_beneath(spot.root_fd, spot.path, O_PATH)
                               : open(course->at, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) {
        return false;
    }
    ssize_t got =
        S_ISLNK(st.st_mode) ? readlinkat(fd, "", course->link, sizeof course->link - 1) : 0;
    if (below && (got > 0 || (!last && S_ISDIR(st.st_mode)))) {
        spot.path = walk_keep(walk, "", spot.path);
        spot.writable = got == 0;
        if (!spot.path) {
            return false;
        }
        (void)cover_once(walk, spot);
    }
    if (got <= 0) {
        memmove(course->rest, rest + size, strlen(rest + size) + 1);
        return got == 0;
    }
    size_t left = strlen(rest + size);
    if (++course->hops > HOPS || (size_t)got + left + 2 > sizeof course->rest) {
        return false;
    }
    memmove(course->rest + got, rest + size, left + 1);
    memcpy(course->rest, course->link, (size_t)got);
    path_cut_last(course->at);
    course->at[course->link[0] == '/' ? 0 : strlen(course->at)] = '\0';
    return true;
}

/* The spot of a name of which the last parts do not exist. */
static bool note_missing(struct walk *walk, const struct course *course, struct spot *ret_spot)
{
    char path[PATH_MAX];
    const char *rest = course->rest + strspn(course->rest, "/");
    rest += strcspn(rest, "/"); /* at has this part already */
    int size = snprintf(path, sizeof path, "%s%s", course->at, rest);
    if (size < 0 || (size_t)size >= sizeof path || strstr(rest, "/..") ||
        !find_spot(walk, path, ret_spot)) {
        return false;
    }
    ret_spot->path = walk_keep(walk, "", ret_spot->path);
    return ret_spot->path != NULL;
}

/* Resolves text as a program outside would whose working directory is directory (below the root).
 * Covers every symlink, and as writable every directory on the way, so that code cannot replace
 * them. False: nothing that code can write to. */
static bool walk_follow(struct walk *walk, const char *directory, const char *text,
                        struct spot *ret_spot)
{
    static struct course course;
    course.hops = 0;
    int size = snprintf(course.at, sizeof course.at, "%s%s%s", walk->roots[0].host,
                        *directory ? "/" : "", directory);
    int rest_size = snprintf(course.rest, sizeof course.rest, "%s", text);
    if (size < 0 || rest_size < 0 || (size_t)size >= sizeof course.at ||
        (size_t)rest_size >= sizeof course.rest) {
        return false;
    }
    course.at[*text == '/' ? 0 : size] = '\0';
    while (course.rest[strspn(course.rest, "/")]) {
        if (!step_over(walk, &course)) {
            return walk->wants_missing && note_missing(walk, &course, ret_spot);
        }
    }
    if (!find_spot(walk, course.at, ret_spot)) {
        return false;
    }
    ret_spot->path = walk_keep(walk, "", ret_spot->path);
    return ret_spot->path != NULL;
}

/* Covers what text names as read-only and counts it. */
static bool walk_protect_named(struct walk *walk, const char *directory, const char *text,
                               struct spot *ret_spot)
{
    if (!walk_follow(walk, directory, text, ret_spot)) {
        return false;
    }
    ret_spot->writable = false;
    walk->found->names += cover_once(walk, *ret_spot);
    return true;
}

bool walk_protect(struct walk *walk, const char *path, bool writable, bool want_directory)
{
    struct stat st;
    struct spot spot;
    defer_close int fd = fd_open_beneath(walk->root_fd, path, O_PATH);
    if (fd < 0 || fstat(fd, &st) < 0 || S_ISDIR(st.st_mode) != want_directory) {
        return false;
    }
    bool new = cover_once(walk, (struct spot){walk->root_fd, path, writable});
    if (S_ISLNK(st.st_mode) && walk_follow(walk, "", path, &spot)) {
        spot.writable = writable;
        (void)cover_once(walk, spot);
    }
    walk->found->names += new && !writable;
    return true;
}

void walk_protect_any(struct walk *walk, const char *path)
{
    if (!walk_protect(walk, path, /* writable= */ false, /* want_directory= */ true)) {
        (void)walk_protect(walk, path, /* writable= */ false, /* want_directory= */ false);
    }
}

/* Whether other sandboxes use a workspace: a walk may miss what they move. */

/* A directory is never open for writing, so nobody can hold a write lock on it; asking for one
 * reveals others' read locks. */
static struct flock lock_of(short type)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = 0x73616e64, .l_len = 1};
}

int box_protected_join(const struct box_spec *spec)
{
    struct flock lock = lock_of(F_RDLCK);
    int fd = spec->workspace ? open(spec->workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        (void)fcntl(fd, F_OFD_SETLK, &lock); /* if it fails, others are not noticed */
    }
    return fd;
}

bool box_protected_is_shared(int fd)
{
    struct flock lock = lock_of(F_WRLCK);
    return fd >= 0 && fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

void box_protected_leave(int *fd)
{
    struct flock lock = lock_of(F_UNLCK);
    if (*fd >= 0) {
        (void)fcntl(*fd, F_OFD_SETLK, &lock);
    }
    drop_fd(fd);
}
