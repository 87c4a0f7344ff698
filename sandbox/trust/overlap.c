#include "sandbox/trust/overlap.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/path.h"

enum { SYMLINKS_MOST = 40 }; /* the kernel's limit, path_resolution(7) */

struct walk {
    dev_t dev; /* of the wanted directory */
    ino_t ino;
    char done[PATH_MAX]; /* real, without a final slash: "" is the root directory */
    char left[PATH_MAX]; /* still to be followed */
    char *rest;          /* PATH_MAX bytes: from the wanted directory to done */
    unsigned symlinks;
    bool inside;  /* done is the wanted directory or lies in it */
    bool touched; /* a name was looked up in it */
    bool strayed; /* a name in it was a symlink, or the walk left it by ".." */
};

/* Appends /name. Returns false when it does not fit. */
static bool append(char path[PATH_MAX], const char *name)
{
    bool fits = strlen(path) + 1 + strlen(name) < PATH_MAX;
    if (fits) {
        buf_extend(path, PATH_MAX, "/%s", name);
    }
    return fits;
}

/* st: of done, if it exists. */
static void arrive(struct walk *walk, const struct stat *st)
{
    if (!walk->inside && st->st_dev == walk->dev && st->st_ino == walk->ino) {
        walk->inside = true;
        walk->rest[0] = '\0';
    }
}

static void arrive_at_root(struct walk *walk)
{
    struct stat st = {};
    walk->done[0] = '\0';
    walk->inside = false;
    if (stat("/", &st) == 0) {
        arrive(walk, &st);
    }
}

static void go_up(struct walk *walk)
{
    path_cut_last(walk->done);
    if (walk->inside) {
        walk->strayed = walk->strayed || walk->rest[0];
        walk->inside = walk->rest[0];
        path_cut_last(walk->rest);
    }
}

/* Puts the symlink's target before the remaining path. Returns false when it does not fit. */
static bool follow(struct walk *walk, const char *symlink)
{
    char target[PATH_MAX];
    ssize_t size = readlink(symlink, target, sizeof target - 1);
    if (size < 0 || ++walk->symlinks > SYMLINKS_MOST) {
        return false;
    }
    target[size] = '\0';
    if (!append(target, walk->left)) {
        return false;
    }
    memcpy(walk->left, target, strlen(target) + 1);
    walk->strayed = walk->strayed || walk->inside;
    if (target[0] == '/') {
        arrive_at_root(walk);
    }
    return true;
}

/* Returns false when the walk cannot continue. */
static bool step(struct walk *walk, const char *name)
{
    char next[PATH_MAX];
    struct stat st;
    if (strcmp(name, ".") == 0) {
        return true;
    }
    if (strcmp(name, "..") == 0) {
        go_up(walk);
        return true;
    }
    walk->touched = walk->touched || walk->inside;
    memcpy(next, walk->done, strlen(walk->done) + 1);
    if (!append(next, name)) {
        return false;
    }
    bool there = lstat(next, &st) == 0;
    if (there && S_ISLNK(st.st_mode)) {
        return follow(walk, next);
    }
    memcpy(walk->done, next, strlen(next) + 1);
    if (walk->inside) {
        return append(walk->rest, name);
    }
    if (there) {
        arrive(walk, &st);
    }
    return true;
}

/* Takes the next name off the remaining path. Returns false at the end, and for a name that is too
 * long. */
static bool next_name(struct walk *walk, char name[NAME_MAX + 1])
{
    size_t skip = strspn(walk->left, "/");
    size_t size = strcspn(walk->left + skip, "/");
    if (size == 0 || size > NAME_MAX) {
        return false;
    }
    memcpy(name, walk->left + skip, size);
    name[size] = '\0';
    memmove(walk->left, walk->left + skip + size, strlen(walk->left + skip + size) + 1);
    return true;
}

enum overlap overlap_of(const char *path, const char *dir, char ret_rest[PATH_MAX])
{
    struct walk walk = {.rest = ret_rest};
    char name[NAME_MAX + 1];
    struct stat st;
    ret_rest[0] = '\0';
    if (!dir || stat(dir, &st) < 0) {
        return OVERLAP_NONE;
    }
    walk.dev = st.st_dev;
    walk.ino = st.st_ino;
    bool relative = path[0] != '/';
    bool whole = (!relative || getcwd(walk.left, sizeof walk.left)) &&
                 (relative ? append(walk.left, path)
                           : snprintf(walk.left, sizeof walk.left, "%s", path) < PATH_MAX);
    if (!whole) {
        return OVERLAP_THROUGH; /* unknown */
    }
    arrive_at_root(&walk);
    while (whole && next_name(&walk, name)) {
        whole = step(&walk, name);
    }
    if (!walk.inside && !walk.touched) {
        return OVERLAP_NONE;
    }
    bool straight = walk.inside && !walk.strayed && whole && walk.left[strspn(walk.left, "/")] == 0;
    memmove(ret_rest, ret_rest + (ret_rest[0] == '/'), strlen(ret_rest) + (ret_rest[0] != '/'));
    return straight ? OVERLAP_INSIDE : OVERLAP_THROUGH;
}

enum overlap overlap_of_parent(const char *path, const char *dir, char ret_rest[PATH_MAX])
{
    char parent[PATH_MAX];
    if (snprintf(parent, sizeof parent, "%s", path) >= PATH_MAX) {
        return OVERLAP_THROUGH;
    }
    char *slash = strrchr(parent, '/');
    if (slash) {
        slash[slash == parent] = '\0';
    }
    return overlap_of(slash ? parent : ".", dir, ret_rest);
}

bool overlap_enters(const char *path, const char *dir)
{
    char rest[PATH_MAX];
    return overlap_of(path, dir, rest) != OVERLAP_NONE;
}

bool overlap_between(const char *one, const char *other)
{
    return one && other && (overlap_enters(one, other) || overlap_enters(other, one));
}
