/* The child's steps that show code the machine: a whole /proc, in which everything that tells of
 * the host is covered, and the processors in /sys.
 *
 * Of the names in /proc, code sees the processes, symlinks (into those of processes), the few of
 * selftest_proc_is_shown(), and the files that this file and init write (init/machine.c). All
 * others are covered, whatever they are: a kernel that has more of them hides these too. What
 * covers them is mounted read-only; no process of the sandbox can unmount it, because none has the
 * capability and none can make a user namespace. The self-test checks each name. */
#include "sandbox/launch/child_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "base/parse.h"
#include "sandbox/plan/plan.h"
#include "sandbox/protocol/selftest_record.h"

/* The limits of the sandbox's own namespaces in /proc/sys. */

/* Few control groups count the memory of sockets, and the watchdog assumes the most that one socket
 * can hold. So that maximum is low here, and each limit is the sandbox's own:
 * Documentation/admin-guide/sysctl/net.rst and networking/ip-sysctl.rst. Best effort: /proc/sys may
 * be read-only, and older kernels show some of these only to the first user namespace. */
void sysctls_bound_sockets(void)
{
    static const struct {
        const char *file;
        const char *value;
    } limits[] = {
        /* A connection's buffers would grow to ten megabytes, which count for the whole machine
           (tcp(7)): a guest could exhaust the memory of the host's own connections. */
        {"ipv4/tcp_rmem", "4096 65536 131072"},
        {"ipv4/tcp_wmem", "4096 65536 131072"},
        /* Connections that are not yet accepted, each with data that was already sent. */
        {"core/somaxconn", "128"},
        {"ipv4/tcp_max_syn_backlog", "128"},
        {"ipv4/tcp_max_tw_buckets", "4096"},
        /* Datagrams in one socket's queue whose senders are gone; one more than this fits. */
        {"unix/max_dgram_qlen", "1"},
        /* Options of one socket; and, for all sockets, fragments of datagrams that wait for the
           rest. */
        {"core/optmem_max", "20480"},
        {"ipv4/ipfrag_high_thresh", "262144"},
        {"ipv6/ip6frag_high_thresh", "262144"},
    };
    defer_close int net_fd = open("/proc/sys/net", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (unsigned i = 0; net_fd >= 0 && i < sizeof limits / sizeof *limits; i++) {
        (void)fd_write_text_at(net_fd, limits[i].file, limits[i].value);
    }
}

/* What is counted here is also counted for the user outside, with the same bounds: a guest that
 * takes all inotify instances would leave none for the user's own programs. */
int sysctls_bound_user(struct child *child, const struct plan_step *step)
{
    static const struct {
        const char *name;
        const char *most;
    } limits[] = {
        {"max_user_namespaces", "0"},    {"max_mnt_namespaces", "0"},
        {"max_pid_namespaces", "0"},     {"max_net_namespaces", "0"},
        {"max_ipc_namespaces", "0"},     {"max_uts_namespaces", "0"},
        {"max_time_namespaces", "0"},    {"max_cgroup_namespaces", "0"},
        {"max_inotify_instances", "16"}, {"max_inotify_watches", "4096"},
        {"max_fanotify_groups", "0"},
    };
    for (unsigned i = 0; i < sizeof limits / sizeof *limits; i++) {
        int r = fd_write_text_at(child->user_sysctl_fd, limits[i].name, limits[i].most);
        if (r == -EROFS && (child->without_proc || step->optional)) {
            return 0; /* the engine masks it again; then only the filters refuse these calls */
        }
        if (r < 0 && r != -ENOENT) { /* older kernels lack some of these files */
            errno = -r;
            return -1;
        }
    }
    return 0;
}

enum { PATH_BYTES = 320, PROCESSORS_SHOWN = 256 };

/* All below the directory of covers. */
static const char empty_directory[] = "directory";
static const char empty_file[] = "file";

/* What programs read of /proc/sys, as it is for the sandbox's own namespaces at its start, and what
 * has the kernel's version where there is no other /proc. */
static const char *const sys_directories[] = {
    "sys", "sys/kernel", "sys/fs", "sys/vm", "sys/net", "sys/net/core", "sys/net/ipv4",
};
static const char *const copied_files[] = {
    "filesystems",
    "version",
    "sys/fs/file-max",
    "sys/fs/pipe-max-size",
    "sys/kernel/cap_last_cap",
    "sys/kernel/hostname",
    "sys/kernel/ngroups_max",
    "sys/kernel/osrelease",
    "sys/kernel/ostype",
    "sys/kernel/pid_max",
    "sys/kernel/threads-max",
    "sys/net/core/somaxconn",
    "sys/net/ipv4/ip_local_port_range",
    "sys/vm/max_map_count",
    "sys/vm/overcommit_memory",
};

static int make_file(const struct child *child, const char *name, mode_t mode)
{
    return openat(child->machine_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
}

static int write_file(const struct child *child, const char *name, const char *text)
{
    defer_close int fd = make_file(child, name, 0644); /* init writes to some */
    int r = fd < 0 ? -errno : fd_write_all(fd, text, strlen(text));
    return r < 0 ? (errno = -r, -1) : 0;
}

/* Keeps the lines of the sandbox's processors, in place. keeps: whether the processor is one of
 * them to which the lines at the beginning belong. Lines that belong to none (on arm, a serial
 * number) are left out. Returns the bytes that are kept; *size: of the whole lines. */
static size_t keep_processors(const struct box_processors *processors, char *text, size_t *size,
                              bool *keeps)
{
    static const char name[] = "processor";
    size_t kept = 0;
    size_t at = 0;
    for (const char *end = NULL; (end = memchr(text + at, '\n', *size - at));) {
        const char *line = text + at;
        size_t length = (size_t)(end + 1 - line);
        const char *colon = memchr(line, ':', length);
        if (colon && strncmp(line, name, sizeof name - 1) == 0) {
            *keeps = box_processors_has(processors, (unsigned)parse_field(colon, ":", 0));
        }
        if (*keeps) {
            memmove(text + kept, line, length);
            kept += length;
        }
        *keeps = *keeps && length > 1; /* an empty line ends a processor's */
        at += length;
    }
    *size = at;
    return kept;
}

static int copy_cpuinfo(const struct child *child)
{
    static char text[64 << 10];
    defer_close int from_fd = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
    defer_close int fd = make_file(child, "cpuinfo", 0444);
    bool keeps = false;
    size_t have = 0;
    ssize_t size = 0;
    while (from_fd >= 0 && (size = read(from_fd, text + have, sizeof text - 1 - have)) > 0) {
        have += (size_t)size;
        text[have] = '\0';
        size_t whole = have;
        size_t kept = keep_processors(&child->setup->plan->processors, text, &whole, &keeps);
        int r = fd_write_all(fd, text, kept);
        if (r < 0) {
            errno = -r;
            return -1;
        }
        memmove(text, text + whole, have - whole);
        have -= whole;
    }
    return fd < 0 || size < 0 ? -1 : 0;
}

/* Everything comes from the enclosing /proc: the sandbox may get none. */
static int make_covers(const struct child *child)
{
    if (mkdirat(child->machine_fd, empty_directory, 0555) < 0 ||
        write_file(child, empty_file, "") < 0 || write_file(child, "meminfo", "") < 0 ||
        write_file(child, "stat", "") < 0 ||
        write_file(child, "vmstat", "pgpgin 0\npgpgout 0\npswpin 0\npswpout 0\n") < 0 ||
        copy_cpuinfo(child) < 0) {
        return -1;
    }
    for (unsigned i = 0; i < sizeof sys_directories / sizeof *sys_directories; i++) {
        if (mkdirat(child->machine_fd, sys_directories[i], 0755) < 0) {
            return -1;
        }
    }
    for (unsigned i = 0; i < sizeof copied_files / sizeof *copied_files; i++) {
        char path[PATH_BYTES];
        char text[4096];
        (void)snprintf(path, sizeof path, "/proc/%s", copied_files[i]);
        if (fd_read_text_at(AT_FDCWD, path, text, sizeof text) >= 0 && /* a kernel may lack some */
            write_file(child, copied_files[i], text) < 0) {
            return -1;
        }
    }
    return 0;
}

static int open_cover(int dir_fd, const char *name)
{
    return (int)syscall(SYS_open_tree, dir_fd, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
}

/* With what has its name, or else with what is empty. What is shown is covered by itself: root of
 * the whole machine, whose id code has below a user namespace that maps only that, could change the
 * mode of the kernel's file, for all (proc_notify_change() in fs/proc/generic.c). */
static int cover(const struct child *child, int proc_fd, const char *name, bool is_directory)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    int fd = open_cover(selftest_proc_is_shown(name) ? proc_fd : child->covers_fd, name);
    defer_close int cover_fd =
        fd < 0 ? open_cover(child->covers_fd, is_directory ? empty_directory : empty_file) : fd;
    int r = (int)syscall(SYS_mount_setattr, cover_fd, "", AT_EMPTY_PATH, &attr, sizeof attr);
    r = r < 0 ? r
              : (int)syscall(SYS_move_mount, cover_fd, "", proc_fd, name, MOVE_MOUNT_F_EMPTY_PATH);
    return r < 0 && errno == ENOENT ? 0 : r; /* it is gone: the kernel has removed a module */
}

static int cover_all(const struct child *child, const char *proc)
{
    static char entries[32 << 10];
    defer_close int fd = open(proc, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ssize_t size = 0;
    while ((size = syscall(SYS_getdents64, fd, entries, sizeof entries)) > 0) {
        const struct dirent *entry = NULL;
        for (const char *at = entries; at < entries + size; at += entry->d_reclen) {
            entry = (const struct dirent *)(const void *)at;
            if (entry->d_type != DT_LNK && !selftest_proc_is_process(entry->d_name) &&
                cover(child, fd, entry->d_name, entry->d_type == DT_DIR) < 0) {
                return -1;
            }
        }
    }
    return (int)size;
}

static int mount_proc(const char *path, const char *data)
{
    return mount("proc", path, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, data);
}

/* A whole one, or where only the covers are refused, one that has processes only. */
static int mount_some_proc(const struct child *child, const char *path)
{
    bool is_whole = mount_proc(path, NULL) == 0;
    if (is_whole && cover_all(child, path) == 0) {
        return 0;
    }
    return is_whole && umount2(path, MNT_DETACH) < 0 ? -1 : mount_proc(path, "subset=pid");
}

/* The covers are mounted there already. While something is mounted over parts of the enclosing
 * /proc, as engines do, the kernel refuses a new one to user namespaces: mount_too_revealing() in
 * fs/namespace.c. Then code sees no processes, and our own files. */
int child_proc(struct child *child, const struct plan_step *step)
{
    const char *path = child_below_root(step->target);
    child->machine_fd = openat(child->disk_fd, "machine", O_PATH | O_DIRECTORY | O_CLOEXEC);
    child->covers_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (child->machine_fd < 0 || child->covers_fd < 0 || make_covers(child) < 0) {
        return -1;
    }
    int r = mount_some_proc(child, path);
    child->without_proc = r < 0 && step->optional && (errno == EPERM || errno == EACCES);
    if (child->without_proc) {
        (void)unlinkat(child->machine_fd, empty_file, 0);
        (void)unlinkat(child->machine_fd, empty_directory, AT_REMOVEDIR);
    }
    return child->without_proc ? 0 : r;
}

/* The host's directories tell only of the processor, which never changes. Where a host does not
 * have or show them, programs do without. */
int child_processors(struct child *child, const struct plan_step *step)
{
    static const char *const names[] = {"topology", "cache"};
    const struct box_processors *processors = &child->setup->plan->processors;
    const uint64_t attributes =
        MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
    for (unsigned i = 0, shown = 0; i < BOX_PROCESSORS && shown < PROCESSORS_SHOWN; i++) {
        char path[PATH_BYTES];
        shown += box_processors_has(processors, i);
        for (unsigned k = 0; box_processors_has(processors, i) && k < 2; k++) {
            (void)snprintf(path, sizeof path, "%s/cpu%u/%s", step->target, i, names[k]);
            defer_close int fd = (int)syscall(SYS_open_tree, AT_FDCWD, path,
                                              OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
            const char *target = child_below_root(path);
            if (fd >= 0 && child_make_directory(target, 0755) == 0) {
                (void)child_move_tree(fd, target, attributes);
            }
        }
    }
    return 0;
}
