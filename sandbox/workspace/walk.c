/* Walks a workspace breadth first, so that it finds what is near the top in a workspace of any
 * size. It makes names of the table read-only by a mount over themselves, which can be neither
 * renamed nor removed. It does the same with files through which code could write outside: files
 * with several names of which the walk did not see all.
 *
 * Package managers hard-link whole trees from their stores (uv, pnpm, bun, conda): the first such
 * file in a directory of packages makes the whole directory read-only, and the walk leaves it.
 *
 * The tree may be hostile: code that ran earlier has made it, and other sandboxes may change it
 * meanwhile. The walk follows no symlink on the way to an entry, and mounts the object that it has
 * checked. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/own.h"
#include "base/path.h"
#include "sandbox/types.h"
#include "sandbox/workspace/protected.h"
#include "sandbox/workspace/state.h"

static void visit_later(struct walk *walk, const char *path, enum place place, int package)
{
    if (path && walk->directory_count < DIRECTORIES) {
        walk->directories[walk->directory_count++] = (struct directory){path, place, package};
    } else {
        walk->found->incomplete = true;
    }
}

/* Notes a file with more than one name. */
static void note_link(struct walk *walk, const struct directory *in, int dir_fd, const char *name,
                      const struct stat *st, bool is_protected)
{
    struct stat parent;
    if (protected_is_open(walk->open, PROTECTED_LINKS)) {
        return;
    }
    if (in->package != NO_PACKAGE) {
        const char *package = walk->directories[in->package].path;
        if (walk_cover(walk, (struct spot){walk->root_fd, package, false}) < 0) {
            walk->found->links_open++;
        }
        walk->found->links++;
        walk->package_done[in->package] = true;
        return;
    }
    const char *path = walk->link_count < LINKS ? walk_keep(walk, in->path, name) : NULL;
    if (!path) {
        walk->found->links++;
        walk->found->links_open++;
        return;
    }
    walk->links[walk->link_count++] =
        (struct hard_link){.path = path,
                           .device = st->st_dev,
                           .inode = st->st_ino,
                           .parent = fstat(dir_fd, &parent) < 0 ? 0 : parent.st_ino,
                           .changed = st->st_ctim,
                           .names = st->st_nlink,
                           .is_protected = is_protected};
}

static void enter_git(struct walk *walk, const struct directory *in, const char *path)
{
    walk_take_git(walk, in->path, path);
    visit_later(walk, walk_keep(walk, path, "objects"), IN_OBJECTS, NO_PACKAGE);
    visit_later(walk, walk_keep(walk, path, "modules"), IN_GIT, NO_PACKAGE);
    visit_later(walk, walk_keep(walk, path, "worktrees"), IN_GIT, NO_PACKAGE);
}

/* Handles an entry of the table. Returns whether it is one. */
static bool take_row(struct walk *walk, const struct directory *in, const char *name,
                     bool is_directory)
{
    const char *rest = NULL;
    bool parent = false;
    bool again = false;
    for (unsigned i = 0; box_protected_name(i); i++) {
        if (!protected_begins(i, name, &rest) || protected_is_open(walk->open, i)) {
            continue;
        }
        const char *path = walk_keep(walk, in->path, name);
        if (!path) {
            return true;
        }
        again = !*in->path && walk->top_taken &&
                strncmp(box_protected_name(i), name, strlen(name)) == 0;
        if (is_directory && strcasecmp(name, PROTECTED_GIT) == 0) {
            if (!again) {
                enter_git(walk, in, path);
            }
            return true;
        }
        if (!*rest) {
            walk_protect_any(walk, path);
            if (strcasecmp(name, PROTECTED_GIT) == 0) {
                walk_take_git_file(walk, in->path, path);
            }
            if (is_directory && !again) {
                visit_later(walk, path, IN_PROTECTED, in->package);
            }
            return true;
        }
        if (is_directory && !parent) { /* code could rename a directory around it */
            (void)walk_protect(walk, path, /* writable= */ true, /* want_directory= */ true);
            parent = true;
        }
        path = is_directory ? walk_keep(walk, path, rest) : NULL;
        if (path) {
            walk_protect_any(walk, path);
        }
    }
    return false;
}

/* Handles the rows of the top directory by name: other entries there cannot hide them. */
static void take_top_rows(struct walk *walk)
{
    char name[NAME_MAX + 1];
    const char *row = NULL;
    for (unsigned i = 0; (row = box_protected_name(i)); i++) {
        (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(row, "/"), row);
        bool known = i > 0 && protected_begins(i - 1, name, &row);
        struct stat st;
        if (!known && fstatat(walk->root_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
            (void)take_row(walk, &walk->directories[0], name, S_ISDIR(st.st_mode));
        }
    }
    walk->top_taken = true;
    for (unsigned i = 0; (row = box_protected_name(i)); i++) {
        for (unsigned k = 0; walk->mounts && k < walk->covered_count; k++) {
            const struct spot *spot = &walk->covered[k];
            bool is_row = spot->root_fd == walk->root_fd && strcmp(spot->path, row) == 0;
            walk->found->rows |= is_row && !spot->writable ? 1ULL << i : 0;
        }
    }
}

/* Whether it is part of a git directory and not a submodule of the same name. */
static bool is_inner(int dir_fd, const char *name)
{
    char config[NAME_MAX + sizeof "/config"];
    (void)snprintf(config, sizeof config, "%s/config", name);
    return faccessat(dir_fd, "HEAD", F_OK, AT_SYMLINK_NOFOLLOW) == 0 &&
           faccessat(dir_fd, config, F_OK, AT_SYMLINK_NOFOLLOW) < 0;
}

static void take_directory(struct walk *walk, unsigned number, int dir_fd, const char *name)
{
    static const char *const inner[] = {"refs",         "logs",         "info", "hooks",
                                        "rebase-merge", "rebase-apply", NULL};
    const struct directory *in = &walk->directories[number];
    enum place place = in->place;
    for (unsigned i = 0; place == IN_GIT && inner[i]; i++) {
        if (strcmp(name, inner[i]) == 0 && is_inner(dir_fd, name)) {
            return;
        }
    }
    if (place == IN_GIT && strcmp(name, "objects") == 0) {
        place = IN_OBJECTS;
    }
    const char *path = walk_keep(walk, in->path, name);
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
    bool is_row = in->place == IN_TREE && strchr(".lLmMoO", name[0]) &&
                  take_row(walk, in, name, is_directory);
    if (is_directory && !is_row) {
        take_directory(walk, number, dir_fd, name);
    } else if (S_ISREG(st.st_mode) && st.st_nlink > 1) {
        note_link(walk, in, dir_fd, name, &st, is_row || in->place == IN_PROTECTED);
    }
}

struct listed { /* of getdents64(2) */
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
    if (in->place == IN_GIT) { /* first: what is opened earlier is below the mount */
        (void)walk_protect(walk, in->path, /* writable= */ true, /* want_directory= */ true);
        walk_protect_git(walk, in->path);
    }
    defer_close int fd = fd_open_beneath(walk->root_fd, in->path, O_RDONLY | O_DIRECTORY);
    if (fd < 0) {
        return;
    }
    if (in->place == IN_TREE && in->package == NO_PACKAGE && *in->path &&
        (faccessat(fd, "pyvenv.cfg", F_OK, 0) == 0 || faccessat(fd, "conda-meta", F_OK, 0) == 0)) {
        in->package = (int)number;
    }
    if (in->place == IN_TREE && git_is_directory_at(fd)) {
        walk_take_git(walk, in->path, in->path);
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

/* Whether an earlier entry is the same name, seen before its directory was moved. */
static bool is_seen(const struct walk *walk, unsigned number)
{
    const struct hard_link *link = &walk->links[number];
    for (unsigned i = 0; i < number; i++) {
        const struct hard_link *other = &walk->links[i];
        if (other->inode == link->inode && other->device == link->device &&
            other->parent == link->parent &&
            strcmp(path_last(other->path), path_last(link->path)) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether code that writes to this file may write to a name outside, or to a protected one. If
 * other code renames the file during the walk, the file's time changes; a change as young as the
 * walk may hide another. */
static bool leads_on(const struct walk *walk, const struct hard_link *link)
{
    nlink_t seen = 0;
    if (walk->found->shared && link->changed.tv_sec + RESOLVED_S > walk->started) {
        return true;
    }
    for (unsigned i = 0; i < walk->link_count; i++) {
        const struct hard_link *other = &walk->links[i];
        bool same = other->inode == link->inode && other->device == link->device;
        bool moved = other->changed.tv_sec != link->changed.tv_sec ||
                     other->changed.tv_nsec != link->changed.tv_nsec;
        if (same && (other->is_protected || moved)) {
            return true;
        }
        seen += same && !is_seen(walk, i);
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
            walk_cover(walk, (struct spot){walk->root_fd, link->path, false}) < 0) {
            walk->found->links_open++;
        }
    }
}

static struct walk walk; /* untouched pages cost nothing */

/* Begins with the top directory. 0 or -1 with errno. */
static int walk_begin(const struct protect_root *roots, unsigned root_count, uint64_t open_bits,
                      bool mounts, struct box_protected *found)
{
    int errno_open = 0;
    walk.roots = roots;
    walk.root_count = root_count;
    for (unsigned i = 0; i < root_count; i++) {
        walk.root_fds[i] = open(roots[i].path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        errno_open = i == 0 ? errno : errno_open;
    }
    walk.root_fd = walk.root_fds[0];
    walk.started = time(NULL);
    walk.top_taken = false;
    walk.covered_count = 0;
    found->rows = 0;
    walk.mounts = mounts;
    walk.open = open_bits;
    walk.found = found;
    walk.entries = 0;
    walk.error = 0;
    walk.directory_count = 0;
    walk.link_count = 0;
    walk.text_used = 0;
    memset(walk.package_done, 0, sizeof walk.package_done);
    if (walk.root_fd < 0) {
        errno = errno_open;
        return -1;
    }
    visit_later(&walk, "", IN_TREE, NO_PACKAGE);
    take_top_rows(&walk);
    return 0;
}

void protect_find(const char *directory, protect_find_fn fn, void *arg)
{
    const struct protect_root root = {.path = directory, .host = directory};
    struct box_protected found = {};
    walk.wants_missing = true;
    if (walk_begin(&root, 1, 0, /* mounts= */ false, &found) == 0) {
        for (unsigned i = 0; i < walk.covered_count; i++) {
            if (!walk.covered[i].writable) {
                fn(arg, walk.covered[i].path);
            }
        }
    }
    walk.wants_missing = false;
    drop_fd(&walk.root_fds[0]);
}

int protect_directory(const struct protect_root *roots, unsigned root_count, uint64_t open_bits,
                      bool mounts, struct box_protected *found)
{
    if (walk_begin(roots, root_count, open_bits, mounts, found) < 0) {
        return errno == ENOENT ? 0 : -1;
    }
    for (unsigned i = 0; i < walk.directory_count && walk.entries <= PROTECTED_ENTRIES; i++) {
        int package = walk.directories[i].package;
        if (package == NO_PACKAGE || !walk.package_done[package]) {
            visit(&walk, i);
        }
    }
    protect_links(&walk);
    found->enforced = mounts;
    if (!mounts) {
        found->links_open = found->links;
    }
    for (unsigned i = 0; i < root_count; i++) {
        drop_fd(&walk.root_fds[i]);
    }
    errno = walk.error;
    return walk.error ? -1 : 0;
}

/* Reports changes of protected names in the workspace's top directory, seen from outside: code
 * cannot influence the check. It runs after each call, so it costs one fstatat(2) for each row, and
 * more only for directories whose content code can change. */

enum { DEPTH = 16, ENTRIES = 1024 }; /* compared in one directory: at most 1 ms */

/* Uses the change time, which code cannot set, utimensat(2). */
static uint64_t mix_content(uint64_t sum, const struct stat *st)
{
    sum = hash_fnv(sum, &st->st_size, sizeof st->st_size);
    sum = hash_fnv(sum, &st->st_mode, sizeof st->st_mode);
    return hash_fnv(sum, &st->st_ctim, sizeof st->st_ctim);
}

/* left: entries that may still be checked; 0 afterwards: not all were. */
static uint64_t mix_directory(uint64_t sum, int at_fd, const char *name, unsigned depth,
                              unsigned *left)
{
    int fd = openat(at_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    defer_closedir DIR *dir = fd_directory(fd);
    for (const char *entry = NULL; *left > 0 && (entry = fd_next_name(dir));) {
        struct stat st;
        if (fstatat(fd, entry, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            continue;
        }
        (*left)--;
        sum = hash_fnv(sum, entry, strlen(entry));
        sum = mix_content(sum, &st);
        if (S_ISDIR(st.st_mode) && depth > 1) {
            sum = mix_directory(sum, fd, entry, depth - 1, left);
        } else if (S_ISDIR(st.st_mode)) {
            *left = 0;
        }
    }
    return sum;
}

/* {0, 0}: the name does not exist. */
static struct box_protected_seen look(struct box_protected_watch *watch, unsigned row)
{
    struct stat st;
    const char *name = box_protected_name(row);
    unsigned left = ENTRIES;
    struct box_protected_seen seen = {};
    if (fstatat(watch->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return seen;
    }
    mode_t type = st.st_mode & S_IFMT;
    seen.identity =
        hash_fnv(hash_fnv(HASH_FNV, &st.st_ino, sizeof st.st_ino), &type, sizeof type) | 1;
    /* If a program outside has replaced an object that is mounted read-only, the name refers to
     * another object, which is writable. */
    bool read_only = watch->read_only & 1ULL << row && seen.identity == watch->first[row];
    if (!read_only && strcmp(name, PROTECTED_GIT) != 0) { /* git changes .git all the time */
        seen.content = mix_content(HASH_FNV, &st);
        if (S_ISDIR(st.st_mode)) {
            seen.content = mix_directory(seen.content, watch->dir_fd, name, DEPTH, &left);
        }
        watch->partial |= left == 0 ? 1ULL << row : 0;
    }
    return seen;
}

static const char *const parents[PROTECTED_PARENTS] = {".",       ".git",  ".hg", ".github",
                                                       ".config", ".mise", "mise"};

static unsigned parent_of(const char *name)
{
    size_t size = strcspn(name, "/");
    unsigned i = name[size] ? PROTECTED_PARENTS : 0;
    while (i-- > 1) {
        if (strncmp(parents[i], name, size) == 0 && parents[i][size] == '\0') {
            return i;
        }
    }
    return 0;
}

/* Whether names have appeared in the directory or gone since the last check. Its change time, which
 * code cannot set, is as coarse as a kernel tick: a time younger than two seconds says nothing. */
static bool has_changed(struct box_protected_watch *watch, unsigned parent)
{
    struct box_protected_parent *known = &watch->parents[parent];
    struct box_protected_parent now = {.resolved = true};
    struct stat st;
    if (fstatat(watch->dir_fd, parents[parent], &st, AT_SYMLINK_NOFOLLOW) == 0) {
        now.state = hash_fnv(mix_content(HASH_FNV, &st), &st.st_ino, sizeof st.st_ino) | 1;
        now.resolved = st.st_ctim.tv_sec + 2 < clock_file_ns() / (int64_t)CLOCK_NS_PER_S;
    }
    bool changed = now.state != known->state || !known->resolved;
    *known = now;
    return changed;
}

void box_protected_watch(const struct box_spec *spec, uint64_t read_only,
                         struct box_protected_watch *watch)
{
    bool again = watch->dir_fd >= 0;
    box_protected_unwatch(watch);
    watch->read_only = read_only;
    watch->partial = 0;
    watch->dir_fd = box_spec_is_written_through(spec)
                        ? open(spec->workspace, O_PATH | O_DIRECTORY | O_CLOEXEC)
                        : -1;
    watch->is_git = again ? watch->is_git : git_is_directory_at(watch->dir_fd);
    for (unsigned i = 0; watch->dir_fd >= 0 && box_protected_name(i); i++) {
        watch->first[i] = 0;
        watch->first[i] = look(watch, i).identity;
        if (!again || watch->last[i].identity == watch->first[i]) {
            watch->last[i] = look(watch, i);
        }
    }
}

void box_protected_unwatch(struct box_protected_watch *watch)
{
    drop_fd(&watch->dir_fd);
}

bool box_protected_is_elsewhere(const struct box_spec *spec,
                                const struct box_protected_watch *watch)
{
    struct stat is;
    struct stat was;
    return watch->dir_fd >= 0 && fstat(watch->dir_fd, &was) == 0 &&
           (stat(spec->workspace, &is) < 0 || is.st_ino != was.st_ino || is.st_dev != was.st_dev);
}

bool box_protected_news(const struct box_spec *spec, struct box_protected_watch *watch, char *text,
                        size_t size)
{
    bool changed[PROTECTED_PARENTS] = {};
    text[0] = '\0';
    for (unsigned i = 0; watch->dir_fd >= 0 && i < PROTECTED_PARENTS; i++) {
        changed[i] = has_changed(watch, i);
    }
    for (unsigned i = 0; watch->dir_fd >= 0 && box_protected_name(i); i++) {
        struct box_protected_seen last = watch->last[i];
        bool unseen = !last.content && !changed[parent_of(box_protected_name(i))];
        if (unseen || protected_is_open(spec->allow_write, i)) {
            continue;
        }
        uint64_t partial = watch->partial;
        struct box_protected_seen now = look(watch, i);
        watch->last[i] = now;
        bool same = now.identity == last.identity && now.content == last.content;
        if (!same) {
            const char *sign = !now.identity ? "-" : last.identity ? "~" : "+";
            buf_extend(text, size, "%s%s%s%s", text[0] ? " " : "", sign, box_protected_name(i),
                       watch->partial != partial ? " (not watched completely)" : "");
        }
    }
    bool git = changed[0] ? git_is_directory_at(watch->dir_fd) : watch->is_git;
    if (git && !watch->is_git) {
        buf_extend(text, size, "%s+HEAD", text[0] ? " " : "");
    }
    watch->is_git = git;
    return text[0] != '\0';
}
