/* Finds directories that are mounted at several paths, by the table of mounts,
 * proc_pid_mountinfo(5): each mount has its file system's device and, in that file system, the
 * directory that is its root. */
#include "sandbox/trust/trust.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/path.h"
#include "sandbox/scratch.h"
#include "sandbox/types.h"

enum { MOUNTINFO_BYTES = 1 << 20 };

/* The mount that holds path: the deepest one, and of several the last. */
static const struct parsed_mount *find_enclosing(const struct parsed_mount *rows, size_t count,
                                                 const char *path)
{
    const struct parsed_mount *found = NULL;
    for (size_t i = 0; i < count; i++) {
        bool deeper = !found || strlen(rows[i].point) >= strlen(found->point);
        found = deeper && path_behind(path, rows[i].point) ? &rows[i] : found;
    }
    return found;
}

/* Whether row's root is part of directory dir, which the mount around holds. */
static bool is_part_of(const struct parsed_mount *row, const struct parsed_mount *around,
                       const char *dir)
{
    if (strcmp(row->device, around->device) != 0) {
        return false;
    }
    const char *below_root = path_behind(row->root, around->root);
    const char *below_point = path_behind(dir, around->point);
    return below_root && below_point &&
           (!*below_point || path_behind(below_root, below_point) != NULL);
}

static bool is_known(const struct box_spec *spec, const char *path)
{
    struct trust_place places[TRUST_PLACES];
    unsigned count = trust_places(spec, places);
    bool known = false;
    for (unsigned i = 0; i < count && !known; i++) {
        known = strcmp(places[i].path, path) == 0;
    }
    return known;
}

static int add(struct box_spec *spec, const char *path, struct fail *ret_fail)
{
    if (is_known(spec, path)) {
        return 0;
    }
    if (spec->aliases.count == BOX_ALIASES) {
        return fail_refuse(
            ret_fail, E2BIG,
            "more than %d directories are mounted in or from those that code may write "
            "to; name smaller ones with --workspace and --mount",
            BOX_ALIASES);
    }
    char *copy = strdup(path);
    if (!copy) {
        return fail_set(ret_fail, ENOMEM, "the mount table");
    }
    spec->aliases.at[spec->aliases.count++] = copy;
    return 0;
}

static int add_aliases_of(struct box_spec *spec, const char *dir, const struct parsed_mount *rows,
                          size_t count, struct fail *ret_fail)
{
    const struct parsed_mount *around = find_enclosing(rows, count, dir);
    int r = 0;
    for (size_t i = 0; around && i < count && r == 0; i++) {
        const char *below = path_behind(rows[i].point, dir);
        if ((below && *below) || (!below && is_part_of(&rows[i], around, dir))) {
            r = add(spec, rows[i].point, ret_fail);
        }
    }
    return r;
}

static int add_aliases(struct box_spec *spec, const struct parsed_mount *rows, size_t count,
                       struct fail *ret_fail)
{
    int r = spec->workspace ? add_aliases_of(spec, spec->workspace, rows, count, ret_fail) : 0;
    for (unsigned i = 0; r == 0 && i < spec->mount_count; i++) {
        if (spec->mounts[i].writable) {
            r = add_aliases_of(spec, spec->mounts[i].path, rows, count, ret_fail);
        }
    }
    /* An alias has its own mount, and parts of that have aliases too. */
    for (unsigned i = 0; r == 0 && i < spec->aliases.count; i++) {
        r = add_aliases_of(spec, spec->aliases.at[i], rows, count, ret_fail);
    }
    return r;
}

int trust_read_aliases(struct box_spec *spec, char *mountinfo, struct fail *ret_fail)
{
    size_t most = 1;
    for (const char *at = mountinfo; (at = strchr(at, '\n')); at++) {
        most++;
    }
    struct parsed_mount *rows = calloc(most, sizeof *rows);
    if (!rows) {
        return fail_set(ret_fail, ENOMEM, "the mount table");
    }
    size_t count = 0;
    while (parse_mount(&mountinfo, &rows[count])) {
        count++;
    }
    trust_forget_aliases(spec);
    int r = add_aliases(spec, rows, count, ret_fail);
    free(rows);
    return r;
}

int trust_read_mounts(char **ret_text, struct fail *ret_fail)
{
    defer_free char *text = malloc(MOUNTINFO_BYTES);
    int r =
        text ? fd_read_text_at(AT_FDCWD, "/proc/self/mountinfo", text, MOUNTINFO_BYTES) : -ENOMEM;
    if (r < 0) {
        return fail_set(ret_fail, -r, "the mount table");
    }
    *ret_text = take_ptr(text);
    return 0;
}

int trust_find_aliases(struct box_spec *spec, struct fail *ret_fail)
{
    struct trust_place places[TRUST_PLACES];
    if (trust_places(spec, places) == 0) {
        return 0;
    }
    defer_free char *text = NULL;
    int r = trust_read_mounts(&text, ret_fail);
    return text ? trust_read_aliases(spec, text, ret_fail) : r;
}

void trust_forget_aliases(struct box_spec *spec)
{
    for (unsigned i = 0; i < spec->aliases.count; i++) {
        free((void *)(uintptr_t)spec->aliases.at[i]);
    }
    spec->aliases.count = 0;
}

/* Programs, libraries and settings that other users, including root, run and read; with everything
 * below. */
static const char *const system_trees[] = {
    "/bin",        "/boot",        "/etc",           "/lib",           "/lib32",
    "/lib64",      "/libx32",      "/nix",           "/proc",          "/sbin",
    "/sys",        "/usr/bin",     "/usr/lib",       "/usr/lib32",     "/usr/lib64",
    "/usr/libx32", "/usr/libexec", "/usr/local/bin", "/usr/local/lib", "/usr/local/sbin",
    "/usr/sbin",   "/run/systemd", "/var/spool",
};

/* Directories that hold such things beside users' data: a directory in them may be shared. */
static const char *const system_directories[] = {
    "/dev", "/home", "/opt", "/run", "/usr", "/usr/local", "/usr/share", "/var", "/var/lib",
};

static int refuse(struct fail *ret_fail, const char *flag, const char *path, const char *why)
{
    return fail_refuse(ret_fail, EPERM, "%s %s: %s", flag, path, why);
}

static void set_home(const char *home, char out[PATH_MAX])
{
    out[0] = '\0';
    if (home && home[0] == '/' && (!realpath(home, out) || strcmp(out, "/") == 0)) {
        out[0] = '\0';
    }
}

/* Uses fgetpwent(3), which reads only this file: getpwuid(3) loads libraries, which a static
 * program cannot do. */
static void find_passwd_home(char out[PATH_MAX])
{
    defer_fclose FILE *file = fopen("/etc/passwd", "re");
    const struct passwd *entry = NULL;
    out[0] = '\0';
    while (file && !out[0] && (entry = fgetpwent(file))) {
        if (entry->pw_uid == geteuid()) {
            set_home(entry->pw_dir, out);
        }
    }
}

void directory_find_homes(struct directory_homes *ret_homes)
{
    set_home(getenv("HOME"), ret_homes->paths[0]);
    find_passwd_home(ret_homes->paths[1]);
}

int directory_find(const char *flag, const char *dir, char path[PATH_MAX], struct stat *ret_stat,
                   struct fail *ret_fail)
{
    char below[PATH_MAX];
    char home[PATH_MAX];
    set_home(getenv("HOME"), home);
    bool in_home = dir[0] == '~' && (dir[1] == '/' || dir[1] == '\0') && home[0];
    if (snprintf(below, sizeof below, "%s%s", in_home ? home : "", dir + in_home) >= PATH_MAX) {
        return fail_set(ret_fail, ENAMETOOLONG, "%s", flag);
    }
    if (!realpath(below, path) || stat(path, ret_stat) < 0) {
        return fail_set(ret_fail, errno, "%s %s", flag, dir);
    }
    return S_ISDIR(ret_stat->st_mode) ? 0 : fail_set(ret_fail, ENOTDIR, "%s %s", flag, dir);
}

int directory_find_new(const char *flag, const char *dir, char path[PATH_MAX],
                       struct fail *ret_fail)
{
    char parent[PATH_MAX];
    struct stat st;
    struct fail missing = {};
    size_t size = strlen(dir);
    while (size > 1 && dir[size - 1] == '/') {
        size--;
    }
    if (directory_find(flag, dir, path, &st, &missing) == 0) {
        return 0;
    }
    (void)snprintf(parent, sizeof parent, "%.*s", (int)size, dir);
    char *slash = strrchr(parent, '/');
    const char *name = dir + (slash ? slash - parent + 1 : 0);
    if (slash) {
        slash[slash == parent] = '\0';
    }
    if (missing.code != ENOENT || size >= sizeof parent ||
        directory_find(flag, slash ? parent : ".", path, &st, ret_fail) < 0) {
        *ret_fail = missing;
        return -EINVAL;
    }
    size_t used = strlen(path);
    int length = snprintf(path + used, PATH_MAX - used, "%s%.*s", used > 1 ? "/" : "",
                          (int)(size - (size_t)(name - dir)), name);
    return (size_t)length < PATH_MAX - used ? 0 : fail_set(ret_fail, ENAMETOOLONG, "%s", flag);
}

static bool is_same(const char *path, const char *other)
{
    struct stat a;
    struct stat b;
    return other[0] && stat(path, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

static bool is_one_of(const char *path, const struct directory_homes *homes)
{
    return is_same(path, homes->paths[0]) || is_same(path, homes->paths[1]);
}

bool directory_is_home(const char *path)
{
    struct directory_homes homes;
    directory_find_homes(&homes);
    return is_one_of(path, &homes);
}

/* Also true for another path of a system directory, or of a directory that contains one. */
static bool is_system(const char *path)
{
    for (unsigned i = 0; i < sizeof system_trees / sizeof *system_trees; i++) {
        if (overlap_between(path, system_trees[i])) {
            return true;
        }
    }
    for (unsigned i = 0; i < sizeof system_directories / sizeof *system_directories; i++) {
        if (overlap_enters(system_directories[i], path)) {
            return true;
        }
    }
    return false;
}

/* Whether the server has made it: see workspace/store.c. */
static bool is_store(const char *path)
{
    enum { DIGITS = 16 };
    const char *name = strrchr(path, '/') + 1;
    char inner[PATH_MAX];
    struct stat st;
    return strlen(name) == DIGITS && strspn(name, "0123456789abcdef") == DIGITS &&
           snprintf(inner, sizeof inner, "%s/layers", path) < PATH_MAX && lstat(inner, &st) == 0 &&
           S_ISDIR(st.st_mode) && snprintf(inner, sizeof inner, "%s/workspace", path) < PATH_MAX &&
           lstat(inner, &st) == 0 && S_ISREG(st.st_mode);
}

static bool lies_in_store(const char *path)
{
    char above[PATH_MAX];
    (void)snprintf(above, sizeof above, "%s", path);
    while (above[0]) {
        if (is_store(above)) {
            return true;
        }
        *strrchr(above, '/') = '\0';
    }
    return false;
}

static bool holds_store(const char *path)
{
    defer_closedir DIR *directory = opendir(path);
    const struct dirent *entry = NULL;
    char inner[PATH_MAX];
    while (directory && (entry = readdir(directory))) {
        if (entry->d_type != DT_REG &&
            snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name) < PATH_MAX &&
            is_store(inner)) {
            return true;
        }
    }
    return false;
}

int directory_check_stores(const char *flag, const char *path, struct fail *ret_fail)
{
    return lies_in_store(path) || holds_store(path)
               ? refuse(ret_fail, flag, path,
                        "a server keeps the changes of another workspace there (--cow-store); name "
                        "another directory")
               : 0;
}

int directory_check(const char *flag, const char *path, bool writable, struct fail *ret_fail)
{
    struct directory_homes homes;
    directory_find_homes(&homes);
    bool is_home = is_one_of(path, &homes);
    if (is_same(path, "/")) {
        return refuse(ret_fail, flag, path,
                      "it is the whole file system; name the directory with the data");
    }
    if (is_home && writable) {
        return refuse(
            ret_fail, flag, path,
            "it is the home directory, with keys, passwords and programs; name a directory in it");
    }
    for (unsigned i = 0; i < 2 && !is_home; i++) {
        if (homes.paths[i][0] && overlap_enters(homes.paths[i], path)) {
            return refuse(ret_fail, flag, path,
                          "it contains the home directory; name the directory with the data");
        }
    }
    if (writable && is_system(path)) {
        return refuse(ret_fail, flag, path,
                      "the system runs from it, and code could change it; name a directory that "
                      "holds only data");
    }
    return 0;
}

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
