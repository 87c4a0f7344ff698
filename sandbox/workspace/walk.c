/* Looks through a workspace, breadth first, so that what lies near the top is found whatever the size: names of the
 * table are made read-only by a mount over themselves, which can neither be renamed nor removed, and so is
 * what code could write through to the outside: a file with several names of which not all were seen.
 *
 * Package managers link whole trees from their stores (uv, pnpm, bun, conda): the first such file in a directory of
 * packages makes all of that directory read-only, and it is looked at no further.
 *
 * The tree may be hostile: what ran here before has made it, other sandboxes may be at work in it. No link is
 * followed on the way to an entry, and what is mounted is what was looked at. */
#include "sandbox/workspace/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "sandbox/plan/binds.h"
#include "sandbox/workspace/names.h"

enum {
    DIRECTORIES = 4096,
    LINKS = 1024,
    LINK_MOUNTS = 256, /* each takes the kernel some 20 µs at the start, and again at the end */
    TEXT_BYTES = 1 << 19,
    LIST_BYTES = 1 << 15,
    NO_PACKAGE = -1,
};

enum place {
    IN_TREE,
    IN_PROTECTED, /* below a name of the table: only hard links are of interest */
    IN_GIT,     /* git directories of submodules and worktrees, or directories with such in them */
    IN_OBJECTS, /* of git */
};

struct directory {
    const char *path; /* below the root; "" is the root */
    enum place place;
    int package; /* the directory of packages that it is in, by number, or NO_PACKAGE */
};

struct hard_link {
    const char *path;
    dev_t device;
    ino_t inode;
    nlink_t names;
    bool is_protected;
};

struct walk {
    int root_fd;
    enum protect_how how;
    uint64_t open;
    struct box_protected *found;
    unsigned entries;
    int error; /* errno of a name that could not be made read-only, or 0 */
    unsigned directory_count;
    unsigned link_count;
    size_t text_used;
    struct directory directories[DIRECTORIES];
    bool package_done[DIRECTORIES]; /* by the number of its directory */
    struct hard_link links[LINKS];
    char text[TEXT_BYTES];
};

/* "directory/name", or NULL when there is no space left. */
static const char *keep(struct walk *walk, const char *directory, const char *name)
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

/* No link on the way. Before Linux 5.6 only the last component is sure to be none. */
static int open_below(int root_fd, const char *path, int flags)
{
    struct open_how how = {.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC | O_NOFOLLOW),
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    path = *path ? path : ".";
    int fd = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof how);
    return fd < 0 && (errno == ENOSYS || errno == EPERM)
               ? openat(root_fd, path, flags | O_CLOEXEC | O_NOFOLLOW)
               : fd;
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

/* over: opens the mount's own root. */
static int bind_over(int fd, int (*over)(const struct walk *, const char *),
                     const struct walk *walk, const char *path, uint64_t attributes)
{
    char name[32];
    (void)snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    if (mount(name, name, NULL, MS_BIND | MS_REC, NULL) < 0) {
        return -1;
    }
    defer_close int over_fd = over(walk, path);
    (void)snprintf(name, sizeof name, "/proc/self/fd/%d", over_fd);
    return over_fd < 0 ? -1 : bind_restrict(name, attributes);
}

static int open_place(const struct walk *walk, const char *path)
{
    return open_below(walk->root_fd, path, O_PATH);
}

/* What a symbolic link leads to, if that is in the workspace: elsewhere code cannot write. */
static int open_target(const struct walk *walk, const char *path)
{
    char root[PATH_MAX];
    char target[PATH_MAX];
    defer_close int fd = openat(walk->root_fd, path, O_PATH | O_CLOEXEC);
    bool below = fd >= 0 && fd_path(walk->root_fd, root) == 0 && fd_path(fd, target) == 0 &&
                 strncmp(target, root, strlen(root)) == 0 && target[strlen(root)] == '/';
    return below ? take_fd(&fd) : -1;
}

/* Mounts over itself what open_fn finds at path. 0 or -1 with errno; ENOENT: nothing. */
static int cover(const struct walk *walk, const char *path, bool writable,
                 int (*open_fn)(const struct walk *, const char *))
{
    uint64_t attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (writable ? 0 : MOUNT_ATTR_RDONLY);
    defer_close int fd = open_fn(walk, path);
    if (fd < 0) {
        errno = ENOENT;
        return -1;
    }
    return walk->how == PROTECT_LOOK    ? 0
           : walk->how == PROTECT_MOUNT ? mount_over(fd, attributes)
                                        : bind_over(fd, open_fn, walk, path, attributes);
}

/* Makes path read-only, or, writable, no more than impossible to rename and to remove. Returns whether
 * there is such a directory (want_directory) or anything else. */
static bool protect(struct walk *walk, const char *path, bool writable, bool want_directory)
{
    struct stat st;
    defer_close int fd = open_below(walk->root_fd, path, O_PATH);
    if (fd < 0 || fstat(fd, &st) < 0 || S_ISDIR(st.st_mode) != want_directory) {
        return false;
    }
    if ((S_ISLNK(st.st_mode) && cover(walk, path, writable, open_target) < 0 && errno != ENOENT) ||
        (cover(walk, path, writable, open_place) < 0 && errno != ENOENT)) {
        walk->error = errno;
    }
    walk->found->names += !writable;
    return true;
}

static void protect_any(struct walk *walk, const char *path)
{
    if (!protect(walk, path, /* writable= */ false, /* want_directory= */ true)) {
        (void)protect(walk, path, /* writable= */ false, /* want_directory= */ false);
    }
}

static void visit_later(struct walk *walk, const char *path, enum place place, int package)
{
    if (path && walk->directory_count < DIRECTORIES) {
        walk->directories[walk->directory_count++] = (struct directory){path, place, package};
    } else {
        walk->found->incomplete = true;
    }
}

/* A file with more than one name. */
static void note_link(struct walk *walk, const struct directory *in, const char *name,
                      const struct stat *st, bool is_protected)
{
    if (protected_is_open(walk->open, PROTECTED_LINKS)) {
        return;
    }
    if (in->package != NO_PACKAGE) {
        const char *package = walk->directories[in->package].path;
        if (cover(walk, package, /* writable= */ false, open_place) < 0) {
            walk->found->links_open++;
        }
        walk->found->links++;
        walk->package_done[in->package] = true;
        return;
    }
    const char *path = walk->link_count < LINKS ? keep(walk, in->path, name) : NULL;
    if (!path) {
        walk->found->links++;
        walk->found->links_open++;
        return;
    }
    walk->links[walk->link_count++] =
        (struct hard_link){path, st->st_dev, st->st_ino, st->st_nlink, is_protected};
}

/* Hooks may lie in the tree: core.hooksPath, git-config(1). Relative to where they run, which is here. */
static void protect_hooks_path(struct walk *walk, const char *directory, const char *config)
{
    static char text[1 << 14];
    static const char key[] = "hookspath";
    defer_close int fd = open_below(walk->root_fd, config, O_RDONLY | O_NONBLOCK);
    ssize_t size = fd < 0 ? -1 : fd_pread_all(fd, text, sizeof text - 1, 0);
    text[size > 0 ? size : 0] = '\0';
    char *state = NULL;
    char *line = strtok_r(text, "\n", &state);
    for (; line; line = strtok_r(NULL, "\n", &state)) {
        line += strspn(line, " \t");
        const char *at = line + sizeof key - 1;
        if (strncasecmp(line, key, sizeof key - 1) != 0 || at[strspn(at, " \t")] != '=') {
            continue;
        }
        at += strspn(at, " \t=\"");
        ((char *)(uintptr_t)at)[strcspn(at, "\" \t\r#;")] = '\0';
        const char *path = *at && *at != '/' ? keep(walk, directory, at) : NULL;
        if (path) {
            protect_any(walk, path);
        }
    }
}

/* The rows of a git directory in the one at path. */
static void protect_git(struct walk *walk, const char *path)
{
    const char *rest = NULL;
    for (unsigned i = 0; box_protected_name(i); i++) {
        if (protected_begins(i, PROTECTED_GIT, &rest) && *rest &&
            !protected_is_open(walk->open, i)) {
            const char *name = keep(walk, path, rest);
            if (name) {
                protect_any(walk, name);
            }
        }
    }
}

static void enter_git(struct walk *walk, const struct directory *in, const char *path)
{
    const char *config = keep(walk, path, "config");
    (void)protect(walk, path, /* writable= */ true, /* want_directory= */ true);
    protect_git(walk, path);
    if (config) {
        protect_hooks_path(walk, in->path, config);
    }
    visit_later(walk, keep(walk, path, "objects"), IN_OBJECTS, NO_PACKAGE);
    visit_later(walk, keep(walk, path, "modules"), IN_GIT, NO_PACKAGE);
    visit_later(walk, keep(walk, path, "worktrees"), IN_GIT, NO_PACKAGE);
}

/* An entry of the table. Returns whether it is one, and thus dealt with. */
static bool take_row(struct walk *walk, const struct directory *in, const char *name,
                     bool is_directory)
{
    const char *rest = NULL;
    bool parent = false;
    for (unsigned i = 0; box_protected_name(i); i++) {
        if (!protected_begins(i, name, &rest) || protected_is_open(walk->open, i)) {
            continue;
        }
        const char *path = keep(walk, in->path, name);
        if (!path) {
            return true;
        }
        if (is_directory && strcasecmp(name, PROTECTED_GIT) == 0) {
            enter_git(walk, in, path);
            return true;
        }
        if (!*rest) {
            protect_any(walk, path);
            if (is_directory) {
                visit_later(walk, path, IN_PROTECTED, in->package);
            }
            return true;
        }
        if (is_directory && !parent) { /* which could be moved away from around it */
            (void)protect(walk, path, /* writable= */ true, /* want_directory= */ true);
            parent = true;
        }
        path = is_directory ? keep(walk, path, rest) : NULL;
        if (path) {
            protect_any(walk, path);
        }
    }
    return false;
}

static void take_directory(struct walk *walk, unsigned number, const char *name)
{
    static const char *const inner[] = {"refs",         "logs",         "info", "hooks",
                                        "rebase-merge", "rebase-apply", NULL};
    const struct directory *in = &walk->directories[number];
    enum place place = in->place;
    for (unsigned i = 0; place == IN_GIT && inner[i]; i++) {
        if (strcmp(name, inner[i]) == 0) {
            return;
        }
    }
    if (place == IN_GIT && strcmp(name, "objects") == 0) {
        place = IN_OBJECTS;
    }
    const char *path = keep(walk, in->path, name);
    int package = in->package;
    if (place == IN_TREE && package == NO_PACKAGE && strcmp(name, "node_modules") == 0) {
        package = (int)walk->directory_count;
    }
    visit_later(walk, path, place, package);
}

static void take_entry(struct walk *walk, unsigned number, int dir_fd, const char *name,
                       unsigned char type)
{
    const struct directory *in = &walk->directories[number];
    struct stat st = {};
    if (type != DT_DIR && type != DT_LNK &&
        (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))) {
        if (!S_ISDIR(st.st_mode) && !S_ISLNK(st.st_mode)) {
            return;
        }
    }
    bool is_directory = type == DT_DIR || S_ISDIR(st.st_mode);
    bool is_row =
        in->place == IN_TREE &&
        (name[0] == '.' || name[0] == 'm' || name[0] == 'o' || name[0] == 'M' || name[0] == 'O') &&
        take_row(walk, in, name, is_directory);
    if (is_directory && !is_row) {
        take_directory(walk, number, name);
    } else if (S_ISREG(st.st_mode) && st.st_nlink > 1) {
        note_link(walk, in, name, &st, is_row || in->place == IN_PROTECTED);
    }
}

struct listed { /* getdents64(2) */
    ino64_t inode;
    off64_t next;
    unsigned short size;
    unsigned char type;
    char name[];
};

static void visit(struct walk *walk, unsigned number)
{
    static union {
        struct listed first;
        char bytes[LIST_BYTES];
    } list;
    struct directory *in = &walk->directories[number];
    if (in->place == IN_GIT) { /* first, since what is opened before is below the mount */
        (void)protect(walk, in->path, /* writable= */ true, /* want_directory= */ true);
        protect_git(walk, in->path);
    }
    defer_close int fd = open_below(walk->root_fd, in->path, O_RDONLY | O_DIRECTORY);
    if (fd < 0) {
        return;
    }
    if (in->place == IN_TREE && in->package == NO_PACKAGE && *in->path &&
        (faccessat(fd, "pyvenv.cfg", F_OK, 0) == 0 || faccessat(fd, "conda-meta", F_OK, 0) == 0)) {
        in->package = (int)number;
    }
    for (;;) {
        long size = syscall(SYS_getdents64, fd, &list, sizeof list);
        for (long at = 0; at < size;) {
            const struct listed *entry = (const struct listed *)(const void *)(list.bytes + at);
            at += entry->size;
            if (strcmp(entry->name, ".") == 0 || strcmp(entry->name, "..") == 0) {
                continue;
            }
            if (++walk->entries > PROTECTED_ENTRIES) {
                walk->found->incomplete = true;
                return;
            }
            take_entry(walk, number, fd, entry->name, entry->type);
            if (in->package != NO_PACKAGE && walk->package_done[in->package]) {
                return;
            }
        }
        if (size <= 0) {
            return;
        }
    }
}

/* Whether code that writes to this file may write to a name outside, or to a protected one. */
static bool leads_on(const struct walk *walk, const struct hard_link *link)
{
    nlink_t seen = 0;
    for (unsigned i = 0; i < walk->link_count; i++) {
        const struct hard_link *other = &walk->links[i];
        bool same = other->inode == link->inode && other->device == link->device;
        if (same && other->is_protected) {
            return true;
        }
        seen += same;
    }
    return seen < link->names;
}

static void protect_links(struct walk *walk)
{
    unsigned mounts = 0;
    for (unsigned i = 0; i < walk->link_count; i++) {
        const struct hard_link *link = &walk->links[i];
        if (link->is_protected || !leads_on(walk, link)) {
            continue;
        }
        walk->found->links++;
        if (mounts++ >= LINK_MOUNTS ||
            cover(walk, link->path, /* writable= */ false, open_place) < 0) {
            walk->found->links_open++;
        }
    }
}

int protect_directory(const char *path, uint64_t open_bits, enum protect_how how,
                      struct box_protected *found)
{
    static struct walk walk; /* of a process that does nothing else; untouched pages cost nothing */
    walk.root_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    walk.how = how;
    walk.open = open_bits;
    walk.found = found;
    walk.entries = 0;
    walk.error = 0;
    walk.directory_count = 0;
    walk.link_count = 0;
    walk.text_used = 0;
    memset(walk.package_done, 0, sizeof walk.package_done);
    if (walk.root_fd < 0) {
        return errno == ENOENT ? 0 : -1;
    }
    visit_later(&walk, "", IN_TREE, NO_PACKAGE);
    for (unsigned i = 0; i < walk.directory_count && walk.entries <= PROTECTED_ENTRIES; i++) {
        int package = walk.directories[i].package;
        if (package == NO_PACKAGE || !walk.package_done[package]) {
            visit(&walk, i);
        }
    }
    protect_links(&walk);
    found->enforced = how != PROTECT_LOOK;
    if (how == PROTECT_LOOK) {
        found->links_open = found->links;
    }
    (void)close(walk.root_fd);
    errno = walk.error;
    return walk.error ? -1 : 0;
}
