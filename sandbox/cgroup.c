#include "sandbox/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "base/parse.h"

enum { REMOVE_ROUNDS = 200, STALE_SECONDS = 10 };

static const char *const controller_names[CGROUP_CONTROLLERS] = {"memory", "pids", "cpu"};

struct place {
    char v2_mount[PATH_MAX]; /* where the unified hierarchy is mounted; empty: nowhere */
    char v1_mount[CGROUP_CONTROLLERS][PATH_MAX];
    char v2_path[PATH_MAX]; /* our own group in it */
    char v1_path[CGROUP_CONTROLLERS][PATH_MAX];
};

/* Whether word is one of list's comma-separated words. */
static bool has_word(const char *list, const char *word)
{
    size_t size = strlen(word);
    while (*list) {
        size_t n = strcspn(list, ",\n");
        if (n == size && strncmp(list, word, n) == 0) {
            return true;
        }
        list += n;
        list += *list != '\0';
    }
    return false;
}

/* "36 35 98:0 / /mnt rw - TYPE SOURCE SUPER_OPTIONS", proc(5). Only mounts of a hierarchy's root
 * count, or the own paths of /proc/self/cgroup would not lie below them. */
static void take_mount(struct place *place, char *line)
{
    enum { FIELD_MOUNT = 4, FIELDS = 5 };
    char *rest = strstr(line, " - ");
    char *fields[FIELDS];
    char *state = NULL;
    if (!rest) {
        return;
    }
    *rest = '\0';
    for (unsigned i = 0; i < FIELDS; i++) {
        fields[i] = strtok_r(i ? NULL : line, " ", &state);
        if (!fields[i]) {
            return;
        }
    }
    const char *type = strtok_r(rest + strlen(" - "), " ", &state);
    const char *source = strtok_r(NULL, " ", &state);
    const char *options = strtok_r(NULL, " \n", &state);
    if (!type || !source || !options) {
        return;
    }
    if (strcmp(type, "cgroup2") == 0 && !place->v2_mount[0]) {
        (void)snprintf(place->v2_mount, PATH_MAX, "%s", fields[FIELD_MOUNT]);
    }
    for (unsigned i = 0; strcmp(type, "cgroup") == 0 && i < CGROUP_CONTROLLERS; i++) {
        if (has_word(options, controller_names[i])) {
            (void)snprintf(place->v1_mount[i], PATH_MAX, "%s", fields[FIELD_MOUNT]);
        }
    }
}

static void read_mounts(struct place *place)
{
    FILE *file = fopen("/proc/self/mountinfo", "re");
    char *line = NULL;
    size_t capacity = 0;
    while (file && getline(&line, &capacity, file) > 0) {
        take_mount(place, line);
    }
    free(line);
    if (file) {
        (void)fclose(file);
    }
}

/* "4:memory:/path" for version 1, "0::/path" for version 2. */
static void read_own_groups(struct place *place)
{
    FILE *file = fopen("/proc/self/cgroup", "re");
    char *line = NULL;
    size_t capacity = 0;
    while (file && getline(&line, &capacity, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        char *list = strchr(line, ':');
        char *path = list ? strchr(list + 1, ':') : NULL;
        if (!path) {
            continue;
        }
        *path++ = '\0';
        list++;
        if (!*list) {
            (void)snprintf(place->v2_path, PATH_MAX, "%s", path);
        }
        for (unsigned i = 0; i < CGROUP_CONTROLLERS; i++) {
            if (has_word(list, controller_names[i])) {
                (void)snprintf(place->v1_path[i], PATH_MAX, "%s", path);
            }
        }
    }
    free(line);
    if (file) {
        (void)fclose(file);
    }
}

static int open_folder(int dir_fd, const char *path)
{
    int fd = openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static void release_fd(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
    }
    *fd = -1;
}

/* Whether name is that of a box's group whose server is gone, as far as we can see. */
static bool is_stale(int parent_fd, const char *name)
{
    static const char prefix[] = "sandpiper-";
    char text[24] = "";
    uint64_t pid = 0;
    struct stat st;
    size_t digits = 0;
    if (strncmp(name, prefix, sizeof prefix - 1) == 0) {
        name += sizeof prefix - 1;
        digits = strcspn(name, "-");
    }
    if (digits == 0 || digits >= sizeof text || name[digits] != '-') {
        return false;
    }
    memcpy(text, name, digits);
    if (parse_u64(text, &pid) < 0 || pid < 2 || pid > INT32_MAX || kill((pid_t)pid, 0) == 0 ||
        errno != ESRCH) {
        return false;
    }
    /* A server that we cannot see, in a container, may be just filling a young one. */
    return fstatat(parent_fd, name - (sizeof prefix - 1), &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           time(NULL) - st.st_ctime >= STALE_SECONDS;
}

/* Removes what a server left here that was killed together with its reaper, or in the moment before
 * it had one. Only empty groups can be removed. At the end, not at the start: there it would lengthen
 * that very moment. */
static void sweep_stale(int parent_fd)
{
    int fd = open_folder(parent_fd, ".");
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry = NULL;
    while (dir && (entry = readdir(dir))) {
        if (is_stale(parent_fd, entry->d_name)) {
            (void)unlinkat(parent_fd, entry->d_name, AT_REMOVEDIR);
        }
    }
    if (dir) {
        (void)closedir(dir);
    } else if (fd >= 0) {
        (void)close(fd);
    }
}

/* Opens a parent that we may write to, once for controllers that are mounted together. Returns its
 * index in parent_fds or -errno. */
static int find_parent(struct cgroup *cgroup, const char *parent)
{
    struct stat wanted;
    defer_close int parent_fd = open_folder(AT_FDCWD, parent);
    if (parent_fd < 0) {
        return parent_fd;
    }
    if (fstat(parent_fd, &wanted) < 0 || faccessat(parent_fd, ".", W_OK, AT_EACCESS) < 0) {
        return -errno;
    }
    for (unsigned i = 0; i < cgroup->folder_count; i++) {
        struct stat st;
        if (fstat(cgroup->parent_fds[i], &st) == 0 && st.st_ino == wanted.st_ino &&
            st.st_dev == wanted.st_dev) {
            return (int)i;
        }
    }
    cgroup->fds[cgroup->folder_count] = -1;
    cgroup->parent_fds[cgroup->folder_count] = take_fd(&parent_fd);
    return (int)cgroup->folder_count++;
}

/* Makes our folder below a parent. Returns its descriptor or -errno. */
static int make_folder(struct cgroup *cgroup, unsigned index)
{
    int parent_fd = cgroup->parent_fds[index];
    if (cgroup->fds[index] >= 0) {
        return cgroup->fds[index];
    }
    if (mkdirat(parent_fd, cgroup->name, 0755) < 0) {
        return -errno;
    }
    cgroup->fds[index] = open_folder(parent_fd, cgroup->name);
    return cgroup->fds[index];
}

static int write_number(int dir_fd, const char *name, uint64_t number)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    return fd_write_text_at(dir_fd, name, text);
}

enum { CPU_PERIOD_US = 100000 };

static int set_limit_v1(int fd, enum cgroup_controller controller, const struct box_limits *limits)
{
    int r = 0;
    switch (controller) {
    case CGROUP_MEMORY:
        r = write_number(fd, "memory.limit_in_bytes", limits->memory_bytes);
        if (r == 0) {
            /* Without swap accounting there is no such file, and nothing to bound. */
            (void)write_number(fd, "memory.memsw.limit_in_bytes", limits->memory_bytes);
            (void)write_number(fd, "memory.swappiness", 0);
        }
        return r;
    case CGROUP_PIDS:
        return write_number(fd, "pids.max", limits->pids);
    case CGROUP_CPU:
        if (limits->cpu_milli == 0) {
            return 0;
        }
        r = write_number(fd, "cpu.cfs_period_us", CPU_PERIOD_US);
        return r < 0 ? r
                     : write_number(fd, "cpu.cfs_quota_us",
                                    (uint64_t)limits->cpu_milli * CPU_PERIOD_US / 1000);
    case CGROUP_CONTROLLERS:
    default:
        return -EINVAL;
    }
}

static int set_limit_v2(int fd, enum cgroup_controller controller, const struct box_limits *limits)
{
    char text[64];
    int r = 0;
    switch (controller) {
    case CGROUP_MEMORY:
        r = write_number(fd, "memory.max", limits->memory_bytes);
        if (r == 0) {
            (void)write_number(fd, "memory.swap.max", 0);
        }
        return r;
    case CGROUP_PIDS:
        return write_number(fd, "pids.max", limits->pids);
    case CGROUP_CPU:
        if (limits->cpu_milli == 0) {
            return 0;
        }
        (void)snprintf(text, sizeof text, "%llu %d",
                       (unsigned long long)limits->cpu_milli * CPU_PERIOD_US / 1000, CPU_PERIOD_US);
        return fd_write_text_at(fd, "cpu.max", text);
    case CGROUP_CONTROLLERS:
    default:
        return -EINVAL;
    }
}

/* Whether the group is ours to divide. Below systemd that must be said: a kill for memory in a child
 * of a scope that is not makes systemd stop the whole scope, and us with it (OOMPolicy=stop,
 * systemd.scope(5)), and a user's manager leaves no mark on a scope that it delegates. */
static bool is_delegated(const char *parent)
{
    char value[4] = "";
    if (access("/run/systemd/system", F_OK) < 0 || getenv("SANDPIPER_DELEGATED")) {
        return true;
    }
    return getxattr(parent, "user.delegate", value, sizeof value - 1) == 1 && value[0] == '1';
}

/* In version 2 a group's children get a controller when the group hands it down, and it may do so
 * only while it has no processes itself: we step into a leaf of our own first. Both are allowed
 * only in a delegated subtree. */
static int enable_unified(const char *parent)
{
    static const char leaf[] = "sandpiper-server";
    char text[256];
    defer_close int fd = open_folder(AT_FDCWD, parent);
    if (fd < 0) {
        return fd;
    }
    if (fd_read_text_at(fd, "cgroup.subtree_control", text, sizeof text) >= 0 &&
        strstr(text, "memory") && strstr(text, "pids")) {
        return 0;
    }
    int r = fd_write_text_at(fd, "cgroup.subtree_control", "+memory +pids");
    if (r == -EBUSY) {
        if (mkdirat(fd, leaf, 0755) < 0 && errno != EEXIST) {
            return -errno;
        }
        defer_close int leaf_fd = open_folder(fd, leaf);
        r = leaf_fd < 0 ? leaf_fd : write_number(leaf_fd, "cgroup.procs", (uint64_t)getpid());
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
        set_why(cgroup, controller, "no control group can be made",
                -cgroup->controller_parent[controller]);
    }
}

static void take_controller(struct cgroup *cgroup, enum cgroup_controller controller,
                            const struct box_limits *limits)
{
    int fd = make_folder(cgroup, (unsigned)cgroup->controller_parent[controller]);
    if (fd < 0) {
        set_why(cgroup, controller, "no control group can be made", -fd);
        return;
    }
    int r = cgroup->unified ? set_limit_v2(fd, controller, limits)
                            : set_limit_v1(fd, controller, limits);
    if (r < 0) {
        set_why(cgroup, controller, "the control group does not take the limit", -r);
        return;
    }
    cgroup->controller_fd[controller] = fd;
}

static bool join_path(char *out, const char *mount, const char *path)
{
    int size = snprintf(out, PATH_MAX, "%s%s", mount, path);
    return size > 0 && size < PATH_MAX;
}

void cgroup_find(struct cgroup *cgroup)
{
    uint32_t random = 0;
    (void)getrandom(&random, sizeof random, 0);
    *cgroup = (struct cgroup){};
    (void)snprintf(cgroup->name, sizeof cgroup->name, "sandpiper-%d-%08x", (int)getpid(), random);
    struct place *place = calloc(1, sizeof *place);
    for (unsigned i = 0; i < CGROUP_CONTROLLERS; i++) {
        cgroup->controller_fd[i] = -1;
        cgroup->controller_parent[i] = -ENOENT;
        (void)snprintf(cgroup->why[i], sizeof cgroup->why[i], "no %s controller here",
                       controller_names[i]);
    }
    if (!place) {
        return;
    }
    read_mounts(place);
    read_own_groups(place);
    char parent[PATH_MAX];
    bool any_v1 = false;
    for (unsigned i = 0; i < CGROUP_CONTROLLERS; i++) {
        if (place->v1_mount[i][0] && join_path(parent, place->v1_mount[i], place->v1_path[i])) {
            any_v1 = true;
            find_controller(cgroup, (enum cgroup_controller)i, parent);
        }
    }
    if (!any_v1 && place->v2_mount[0] && join_path(parent, place->v2_mount, place->v2_path)) {
        cgroup->unified = true;
        int r = is_delegated(parent) ? enable_unified(parent) : -EPERM;
        /* A server that has already stepped into its leaf makes boxes beside it. */
        char *leaf = strstr(parent, "/sandpiper-server");
        if (leaf && !leaf[strlen("/sandpiper-server")]) {
            *leaf = '\0';
            r = 0;
        }
        for (unsigned i = 0; i < CGROUP_CONTROLLERS; i++) {
            if (r < 0) {
                set_why(cgroup, (enum cgroup_controller)i, "the own control group is not delegated",
                        -r);
            } else {
                find_controller(cgroup, (enum cgroup_controller)i, parent);
            }
        }
    }
    free(place);
    if (cgroup->folder_count == 0) {
        cgroup->name[0] = '\0';
    }
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

int cgroup_attach(const struct cgroup *cgroup, pid_t pid)
{
    for (unsigned i = 0; i < cgroup->folder_count; i++) {
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

bool cgroup_oom_happened(struct cgroup *cgroup)
{
    char text[1024];
    const char *file = cgroup->unified ? "memory.events" : "memory.oom_control";
    if (!cgroup_has(cgroup, CGROUP_MEMORY) ||
        fd_read_text_at(cgroup->controller_fd[CGROUP_MEMORY], file, text, sizeof text) < 0) {
        return false;
    }
    const char *found = strstr(text, "oom_kill ");
    const char *rest = NULL;
    uint64_t kills = 0;
    if (!found || parse_digits(found + strlen("oom_kill "), &kills, &rest) < 0) {
        return false;
    }
    bool happened = kills > cgroup->oom_kills;
    cgroup->oom_kills = kills;
    return happened;
}

uint64_t cgroup_memory_peak(const struct cgroup *cgroup)
{
    char text[64];
    const char *file = cgroup->unified ? "memory.peak" : "memory.max_usage_in_bytes";
    if (!cgroup_has(cgroup, CGROUP_MEMORY) ||
        fd_read_text_at(cgroup->controller_fd[CGROUP_MEMORY], file, text, sizeof text) < 0) {
        return 0;
    }
    const char *rest = NULL;
    uint64_t peak = 0;
    return parse_digits(text, &peak, &rest) < 0 ? 0 : peak;
}

void cgroup_remove(struct cgroup *cgroup)
{
    for (unsigned i = 0; i < cgroup->folder_count; i++) {
        release_fd(&cgroup->fds[i]);
        for (unsigned round = 0; round < REMOVE_ROUNDS; round++) {
            if (unlinkat(cgroup->parent_fds[i], cgroup->name, AT_REMOVEDIR) == 0 ||
                errno != EBUSY) {
                break;
            }
            (void)poll(NULL, 0, 1);
        }
        sweep_stale(cgroup->parent_fds[i]);
    }
    cgroup_leave(cgroup);
}

void cgroup_leave(struct cgroup *cgroup)
{
    for (unsigned i = 0; i < cgroup->folder_count; i++) {
        release_fd(&cgroup->fds[i]);
        release_fd(&cgroup->parent_fds[i]);
    }
    cgroup->folder_count = 0;
    cgroup->name[0] = '\0';
}
