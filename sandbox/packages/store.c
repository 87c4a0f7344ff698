/* The directories of a server's packages. They are on the host's disk and not in memory: a large
 * wheel must not use up the sandbox's memory.
 *
 * CACHE/              the user's own: --cache, $XDG_CACHE_HOME/sandpiper or $HOME/.cache/sandpiper
 *   download/         what installers without package code have fetched, for all servers
 *   download-UID/     the same for installers with a separate uid
 *   boxes/NAME/       this server's
 *     lock            held while the server lives; without a holder, NAME can be removed
 *     layers/1 … N/   installed packages; each layer is complete once it has its name
 *     stage/          where installers build the next layer; made with the first of them
 *
 * The cleanup helper (programs/cleanup/main.c) starts before NAME exists, and outlives the server:
 * it removes NAME when the server has exited in any way, and what other servers left whose helper
 * was killed too. So the server itself removes no tree, and never waits for the disk. */
#include "sandbox/packages/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/own.h"
#include "base/word.h"
#include "sandbox/host/host_facts.h"
#include "sandbox/host/mounts.h"
#include "sandbox/packages/packages.h"
#include "sandbox/trust/trust.h"
#include "sandbox/unprivileged/unprivileged.h"

/* Checks what an installer has left before it becomes a layer. Package code may have put it there,
 * so the check uses descriptors and never a path; the sandbox that could still change it is
 * gone. */

enum { ENTRY_BYTES = 4096 /* disk space of an entry besides its content, at most */ };

struct check {
    uint64_t bytes_most;
    uint64_t files_most;
    struct box_packages_layer *made;
    struct fail *fail;
};

static int check_directory(const struct check *check, int fd, unsigned depth);

static int refuse_entry(const struct check *check, const char *what, const char *name)
{
    char text[80];
    return fail_set(check->fail, EINVAL, "the package holds %s: %s", what,
                    word_show(name, strlen(name), text, sizeof text));
}

static bool has_odd_character(const char *name)
{
    for (; *name; name++) {
        if ((unsigned char)*name < ' ' || *name == 127) {
            return true;
        }
    }
    return false;
}

/* Makes everything readable for all and clears the set-id bits; what was executable stays so. */
static int set_mode(int dir_fd, const char *name, const struct stat *st)
{
    bool executable = S_ISDIR(st->st_mode) || st->st_mode & (S_IXUSR | S_IXGRP | S_IXOTH);
    mode_t mode = executable ? 0755 : 0644;
    char path[32];
    if ((st->st_mode & 07777) == mode) {
        return 0;
    }
    /* Through the file itself: fchmodat(2) follows symlinks, and a directory of mode 000 cannot be
     * opened. */
    defer_close int fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return fd < 0 || chmod(path, mode) < 0 ? -errno : 0;
}

static int count(const struct check *check, const struct stat *st)
{
    struct box_packages_layer *made = check->made;
    made->files++;
    made->bytes += ENTRY_BYTES + (S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0);
    if (made->bytes > check->bytes_most || made->files > check->files_most) {
        return fail_set(check->fail, EDQUOT, "the packages exceed --package-disk");
    }
    return 0;
}

static int check_entry(const struct check *check, int dir_fd, const char *name, unsigned depth)
{
    struct stat st;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return fail_set(check->fail, errno, "the installed files");
    }
    if (has_odd_character(name)) {
        return refuse_entry(check, "a name with control characters", name);
    }
    if (S_ISLNK(st.st_mode)) {
        return refuse_entry(check, "a symbolic link", name);
    }
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
        return refuse_entry(check, "an entry that is neither a file nor a directory", name);
    }
    int r = count(check, &st);
    if (r == 0 && set_mode(dir_fd, name, &st) < 0) {
        r = fail_set(check->fail, errno, "the installed files");
    }
    if (r < 0 || !S_ISDIR(st.st_mode)) {
        return r;
    }
    if (depth >= LIMIT_PACKAGE_DEPTH) {
        return refuse_entry(check, "directories nested too deeply", name);
    }
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? fail_set(check->fail, errno, "the installed files")
                  : check_directory(check, fd, depth + 1);
}

/* fd: taken. */
static int check_directory(const struct check *check, int fd, unsigned depth)
{
    defer_closedir DIR *dir = fd_directory(fd);
    if (!dir) {
        return fail_set(check->fail, ENOMEM, "the installed files");
    }
    for (const char *name = NULL; (name = fd_next_name(dir));) {
        int r = check_entry(check, dirfd(dir), name, depth);
        if (r < 0) {
            return r;
        }
    }
    return errno ? fail_set(check->fail, errno, "the installed files") : 0;
}

/* Checks a directory that is to become a layer, and sets its modes. Adds its size to made. */
static int layer_check(int directory_fd, uint64_t bytes_most, uint64_t files_most,
                       struct box_packages_layer *made, struct fail *ret_fail)
{
    struct check check = {
        .bytes_most = bytes_most, .files_most = files_most, .made = made, .fail = ret_fail};
    defer_close int fd = openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 || fchmod(directory_fd, 0755) < 0
               ? fail_set(ret_fail, errno, "the installed files")
               : check_directory(&check, take_fd(&fd), 1);
}

enum { OPEN_DIRECTORY = O_RDONLY | O_DIRECTORY | O_CLOEXEC };

/* --- the package directory --- */

/* A message to which errno would add nothing. */
static int refuse(struct fail *ret_fail, const char *path, const char *why)
{
    return fail_refuse(ret_fail, EPERM, "%s %s", path, why);
}

/* Nobody else may be able to replace the directory. */
static int check_parent(int fd, const char *path, struct fail *ret_fail)
{
    struct stat st;
    if (fstat(fd, &st) < 0) {
        return fail_set(ret_fail, errno, "the directory %s", path);
    }
    bool shared = st.st_mode & (S_IWGRP | S_IWOTH) && !(st.st_mode & S_ISVTX);
    if ((st.st_uid != geteuid() && st.st_uid != 0) || shared) {
        return refuse(ret_fail, path, "has another owner");
    }
    return 0;
}

/* Opens the directory name in parent_fd, which must not be a symlink, and must be the user's own:
 * all servers of this user read its content as packages. make: 0, or the mode that it
 * must at least have: makes a missing one, and extends the mode where a server of another isolation
 * level has made it for itself. */
static int open_own(int parent_fd, const char *name, const char *path, mode_t make,
                    struct fail *ret_fail)
{
    if (make && mkdirat(parent_fd, name, make) < 0 && errno != EEXIST) {
        return fail_set(ret_fail, errno, "cannot create the directory %s", path);
    }
    defer_close int fd = openat(parent_fd, name, OPEN_DIRECTORY | O_NOFOLLOW);
    if (fd < 0 && (errno == ELOOP || errno == ENOTDIR)) {
        return refuse(ret_fail, path, "is a symlink or not a directory");
    }
    if (fd < 0) {
        return fail_set(ret_fail, errno, "cannot open the directory %s", path);
    }
    struct stat st;
    if (fstat(fd, &st) < 0) {
        return fail_set(ret_fail, errno, "the directory %s", path);
    }
    if (st.st_uid != geteuid()) {
        return refuse(ret_fail, path, "belongs to another user");
    }
    if (st.st_mode & (S_IWGRP | S_IWOTH)) {
        return refuse(ret_fail, path, "is writable by others");
    }
    if ((st.st_mode & make) != make && fchmod(fd, (st.st_mode | make) & 07777) < 0) {
        return fail_set(ret_fail, errno, "cannot change the mode of the directory %s", path);
    }
    return take_fd(&fd);
}

int packages_place(const struct box_spec *spec, bool make, char path[PATH_MAX],
                   struct fail *ret_fail)
{
    /* Code that could write there would choose what all servers install, and with a symlink what
     * installers see. */
    static const char fix[] = "name another directory with --cache DIR";
    char parent[PATH_MAX];
    char name[NAME_MAX + 1];
    const char *last = NULL;
    int r = cache_place(spec, parent, &last, ret_fail);
    r = r ? r : trust_check(spec, "the cache directory", parent, fix, ret_fail);
    if (r < 0) {
        return r;
    }
    if (snprintf(name, sizeof name, "%.*s", (int)strcspn(last, "/"), last) >= (int)sizeof name) {
        return fail_set(ret_fail, ENAMETOOLONG, "the cache directory");
    }
    if (make && !spec->cache) {
        (void)mkdir(parent, 0700); /* on failure, the next call reports it */
    }
    defer_close int parent_fd = open(parent, OPEN_DIRECTORY);
    if (parent_fd < 0) {
        return fail_set(ret_fail, errno, "cannot open the directory %s", parent);
    }
    r = check_parent(parent_fd, parent, ret_fail);
    if (r == 0 && (fd_path(parent_fd, parent) < 0 ||
                   snprintf(path, PATH_MAX, "%s/%s", parent[1] ? parent : "", name) >= PATH_MAX)) {
        r = fail_set(ret_fail, ENAMETOOLONG, "the cache directory");
    }
    r = r ? r : trust_check_tree(spec, "the cache directory", path, fix, ret_fail);
    return r < 0 ? r : open_own(parent_fd, name, path, make ? cache_mode(spec) : 0, ret_fail);
}

/* --- this server's directory --- */

static void find_ids(struct box_packages *packages)
{
    struct host_facts facts;
    host_facts_read(NULL, &facts);
    level_installer_ids(packages->spec, &facts, &packages->uid, &packages->gid);
}

/* Makes a directory that belongs to the installers' uid. */
static int make_for_installers(const struct box_packages *packages, int parent_fd, const char *name)
{
    if (mkdirat(parent_fd, name, 0700) < 0) {
        return errno == EEXIST ? 0 : -errno;
    }
    return packages->uid == geteuid() ||
                   fchownat(parent_fd, name, packages->uid, packages->gid, AT_SYMLINK_NOFOLLOW) == 0
               ? 0
               : -errno;
}

int packages_make_staging(const struct box_packages *packages, struct fail *ret_fail)
{
    int r = make_for_installers(packages, packages->directory_fd, "stage");
    if (r == 0) {
        defer_close int staging_fd =
            openat(packages->directory_fd, "stage", OPEN_DIRECTORY | O_NOFOLLOW);
        r = staging_fd < 0 ? -errno : make_for_installers(packages, staging_fd, "tmp");
    }
    return r < 0 ? fail_set(ret_fail, -r, "cannot create a staging directory") : 0;
}

/* Servers of several isolation levels may share a cache: each uid of installers has its own
 * directory. */
static void name_download(const struct box_packages *packages, char name[static NAME_MAX])
{
    uid_t uid = packages->uid;
    (void)snprintf(name, NAME_MAX, uid == geteuid() ? "download" : "download-%u", uid);
}

static int make_directory(struct box_packages *packages)
{
    if (mkdirat(packages->boxes_fd, packages->name, cache_mode(packages->spec)) < 0) {
        return -errno;
    }
    packages->directory_fd =
        openat(packages->boxes_fd, packages->name, OPEN_DIRECTORY | O_NOFOLLOW);
    if (packages->directory_fd < 0) {
        return -errno;
    }
    packages->lock_fd = cleanup_lock(packages->directory_fd, STORE_LOCK);
    int r = packages->lock_fd < 0 ? packages->lock_fd : 0;
    if (r == 0 && mkdirat(packages->directory_fd, "layers", 0755) < 0) {
        r = -errno;
    }
    return r;
}

/* Returns -ECHILD if no directory would do, because the cleanup helper does not start. */
static int open_in(struct box_packages *packages, struct fail *ret_fail)
{
    char path[PATH_MAX];
    char download[NAME_MAX];
    uint32_t random[2] = {};
    defer_close int place_fd = packages_place(packages->spec, /* make= */ true, path, ret_fail);
    if (place_fd < 0) {
        return place_fd;
    }
    packages->boxes_fd = open_own(place_fd, "boxes", path, cache_mode(packages->spec), ret_fail);
    if (packages->boxes_fd < 0) {
        return packages->boxes_fd;
    }
    /* Code in the sandbox can read the name, proc_pid_mountinfo(5): it reveals nothing. */
    (void)getrandom(random, sizeof random, 0);
    (void)snprintf(packages->name, sizeof packages->name, "%08x%08x", random[0], random[1]);
    find_ids(packages);
    name_download(packages, download);
    if (asprintf(&packages->layers, "%s/boxes/%s/layers", path, packages->name) < 0 ||
        asprintf(&packages->staging, "%s/boxes/%s/stage", path, packages->name) < 0 ||
        asprintf(&packages->download, "%s/%s", path, download) < 0) {
        return fail_set(ret_fail, ENOMEM, "the packages");
    }
    packages->cleanup = (struct cleanup){.kind = CLEANUP_STORE,
                                         .name = packages->name,
                                         .parents = &packages->boxes_fd,
                                         .parent_count = 1};
    int r = cleanup_add(&packages->cleanup);
    if (r < 0) {
        (void)fail_set(ret_fail, -r, "cannot start the cleanup helper of the package directories");
        return -ECHILD;
    }
    r = make_for_installers(packages, place_fd, download);
    r = r ? r : make_directory(packages);
    return r < 0 ? fail_set(ret_fail, -r, "cannot create directories in %s/boxes", path) : 0;
}

static void let_go(struct box_packages *packages)
{
    drop_fd(&packages->lock_fd);
    drop_fd(&packages->directory_fd);
    drop_fd(&packages->boxes_fd);
}

int packages_open(struct box_packages *packages)
{
    if (packages->state == PACKAGES_NEW) {
        struct fail why = {};
        int r = open_in(packages, &why);
        packages->state = r < 0 ? PACKAGES_NONE : PACKAGES_OPEN;
        if (r < 0) {
            char text[FAIL_TEXT + 128];
            (void)fail_set(&packages->error, 0, "no package directory: %s%s",
                           fail_describe(&why, text, sizeof text),
                           r == -ECHILD ? "" : "; the user can name another one with --cache DIR");
            log_warn("sandbox", "%s", packages->error.text);
        }
    }
    return packages->state == PACKAGES_OPEN ? 0 : -ENOENT;
}

void packages_show(const struct box_packages *packages, struct plan_content *content)
{
    plan_show(content, packages->layers, box_packages_path(packages), /* writable= */ false);
}

int box_packages_new(struct loop *loop, const struct box_spec *spec,
                     struct box_packages **ret_packages, struct fail *ret_fail)
{
    struct box_packages *packages = calloc(1, sizeof *packages);
    if (!packages) {
        return fail_set(ret_fail, ENOMEM, "the packages");
    }
    packages->loop = loop;
    packages->spec = spec;
    packages->boxes_fd = -1;
    packages->directory_fd = -1;
    packages->lock_fd = -1;
    *ret_packages = packages;
    return 0;
}

void box_packages_free(struct box_packages *packages)
{
    if (!packages) {
        return;
    }
    cleanup_remove(&packages->cleanup, /* wait= */ true);
    let_go(packages);
    free(packages->layers);
    free(packages->staging);
    free(packages->download);
    free(packages);
}

const char *box_packages_path(const struct box_packages *packages)
{
    const char *seen = packages->spec->paths.packages;
    return seen ? seen : packages->layers;
}

unsigned box_packages_layers(const struct box_packages *packages)
{
    return packages->layer_count;
}

/* --- the staging directory --- */

void box_packages_discard(struct box_packages *packages)
{
    if (packages->state != PACKAGES_OPEN) {
        return;
    }
    /* Only renames it here: its content may be anything, and large. */
    int r = cleanup_discard(packages->directory_fd, "stage");
    if (r < 0 && r != -ENOENT) {
        log_warn("sandbox", "cannot empty the staging directory: %s", strerror(-r));
    }
}

/* Installers have exited, so nothing else writes to the staging directory. */
static int commit(struct box_packages *packages, struct box_packages_layer *made,
                  struct fail *ret_fail)
{
    char name[16];
    uint64_t most = packages->spec->packages_bytes;
    defer_close int staging_fd =
        openat(packages->directory_fd, "stage", OPEN_DIRECTORY | O_NOFOLLOW);
    defer_close int new_fd =
        staging_fd < 0 ? -1 : openat(staging_fd, "new", OPEN_DIRECTORY | O_NOFOLLOW);
    defer_close int layers_fd =
        openat(packages->directory_fd, "layers", OPEN_DIRECTORY | O_NOFOLLOW);
    if (new_fd < 0 || layers_fd < 0) {
        return fail_set(ret_fail, errno, "the installed files");
    }
    int r = layer_check(new_fd, most - packages->bytes, LIMIT_PACKAGE_FILES - packages->files, made,
                        ret_fail);
    if (r < 0) {
        return r;
    }
    made->number = packages->layer_count + 1;
    (void)snprintf(name, sizeof name, "%u", made->number);
    if (renameat(staging_fd, "new", layers_fd, name) < 0) {
        return fail_set(ret_fail, errno, "cannot take over the installed files");
    }
    return 0;
}

int box_packages_commit(struct box_packages *packages, struct box_packages_layer *ret_layer,
                        struct fail *ret_fail)
{
    struct box_packages_layer made = {};
    if (packages->state != PACKAGES_OPEN) {
        *ret_fail = packages->error;
        return -ENOENT;
    }
    int r = commit(packages, &made, ret_fail);
    if (r == 0) {
        packages->layer_count = made.number;
        packages->bytes += made.bytes;
        packages->files += made.files;
        *ret_layer = made;
    }
    box_packages_discard(packages);
    return r;
}
