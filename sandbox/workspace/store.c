#include "sandbox/workspace/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/own.h"
#include "sandbox/types.h"

/* Opens a directory of our own, made where it is missing. Returns a descriptor or -errno. */
static int open_own(int at_fd, const char *name)
{
    struct stat st;
    if (mkdirat(at_fd, name, 0700) < 0 && errno != EEXIST) {
        return -errno;
    }
    defer_close int fd = openat(at_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        return -errno;
    }
    /* Others could plant or change what is applied to the workspace. */
    return st.st_uid != geteuid() || st.st_mode & 022 ? -EPERM : take_fd(&fd);
}

/* Writes the workspace's path, or compares it. 0 or -errno; -EEXIST: it is another one. */
static int name_workspace(int fd, const char *workspace)
{
    static const char name[] = "workspace";
    static const char fresh[] = "workspace.new";
    char text[PATH_MAX];
    int r = fd_read_text_at(fd, name, text, sizeof text);
    if (r >= 0) {
        return strcmp(text, workspace) == 0 ? 0 : -EEXIST;
    }
    (void)unlinkat(fd, fresh, 0);
    defer_close int file =
        openat(fd, fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    r = file < 0 ? -errno : fd_write_all(file, workspace, strlen(workspace));
    return r < 0 ? r : renameat(fd, fresh, fd, name) < 0 ? -errno : 0;
}

static int fill(const struct box_spec *spec, struct box_store *store, struct fail *ret_fail)
{
    char name[32];
    const char *parent = spec->cow_store;
    /* The file "workspace" tells two paths with one hash apart. */
    (void)snprintf(name, sizeof name, "%016" PRIx64,
                   hash_fnv(HASH_FNV, spec->workspace, strlen(spec->workspace)));
    if (snprintf(store->path, sizeof store->path, "%s/%s", parent, name) >= PATH_MAX ||
        snprintf(store->layers, sizeof store->layers, "%s/%s/layers", parent, name) >= PATH_MAX) {
        return fail_set(ret_fail, ENAMETOOLONG, "--cow-store");
    }
    defer_close int parent_fd = open_own(AT_FDCWD, parent);
    int r = parent_fd;
    store->fd = r < 0 ? -1 : open_own(parent_fd, name);
    r = r < 0 ? r : store->fd;
    if (r == -EPERM) {
        return fail_refuse(
            ret_fail, EPERM,
            "--cow-store %.300s: other users could change it; name a directory that only "
            "its owner can write to",
            parent);
    }
    if (r >= 0 && flock(store->fd, LOCK_EX | LOCK_NB) < 0) {
        store->taken = errno == EWOULDBLOCK;
        r = store->taken ? 0 : -errno;
    } else if (r >= 0) {
        r = name_workspace(store->fd, spec->workspace);
        defer_close int layers = r < 0 ? -1 : open_own(store->fd, "layers");
        r = r < 0 ? r : layers;
    }
    return r < 0 ? fail_set(ret_fail, -r, "--cow-store %.300s", parent) : 0;
}

int box_store_open(struct box_spec *spec, struct box_store **ret_store, struct fail *ret_fail)
{
    *ret_store = NULL;
    spec->store = NULL;
    if (!spec->cow || !spec->cow_store || !spec->workspace) {
        return 0;
    }
    struct box_store *store = calloc(1, sizeof *store);
    if (!store) {
        return fail_set(ret_fail, ENOMEM, "--cow-store");
    }
    store->fd = -1;
    int r = fill(spec, store, ret_fail);
    if (r < 0) {
        box_store_close(store);
        return r;
    }
    if (store->taken) {
        log_warn("sandbox",
                 "another server uses the store %s: changes of the workspace are kept in memory",
                 store->path);
    } else {
        spec->store = store;
    }
    *ret_store = store;
    return 0;
}

void box_store_close(struct box_store *store)
{
    if (store) {
        drop_fd(&store->fd);
        free(store);
    }
}

bool box_store_is_taken(const struct box_spec *spec)
{
    return spec->cow && spec->cow_store && !spec->store;
}

int box_store_fd(const struct box_spec *spec)
{
    return spec->store ? spec->store->fd : -1;
}
