#include "sandbox/limits/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/parse.h"

static int open_directory(int dir_fd, const char *path)
{
    int fd = openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* Opens a parent that the server may write to, once for controllers that are mounted together.
 * Returns its index in parent_fds or -errno. */
static int find_parent(struct cgroup *cgroup, const char *parent)
{
    struct stat wanted;
    defer_close int parent_fd = open_directory(AT_FDCWD, parent);
    if (parent_fd < 0) {
        return parent_fd;
    }
    if (fstat(parent_fd, &wanted) < 0 || faccessat(parent_fd, ".", W_OK, AT_EACCESS) < 0) {
        return -errno;
    }
    for (unsigned i = 0; i < cgroup->directory_count; i++) {
        struct stat st;
        if (fstat(cgroup->parent_fds[i], &st) == 0 && st.st_ino == wanted.st_ino &&
            st.st_dev == wanted.st_dev) {
            return (int)i;
        }
    }
    cgroup->fds[cgroup->directory_count] = -1;
    cgroup->parent_fds[cgroup->directory_count] = take_fd(&parent_fd);
    return (int)cgroup->directory_count++;
}

/* Makes the sandbox's directory below a parent. Returns its descriptor or -errno. */
static int make_directory(struct cgroup *cgroup, unsigned index)
{
    int parent_fd = cgroup->parent_fds[index];
    if (cgroup->fds[index] >= 0) {
        return cgroup->fds[index];
    }
    if (mkdirat(parent_fd, cgroup->name, 0755) < 0) {
        return -errno;
    }
    cgroup->fds[index] = open_directory(parent_fd, cgroup->name);
    if (cgroup->fds[index] >= 0) {
        cgroup_hold(cgroup->fds[index]);
    }
    return cgroup->fds[index];
}

static int write_number(int dir_fd, const char *name, uint64_t number)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    return fd_write_text_at(dir_fd, name, text);
}

enum { CPU_PERIOD_US = 100000 };

/* Of version 1, TCP and UDP buffers have their own counter, which runs only with a limit:
 * Documentation/admin-guide/cgroup-v1/memory.rst. Init counts what it leaves out. */
static int set_memory(struct cgroup *cgroup, int fd, uint64_t bytes)
{
    int r = write_number(fd, cgroup->unified ? "memory.max" : "memory.limit_in_bytes", bytes);
    if (r < 0) {
        return r;
    }
    /* Without swap accounting these files do not exist, and there is nothing to limit. */
    if (cgroup->unified) {
        (void)write_number(fd, "memory.swap.max", 0);
    } else {
        (void)write_number(fd, "memory.memsw.limit_in_bytes", bytes);
        (void)write_number(fd, "memory.swappiness", 0);
        cgroup->counts_inet = write_number(fd, "memory.kmem.tcp.limit_in_bytes", bytes) == 0;
    }
    return 0;
}

static int set_cpu(const struct cgroup *cgroup, int fd, uint64_t milli)
{
    uint64_t quota_us = milli * CPU_PERIOD_US / 1000;
    char text[64];
    if (cgroup->unified) {
        (void)snprintf(text, sizeof text, "%llu %d", (unsigned long long)quota_us, CPU_PERIOD_US);
        return fd_write_text_at(fd, "cpu.max", text);
    }
    int r = write_number(fd, "cpu.cfs_period_us", CPU_PERIOD_US);
    return r < 0 ? r : write_number(fd, "cpu.cfs_quota_us", quota_us);
}

static int set_limit(struct cgroup *cgroup, int fd, enum cgroup_controller controller,
                     const struct box_limits *limits)
{
    return controller == CGROUP_MEMORY ? set_memory(cgroup, fd, limits->memory_bytes)
           : controller == CGROUP_PIDS
               ? write_number(fd, "pids.max", limits->pids + LIMIT_PIDS_SPARE)
           : limits->cpu_milli ? set_cpu(cgroup, fd, limits->cpu_milli)
                               : 0;
}

/* Whether systemd manages the cgroups here and nobody said that ours is delegated. */
static bool is_below_systemd(void)
{
    return access("/run/systemd/system", F_OK) == 0 && !getenv("SANDPIPER_DELEGATED");
}

/* Whether the server may divide the cgroup. Below systemd that needs an explicit setting: after a
 * kill for memory in a child of another scope, systemd stops the whole scope with the server
 * (OOMPolicy=stop, systemd.scope(5)). A user's manager leaves no mark on a scope that it
 * delegates. */
static bool is_delegated(const char *parent)
{
    char value[4] = "";
    return !is_below_systemd() ||
           (getxattr(parent, "user.delegate", value, sizeof value - 1) == 1 && value[0] == '1');
}

/* waitid(2): ECHILD for a process that is no child of the server. A container's init that is the
 * server's parent may move with it; a host's is in another cgroup. */
static bool is_own(uint64_t pid)
{
    siginfo_t info;
    return pid == (uint64_t)getpid() || (pid == 1 && getppid() == 1) ||
           waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

/* Moves the server and its helpers (program.h) to a leaf of the cgroup; -EBUSY if it has other
 * members. */
static int step_into_leaf(int fd)
{
    enum { OWN_MOST = 8 };
    static const char leaf[] = "sandpiper-server";
    char text[512];
    const char *rest = text;
    uint64_t pids[OWN_MOST];
    unsigned count = 0;
    int r = fd_read_text_at(fd, "cgroup.procs", text, sizeof text);
    while (r >= 0 && *rest) {
        if (count == OWN_MOST || parse_digits(rest, &pids[count], &rest) < 0 ||
            !is_own(pids[count])) {
            return -EBUSY;
        }
        count++;
        rest += *rest == '\n';
    }
    if (r < 0 || (mkdirat(fd, leaf, 0755) < 0 && errno != EEXIST)) {
        return r < 0 ? r : -errno;
    }
    defer_close int leaf_fd = open_directory(fd, leaf);
    r = leaf_fd < 0 ? leaf_fd : 0;
    for (unsigned i = 0; r == 0 && i < count; i++) {
        r = write_number(leaf_fd, "cgroup.procs", pids[i]);
        r = r == -ESRCH ? 0 : r; /* the helper has exited */
    }
    return r;
}

/* In version 2, a cgroup's children get a controller only when the cgroup delegates it, and it may
 * do so only while it has no processes itself. So the server first moves to its own leaf, unless
 * the cgroup has other members, which would still be in the way. Both need a delegated subtree. */
static int enable_unified(const char *parent)
{
    char text[256];
    defer_close int fd = open_directory(AT_FDCWD, parent);
    if (fd < 0) {
        return fd;
    }
    if (fd_read_text_at(fd, "cgroup.subtree_control", text, sizeof text) >= 0 &&
        strstr(text, "memory") && strstr(text, "pids")) {
        return 0;
    }
    int r = fd_write_text_at(fd, "cgroup.subtree_control", "+memory +pids");
    if (r == -EBUSY) {
        r = step_into_leaf(fd);
        r = r < 0 ? r : fd_write_text_at(fd, "cgroup.subtree_control", "+memory +pids");
    }
    (void)fd_write_text_at(fd, "cgroup.subtree_control", "+cpu");
    return r;
}

static void set_why(struct cgroup *cgroup, enum cgroup_controller controller, const char *what,
                    int error)
{
    (void)snprintf(cgroup->why[controller], sizeof cgroup->why[controller], "%s: %s", what,
                   strerror(error));
}

static void find_controller(struct cgroup *cgroup, enum cgroup_controller controller,
                            const char *parent)
{
    cgroup->controller_parent[controller] = find_parent(cgroup, parent);
    if (cgroup->controller_parent[controller] < 0) {
        set_why(cgroup, controller, "cannot create a control group",
                -cgroup->controller_parent[controller]);
    }
}

static void take_controller(struct cgroup *cgroup, enum cgroup_controller controller,
                            const struct box_limits *limits)
{
    int fd = make_directory(cgroup, (unsigned)cgroup->controller_parent[controller]);
    if (fd < 0) {
        set_why(cgroup, controller, "cannot create a control group", -fd);
        return;
    }
    int r = set_limit(cgroup, fd, controller, limits);
    if (r < 0) {
        set_why(cgroup, controller, "cannot set the control group's limit", -r);
        return;
    }
    cgroup->controller_fd[controller] = fd;
}

static void set_all(struct cgroup *cgroup, const char *why, const char *remedy)
{
    for (unsigned i = 0; i < CGROUP_CONTROLLERS; i++) {
        (void)snprintf(cgroup->why[i], sizeof cgroup->why[i], "%s", why);
    }
    cgroup->remedy = remedy;
}

static bool find_v1(struct cgroup *cgroup, const struct cgroup_place *place)
{
    char parent[PATH_MAX];
    bool any = false;
    for (unsigned i = 0; i < CGROUP_CONTROLLERS; i++) {
        if (place->v1_mount[i][0] &&
            cgroup_place_join(parent, place->v1_mount[i], place->v1_path[i])) {
            any = true;
            find_controller(cgroup, (enum cgroup_controller)i, parent);
        }
    }
    if (any && cgroup->directory_count == 0) {
        bool is_systemd = access("/run/systemd/system", F_OK) == 0; /* sd_booted(3) */
        cgroup->remedy =
            is_systemd
                ? "boot with systemd.unified_cgroup_hierarchy=1: with version 1 only root can "
                  "create groups"
                : "use a machine with control groups of version 2, or start the server as root: "
                  "with version 1 only root can create groups";
    }
    return any;
}

static const char *remedy_of(int error)
{
    switch (error) {
    case EROFS:
        return "make the container's control group writable: docker run --security-opt "
               "writable-cgroups=true (Docker 28 or newer)";
    case EBUSY:
        return "other processes are in the container's root group: start the server as the "
               "container's command, or in its own control group";
    default:
        return "start the server in a control group that its user can write to";
    }
}

static void find_v2(struct cgroup *cgroup, const struct cgroup_place *place)
{
    static const char leaf[] = "/sandpiper-server";
    char parent[PATH_MAX];
    if (!cgroup_place_join(parent, place->v2_mount, place->v2_path)) {
        return;
    }
    size_t length = strlen(parent);
    cgroup->unified = true;
    if (length >= sizeof leaf && strcmp(parent + length - (sizeof leaf - 1), leaf) == 0) {
        /* A server that is already in its leaf makes sandboxes beside it. */
        parent[length - (sizeof leaf - 1)] = '\0';
    } else if (!is_delegated(parent)) {
        cgroup->wants_scope = true;
        return;
    }
    int r = enable_unified(parent);
    if (r < 0 && is_below_systemd()) {
        /* A service's cgroup has other members too, such as the shell that started the server. */
        cgroup->wants_scope = true;
        return;
    }
    if (r < 0) {
        char why[sizeof cgroup->why[0]];
        (void)snprintf(why, sizeof why, "cannot divide the server's control group: %s",
                       strerror(-r));
        set_all(cgroup, why, remedy_of(-r));
        return;
    }
    for (unsigned i = 0; i < CGROUP_CONTROLLERS; i++) {
        find_controller(cgroup, (enum cgroup_controller)i, parent);
    }
}

void cgroup_find(struct cgroup *cgroup)
{
    uint32_t random = 0;
    (void)getrandom(&random, sizeof random, 0);
    *cgroup = (struct cgroup){.enclosing_fd = -1};
    (void)snprintf(cgroup->name, sizeof cgroup->name, "sandpiper-%d-%08x", (int)getpid(), random);
    defer_free struct cgroup_place *place = calloc(1, sizeof *place);
    for (unsigned i = 0; i < CGROUP_CONTROLLERS; i++) {
        cgroup->controller_fd[i] = -1;
        cgroup->controller_parent[i] = -ENOENT;
        (void)snprintf(cgroup->why[i], sizeof cgroup->why[i], "no %s controller available",
                       cgroup_controller_names[i]);
    }
    cgroup->remedy = "mount control groups, version 2, at /sys/fs/cgroup";
    if (place) {
        cgroup_place_read(place);
        cgroup_watch_enclosing(cgroup, place);
        if (!find_v1(cgroup, place) && place->v2_mount[0]) {
            find_v2(cgroup, place);
        }
    }
    if (cgroup->directory_count == 0 && !cgroup->wants_scope) {
        cgroup->name[0] = '\0';
    }
}

/* The scope's files must have the requested limits: systemd ignores a controller that it cannot
 * delegate. */
static bool scope_limits(int fd, enum cgroup_controller controller, const struct box_limits *limits)
{
    static const char *const files[CGROUP_CONTROLLERS] = {"memory.max", "pids.max", "cpu.max"};
    char text[64];
    uint64_t number = 0;
    const char *rest = NULL;
    if (fd_read_text_at(fd, files[controller], text, sizeof text) < 0) {
        return false;
    }
    if (controller == CGROUP_CPU && limits->cpu_milli == 0) {
        return true;
    }
    if (parse_digits(text, &number, &rest) < 0) {
        return false; /* "max" */
    }
    return controller == CGROUP_CPU ||
           number <= (controller == CGROUP_MEMORY ? limits->memory_bytes
                                                  : limits->pids + LIMIT_PIDS_SPARE);
}

int cgroup_take_scope(struct cgroup *cgroup, pid_t pid, const struct box_limits *limits)
{
    char path[PATH_MAX];
    cgroup->wants_scope = false;
    int fd = cgroup_place_of(pid, path) ? open_directory(AT_FDCWD, path) : -ENOENT;
    if (fd < 0) {
        return fd;
    }
    cgroup->parent_fds[0] = -1;
    cgroup->fds[0] = fd;
    cgroup->directory_count = 1;
    cgroup->is_scope = true;
    for (unsigned i = 0; i < CGROUP_CONTROLLERS; i++) {
        if (scope_limits(fd, (enum cgroup_controller)i, limits)) {
            cgroup->controller_fd[i] = fd;
        } else {
            (void)snprintf(cgroup->why[i], sizeof cgroup->why[i],
                           "systemd does not delegate the %s controller to this user",
                           cgroup_controller_names[i]);
            cgroup->remedy =
                "add it to Delegate= of user@.service, see systemd.resource-control(5)";
        }
    }
    return 0;
}

void cgroup_refuse_scope(struct cgroup *cgroup, const char *why)
{
    cgroup->wants_scope = false;
    cgroup->name[0] = '\0';
    set_all(cgroup, why, "run a systemd --user manager for this user: loginctl enable-linger USER");
}

void cgroup_make(struct cgroup *cgroup, const struct box_limits *limits)
{
    for (unsigned i = 0; i < CGROUP_CONTROLLERS; i++) {
        if (cgroup->controller_parent[i] >= 0) {
            take_controller(cgroup, (enum cgroup_controller)i, limits);
        }
    }
}

bool cgroup_has(const struct cgroup *cgroup, enum cgroup_controller controller)
{
    return cgroup->name[0] && cgroup->controller_fd[controller] >= 0;
}

int cgroup_clone_fd(const struct cgroup *cgroup)
{
    return cgroup->unified && cgroup->directory_count == 1 ? cgroup->fds[0] : -1;
}

bool cgroup_open_tasks(const struct cgroup *cgroup, int ret_fds[CGROUP_DIRECTORIES])
{
    bool enough = !cgroup->unified && cgroup->directory_count > 0;
    for (unsigned i = 0; i < CGROUP_DIRECTORIES; i++) {
        bool has = enough && i < cgroup->directory_count && cgroup->fds[i] >= 0;
        ret_fds[i] = has ? openat(cgroup->fds[i], "tasks", O_WRONLY | O_CLOEXEC) : -1;
        enough = enough && (!has || ret_fds[i] >= 0);
    }
    return enough;
}

int cgroup_attach(const struct cgroup *cgroup, pid_t pid)
{
    if (cgroup->is_scope) {
        return 0; /* systemd has moved it */
    }
    for (unsigned i = 0; i < cgroup->directory_count; i++) {
        if (cgroup->fds[i] < 0) {
            continue;
        }
        int r = write_number(cgroup->fds[i], "cgroup.procs", (uint64_t)pid);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

void cgroup_remove(struct cgroup *cgroup)
{
    /* systemd removes a scope when its last process has gone. */
    for (unsigned i = 0; i < cgroup->directory_count && !cgroup->is_scope; i++) {
        (void)unlinkat(cgroup->parent_fds[i], cgroup->name, AT_REMOVEDIR);
    }
    cgroup_leave(cgroup);
}

unsigned cgroup_count_stale(const struct cgroup *cgroup)
{
    unsigned count = 0;
    for (unsigned i = 0; i < cgroup->directory_count; i++) {
        count += cgroup_sweep_stale(cgroup->parent_fds[i], /* remove= */ false);
    }
    return count;
}

void cgroup_leave(struct cgroup *cgroup)
{
    for (unsigned i = 0; i < cgroup->directory_count; i++) {
        drop_fd(&cgroup->fds[i]);
        drop_fd(&cgroup->parent_fds[i]);
    }
    if (cgroup->used_fd > 0) {
        drop_fd(&cgroup->used_fd);
    }
    if (cgroup->enclosing_watched) {
        drop_fd(&cgroup->enclosing_fd);
    }
    cgroup->directory_count = 0;
    cgroup->is_scope = false;
    cgroup->name[0] = '\0';
}
