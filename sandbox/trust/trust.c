#include "sandbox/trust/trust.h"

#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/path.h"
#include "sandbox/scratch.h"
#include "sandbox/types.h"

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

static const char usual_path[] = "/usr/local/bin:/usr/bin:/bin";
static const char shared_memory[] = "/dev/shm";

/* Without a mount namespace, code can make and write files there without listing them; see
 * allow_content() in plan_container.c. The plan does not offer it if the scratch directory lies in
 * it. */
static bool has_shared_memory(const struct box_spec *spec)
{
    return spec->scratch ? !path_behind(spec->scratch->path, shared_memory)
                         : spec->isolation == BOX_ISOLATION_CONTAINER ||
                               spec->isolation == BOX_ISOLATION_BEST;
}

unsigned trust_places(const struct box_spec *spec, struct trust_place places[TRUST_PLACES])
{
    unsigned count = 0;
    const char *const workspaces[] = {spec->workspace, spec->workspace_elsewhere};
    for (unsigned i = 0; i < 2; i++) {
        if (workspaces[i]) {
            places[count++] = (struct trust_place){workspaces[i], .workspace = true};
        }
    }
    for (unsigned i = 0; i < spec->mount_count; i++) {
        if (spec->mounts[i].writable) {
            places[count++] = (struct trust_place){spec->mounts[i].path, .workspace = false};
        }
    }
    for (unsigned i = 0; i < spec->aliases.count; i++) {
        places[count++] = (struct trust_place){spec->aliases.at[i], .alias = true};
    }
    if (spec->scratch) {
        places[count++] = (struct trust_place){spec->scratch->work, .workspace = false};
        places[count++] = (struct trust_place){spec->scratch->tmp, .workspace = false};
        places[count++] = (struct trust_place){spec->scratch->home, .workspace = false};
    }
    if (has_shared_memory(spec)) {
        places[count++] = (struct trust_place){shared_memory, .shared_memory = true};
    }
    return count;
}

struct trust_place trust_meets(const struct box_spec *spec, const char *path)
{
    struct trust_place places[TRUST_PLACES];
    unsigned count = trust_places(spec, places);
    for (unsigned i = 0; i < count; i++) {
        if (overlap_enters(path, places[i].path)) {
            return places[i];
        }
    }
    return (struct trust_place){};
}

int trust_refuse(const char *what, const char *path, const struct trust_place *place,
                 const char *fix, struct fail *ret_fail)
{
    return fail_refuse(ret_fail, EPERM, "%s %.300s is in %s%.300s, where code can change it: %s",
                       what, path, place->workspace ? "the workspace " : "", place->path, fix);
}

int trust_check(const struct box_spec *spec, const char *what, const char *path, const char *fix,
                struct fail *ret_fail)
{
    struct trust_place place = trust_meets(spec, path);
    return place.path ? trust_refuse(what, path, &place, fix, ret_fail) : 0;
}

int trust_check_tree(const struct box_spec *spec, const char *what, const char *dir,
                     const char *fix, struct fail *ret_fail)
{
    struct trust_place places[TRUST_PLACES];
    unsigned count = trust_places(spec, places);
    for (unsigned i = 0; i < count; i++) {
        if (overlap_enters(places[i].path, dir)) {
            return fail_refuse(ret_fail, EPERM,
                               "%s %.300s contains %.300s, which code can write to: %s", what, dir,
                               places[i].path, fix);
        }
    }
    return trust_check(spec, what, dir, fix, ret_fail);
}

/* --- the server itself --- */

struct libraries {
    const struct box_spec *spec;
    struct fail *ret_fail;
};

static int check_library(struct dl_phdr_info *info, size_t, void *arg)
{
    const struct libraries *libraries = arg;
    return info->dlpi_name[0] == '/'
               ? trust_check(libraries->spec, "the server's library", info->dlpi_name,
                             "start it with libraries from another directory", libraries->ret_fail)
               : 0;
}

/* Entries are separated as in ld.so(8); an empty one in a list of directories is the current
 * directory. */
static int check_list(const struct box_spec *spec, const char *name, const char *separators,
                      bool directories, struct fail *ret_fail)
{
    const char *at = getenv(name);
    bool more = at && *at;
    int r = 0;
    while (more && r == 0) {
        char entry[PATH_MAX];
        char what[96];
        size_t size = strcspn(at, separators);
        (void)snprintf(entry, sizeof entry, "%.*s", (int)size, at);
        (void)snprintf(what, sizeof what, "the %sentry of %s,",
                       entry[0] ? "" : "empty (which means the current directory) ", name);
        if (directories || strchr(entry, '/')) {
            r = trust_check(spec, what, entry[0] ? entry : ".",
                            "start the server without that entry", ret_fail);
        }
        more = at[size];
        at += size + more;
    }
    return r;
}

int trust_check_self(const struct box_spec *spec, struct fail *ret_fail)
{
    struct trust_place places[TRUST_PLACES];
    char program[PATH_MAX];
    if (trust_places(spec, places) == 0) {
        return 0;
    }
    ssize_t size = readlink("/proc/self/exe", program, sizeof program - 1);
    program[size > 0 ? size : 0] = '\0';
    int r = program[0] == '/' ? trust_check(spec, "the server's own program", program,
                                            "install it in another directory", ret_fail)
                              : 0;
    if (r < 0 || getauxval(AT_BASE) == 0) {
        return r; /* a static program has no loader, getauxval(3) */
    }
    struct libraries libraries = {spec, ret_fail};
    r = dl_iterate_phdr(check_library, &libraries);
    r = r ? r : check_list(spec, "LD_LIBRARY_PATH", ":;", /* directories= */ true, ret_fail);
    r = r ? r : check_list(spec, "LD_AUDIT", ":", /* directories= */ false, ret_fail);
    return r ? r : check_list(spec, "LD_PRELOAD", ": ", /* directories= */ false, ret_fail);
}

/* --- programs --- */

void trust_path(const struct box_spec *spec, char *out, size_t size)
{
    const char *at = getenv("PATH");
    at = at && *at ? at : usual_path;
    out[0] = '\0';
    while (*at) {
        char entry[PATH_MAX];
        size_t length = strcspn(at, ":");
        if (length > 0 && length < sizeof entry && *at == '/') {
            (void)snprintf(entry, sizeof entry, "%.*s", (int)length, at);
            bool fits = strlen(out) + length + 2 <= size;
            if (fits && !trust_meets(spec, entry).path) {
                buf_extend(out, size, "%s%s", out[0] ? ":" : "", entry);
            }
        }
        at += length;
        at += *at == ':';
    }
}

bool trust_find_system_program(const struct box_spec *spec, const char *name, char *out)
{
    static const char *const dirs[] = {"/usr/bin", "/bin", "/run/current-system/sw/bin"};
    bool found = false;
    for (unsigned i = 0; i < sizeof dirs / sizeof *dirs && !found; i++) {
        struct stat st;
        int size = snprintf(out, PATH_MAX, "%s/%s", dirs[i], name);
        found = size < PATH_MAX && stat(out, &st) == 0 && S_ISREG(st.st_mode) &&
                access(out, X_OK) == 0 && !trust_meets(spec, out).path;
    }
    return found;
}
