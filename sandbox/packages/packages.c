/* Where the packages of a server are, on the host's disk and not in memory: a large wheel must not eat
 * the box's memory.
 *
 *   CACHE/                 the user's alone: --cache, $XDG_CACHE_HOME/sandpiper, $HOME/.cache/sandpiper
 *     download/            what errands without package code have fetched; all servers' of this user.
 *                          download-UID where errands have an id of their own
 *     boxes/NAME/          this server's
 *       lock               held as long as the server lives: without a holder, NAME is rubbish
 *       layers/1 … N/      what is installed; each is whole from the moment that it has its name
 *       stage/             where errands put together the next layer
 *
 * The sweeper (init/sweeper.c) is there before NAME is, and outlives the server: it removes NAME when
 * the server has ended, however that was, and what servers left that it could not outlive. So the
 * server itself removes no tree, and waits for no disk. */
#include "sandbox/packages/packages.h"
#include "sandbox/room_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/own.h"
#include "sandbox/trust/trust.h"

enum { OPEN_FOLDER = O_RDONLY | O_DIRECTORY | O_CLOEXEC };

/* --- the place --- */

/* In a sentence of our own, to which errno would add nothing. */
static int refuse(struct fail *ret_fail, const char *path, const char *why)
{
    (void)fail_set(ret_fail, 0, "%s %s", path, why);
    return -EPERM;
}

/* Nobody else may put another folder in its place. */
static int judge_parent(int fd, const char *path, struct fail *ret_fail)
{
    struct stat st;
    if (fstat(fd, &st) < 0) {
        return fail_set(ret_fail, errno, "the folder %s", path);
    }
    bool shared = st.st_mode & (S_IWGRP | S_IWOTH) && !(st.st_mode & S_ISVTX);
    if ((st.st_uid != geteuid() && st.st_uid != 0) || shared) {
        return refuse(ret_fail, path, "is in other users' hands");
    }
    return 0;
}

/* Ours alone: what is in it is read as packages by all servers of this user. */
static int judge_own(int fd, const char *path, struct fail *ret_fail)
{
    struct stat st;
    if (fstat(fd, &st) < 0) {
        return fail_set(ret_fail, errno, "the folder %s", path);
    }
    if (st.st_uid != geteuid()) {
        return refuse(ret_fail, path, "belongs to another user");
    }
    if (st.st_mode & (S_IWGRP | S_IWOTH)) {
        return refuse(ret_fail, path, "can be written by others: name a directory of your own");
    }
    return 0;
}

/* Opens the folder name in parent_fd, which is no link. make: 0, or the mode that it must allow: it is made
 * where it is missing, and a server of another grade may have made it for itself alone. */
static int open_own(int parent_fd, const char *name, const char *path, mode_t make,
                    struct fail *ret_fail)
{
    if (make && mkdirat(parent_fd, name, make) < 0 && errno != EEXIST) {
        return fail_set(ret_fail, errno, "make the folder %s", path);
    }
    defer_close int fd = openat(parent_fd, name, OPEN_FOLDER | O_NOFOLLOW);
    if (fd < 0 && (errno == ELOOP || errno == ENOTDIR)) {
        return refuse(ret_fail, path, "is a link or no folder");
    }
    if (fd < 0) {
        return fail_set(ret_fail, errno, "open the folder %s", path);
    }
    struct stat st;
    int r = judge_own(fd, path, ret_fail);
    if (r == 0 && make &&
        (fstat(fd, &st) < 0 ||
         ((st.st_mode & make) != make && fchmod(fd, (st.st_mode | make) & 07777) < 0))) {
        r = fail_set(ret_fail, errno, "change the mode of the folder %s", path);
    }
    return r < 0 ? r : take_fd(&fd);
}

/* Whether boxes see the folders where they lie, and as another user: then the home folder is no place for
 * them, and others go through them. */
static bool is_shared_by_path(const struct box_spec *spec)
{
    return spec->room && spec->room->ids.guest != geteuid();
}

static mode_t own_mode(const struct box_spec *spec)
{
    return is_shared_by_path(spec) ? 0711 : 0700;
}

/* Splits what the user named, or what his environment says, into a folder that is there or nearly so,
 * and the name of ours in it. */
static int name_place(const struct box_spec *spec, char parent[PATH_MAX], const char **ret_name,
                      struct fail *ret_fail)
{
    const char *xdg = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    int size = -1;
    *ret_name = "sandpiper";
    if (spec->cache) {
        size = snprintf(parent, PATH_MAX, "%s", spec->cache);
        while (size > 1 && size < PATH_MAX && parent[size - 1] == '/') {
            parent[--size] = '\0';
        }
        char *slash = size < PATH_MAX ? strrchr(parent, '/') : NULL;
        if (!slash || !slash[1]) {
            return refuse(ret_fail, spec->cache, "is no absolute path");
        }
        *ret_name = spec->cache + (slash + 1 - parent);
        slash[slash == parent] = '\0';
    } else if (is_shared_by_path(spec)) {
        size = snprintf(parent, PATH_MAX, "%s", spec->room->path);
        *ret_name = "packages";
    } else if (xdg && xdg[0] == '/') {
        size = snprintf(parent, PATH_MAX, "%s", xdg);
    } else if (home && home[0] == '/') {
        size = snprintf(parent, PATH_MAX, "%s/.cache", home);
    } else {
        return refuse(ret_fail, "HOME", "is not set");
    }
    return size >= 0 && size < PATH_MAX ? 0 : fail_set(ret_fail, ENAMETOOLONG, "the cache folder");
}

int packages_path(const struct box_spec *spec, char path[PATH_MAX], struct fail *ret_fail)
{
    char parent[PATH_MAX];
    const char *name = NULL;
    int r = name_place(spec, parent, &name, ret_fail);
    if (r == 0 && snprintf(path, PATH_MAX, "%s/%s", parent[1] ? parent : "", name) >= PATH_MAX) {
        r = fail_set(ret_fail, ENAMETOOLONG, "the cache folder");
    }
    return r;
}

int packages_place(const struct box_spec *spec, bool make, char path[PATH_MAX],
                   struct fail *ret_fail)
{
    /* Code that could write there would choose what all servers install, and by a symlink what installers
     * see. */
    static const char fix[] = "name another directory with --cache DIR";
    char parent[PATH_MAX];
    char name[NAME_MAX + 1];
    const char *last = NULL;
    int r = name_place(spec, parent, &last, ret_fail);
    r = r ? r : trust_check(spec, "the cache directory", parent, fix, ret_fail);
    if (r < 0) {
        return r;
    }
    if (snprintf(name, sizeof name, "%.*s", (int)strcspn(last, "/"), last) >= (int)sizeof name) {
        return fail_set(ret_fail, ENAMETOOLONG, "the cache folder");
    }
    if (make && !spec->cache) {
        (void)mkdir(parent, 0700); /* if that does not work, the next call says so */
    }
    defer_close int parent_fd = open(parent, OPEN_FOLDER);
    if (parent_fd < 0) {
        return fail_set(ret_fail, errno, "open the folder %s", parent);
    }
    r = judge_parent(parent_fd, parent, ret_fail);
    if (r == 0 && (fd_path(parent_fd, parent) < 0 ||
                   snprintf(path, PATH_MAX, "%s/%s", parent[1] ? parent : "", name) >= PATH_MAX)) {
        r = fail_set(ret_fail, ENAMETOOLONG, "the cache folder");
    }
    r = r ? r : trust_check_tree(spec, "the cache directory", path, fix, ret_fail);
    return r < 0 ? r : open_own(parent_fd, name, path, make ? own_mode(spec) : 0, ret_fail);
}

/* --- this server's folder --- */

/* Taken before anything is in the folder: without a holder it is rubbish from ten seconds on. */
static int take_lock(struct box_packages *packages)
{
    struct stat st;
    int fd = openat(packages->folder_fd, "lock", O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                    0600);
    if (fd < 0) {
        return -errno;
    }
    packages->lock_fd = fd;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &st) < 0) {
        return -errno;
    }
    return st.st_nlink > 0 ? 0 : -ENOENT; /* swept away: this machine slept on the way here */
}

/* A folder for the ids of errands. */
static int make_for_errands(const struct box_packages *packages, int parent_fd, const char *name)
{
    uid_t uid = 0;
    gid_t gid = 0;
    plan_errand_ids(packages->spec, &uid, &gid);
    if (mkdirat(parent_fd, name, 0700) < 0) {
        return errno == EEXIST ? 0 : -errno;
    }
    return uid == geteuid() || fchownat(parent_fd, name, uid, gid, AT_SYMLINK_NOFOLLOW) == 0
               ? 0
               : -errno;
}

static int make_stage(const struct box_packages *packages)
{
    int r = make_for_errands(packages, packages->folder_fd, "stage");
    if (r == 0) {
        defer_close int stage_fd = openat(packages->folder_fd, "stage", OPEN_FOLDER | O_NOFOLLOW);
        r = stage_fd < 0 ? -errno : make_for_errands(packages, stage_fd, "tmp");
    }
    return r;
}

/* Servers of several grades may share a cache: none meets what another's errands own. */
static void name_download(const struct box_packages *packages, char name[static NAME_MAX])
{
    uid_t uid = 0;
    gid_t gid = 0;
    plan_errand_ids(packages->spec, &uid, &gid);
    int size = snprintf(name, NAME_MAX, "download");
    if (uid != geteuid()) {
        (void)snprintf(name + size, NAME_MAX - (size_t)size, "-%u", (unsigned)uid);
    }
}

static int make_folder(struct box_packages *packages)
{
    if (mkdirat(packages->boxes_fd, packages->name, own_mode(packages->spec)) < 0) {
        return -errno;
    }
    packages->folder_fd = openat(packages->boxes_fd, packages->name, OPEN_FOLDER | O_NOFOLLOW);
    int r = packages->folder_fd < 0 ? -errno : take_lock(packages);
    if (r == 0 && mkdirat(packages->folder_fd, "layers", 0755) < 0) {
        r = -errno;
    }
    return r ? r : make_stage(packages);
}

static int open_in(struct box_packages *packages, struct fail *ret_fail)
{
    char path[PATH_MAX];
    char download[NAME_MAX];
    uint32_t random[2] = {};
    defer_close int place_fd = packages_place(packages->spec, /* make= */ true, path, ret_fail);
    if (place_fd < 0) {
        return place_fd;
    }
    packages->boxes_fd = open_own(place_fd, "boxes", path, own_mode(packages->spec), ret_fail);
    if (packages->boxes_fd < 0) {
        return packages->boxes_fd;
    }
    /* Code in the box can read it, proc_pid_mountinfo(5): it says nothing. */
    (void)getrandom(random, sizeof random, 0);
    (void)snprintf(packages->name, sizeof packages->name, "%08x%08x", random[0], random[1]);
    name_download(packages, download);
    if (asprintf(&packages->layers, "%s/boxes/%s/layers", path, packages->name) < 0 ||
        asprintf(&packages->stage, "%s/boxes/%s/stage", path, packages->name) < 0 ||
        asprintf(&packages->download, "%s/%s", path, download) < 0) {
        return fail_set(ret_fail, ENOMEM, "the packages");
    }
    int r = sweeper_start(&packages->sweeper, packages->boxes_fd, packages->name, NULL);
    if (r < 0) {
        return fail_set(ret_fail, -r, "start the sweeper of the package folders");
    }
    r = make_for_errands(packages, place_fd, download);
    r = r ? r : make_folder(packages);
    return r < 0 ? fail_set(ret_fail, -r, "make folders in %s/boxes", path) : 0;
}

/* The sweeper takes the folder away when nobody holds the pipe any more. */
static void let_go(struct box_packages *packages)
{
    drop_fd(&packages->sweeper.fd);
    drop_fd(&packages->lock_fd);
    drop_fd(&packages->folder_fd);
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
            (void)fail_set(&packages->trouble, 0,
                           "packages have no place: %s; name a folder of yours with --cache DIR",
                           fail_describe(&why, text, sizeof text));
            log_warn("sandbox", "%s", packages->trouble.text);
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
    packages->folder_fd = -1;
    packages->lock_fd = -1;
    packages->sweeper = SWEEPER_NONE;
    *ret_packages = packages;
    return 0;
}

/* What no sweeper has removed, as long as nothing was installed. */
static void remove_empty(const struct box_packages *packages)
{
    defer_close int stage_fd = openat(packages->folder_fd, "stage", OPEN_FOLDER | O_NOFOLLOW);
    (void)unlinkat(stage_fd, "tmp", AT_REMOVEDIR);
    (void)unlinkat(packages->folder_fd, "stage", AT_REMOVEDIR);
    (void)unlinkat(packages->folder_fd, "layers", AT_REMOVEDIR);
    (void)unlinkat(packages->folder_fd, "lock", 0);
    (void)unlinkat(packages->boxes_fd, packages->name, AT_REMOVEDIR);
}

void box_packages_free(struct box_packages *packages)
{
    if (!packages) {
        return;
    }
    struct sweeper *sweeper = &packages->sweeper;
    if (sweeper->pid > 0 && !sweeper_finish(sweeper) &&
        (sweeper_start(sweeper, packages->boxes_fd, packages->name, NULL) < 0 ||
         !sweeper_finish(sweeper))) {
        remove_empty(packages);
    }
    let_go(packages);
    free(packages->layers);
    free(packages->stage);
    free(packages->download);
    free(packages);
}

const char *box_packages_trouble(const struct box_packages *packages)
{
    return packages->state == PACKAGES_NONE ? packages->trouble.text : NULL;
}

const char *box_packages_path(const struct box_packages *packages)
{
    const char *seen = packages->spec->view.packages;
    return seen ? seen : packages->layers;
}

unsigned box_packages_layers(const struct box_packages *packages)
{
    return packages->layer_count;
}

/* --- the stage --- */

void box_packages_discard(struct box_packages *packages)
{
    char name[32];
    if (packages->state != PACKAGES_OPEN) {
        return;
    }
    /* Its own name, and not its content: that may be anything, and much. */
    (void)snprintf(name, sizeof name, "rubbish-%u", ++packages->rubbish);
    if (renameat(packages->folder_fd, "stage", packages->folder_fd, name) < 0) {
        log_warn("sandbox", "the stage cannot be put away: %s", strerror(errno));
        return;
    }
    int r = make_stage(packages);
    if (r < 0) {
        log_warn("sandbox", "no new stage: %s", strerror(-r));
    }
    sweeper_poke(&packages->sweeper);
}

/* Errands have ended, so nobody else writes to the stage. */
static int commit(struct box_packages *packages, struct box_layer_made *made, struct fail *ret_fail)
{
    char name[16];
    uint64_t most = packages->spec->packages_bytes;
    defer_close int stage_fd = openat(packages->folder_fd, "stage", OPEN_FOLDER | O_NOFOLLOW);
    defer_close int new_fd = stage_fd < 0 ? -1 : openat(stage_fd, "new", OPEN_FOLDER | O_NOFOLLOW);
    defer_close int layers_fd = openat(packages->folder_fd, "layers", OPEN_FOLDER | O_NOFOLLOW);
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
    if (renameat(stage_fd, "new", layers_fd, name) < 0) {
        return fail_set(ret_fail, errno, "take over the installed files");
    }
    return 0;
}

int box_packages_commit(struct box_packages *packages, struct box_layer_made *ret_layer,
                        struct fail *ret_fail)
{
    struct box_layer_made made = {};
    if (packages->state != PACKAGES_OPEN) {
        *ret_fail = packages->trouble;
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
