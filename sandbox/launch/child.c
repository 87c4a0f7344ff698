/* The child between clone and execve. Reads like the plan: one function for each step, run in the
 * plan's order. The first failure is reported as one struct fail and ends the process. No heap, no
 * stdio but snprintf, no logging. The child still has the server's memory, so no guest runs yet.
 * The steps that build the root are in child_root.c. */
#include "sandbox/launch/launch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/mount.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "base/parse.h"
#include "sandbox/plan/plan.h"
#include "sandbox/protocol/init_protocol.h"
#include "sandbox/protocol/packet.h"
#include "sandbox/protocol/selftest_record.h"

/* The child's steps that show code the machine: a whole /proc, in which everything that tells of
 * the host is covered, and the processors in /sys.
 *
 * Of the names in /proc, code sees the processes, symlinks (into those of processes), the few of
 * selftest_proc_is_shown(), and the files that this file and init write (init/machine.c). All
 * others are covered, whatever they are: a kernel that has more of them hides these too. What
 * covers them is mounted read-only; no process of the sandbox can unmount it, because none has the
 * capability and none can make a user namespace. The self-test checks each name. */

/* The limits of the sandbox's own namespaces in /proc/sys. */

/* Few control groups count the memory of sockets, and the watchdog assumes the most that one socket
 * can hold. So that maximum is low here, and each limit is the sandbox's own:
 * Documentation/admin-guide/sysctl/net.rst and networking/ip-sysctl.rst. Best effort: /proc/sys may
 * be read-only, and older kernels show some of these only to the first user namespace. */
static void sysctls_bound_sockets(void)
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
static int sysctls_bound_user(struct child *child, const struct plan_step *step)
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

/* Closes all descriptors that the child does not need. Among them are the server's ends of the
 * child's own pipes: while the child has them open, it would not notice when the server exits. */
static void child_keep_own(const struct child_setup *setup)
{
    int kept[5 + CGROUP_DIRECTORIES + PLAN_TREES] = {setup->go_fd, setup->error_fd, setup->init_fd,
                                                     setup->config_fd, setup->program_fd};
    unsigned count = 5;
    for (unsigned i = 0; setup->tasks && i < CGROUP_DIRECTORIES; i++) {
        kept[count++] = setup->tasks[i];
    }
    for (unsigned i = 0; setup->taken && i < PLAN_TREES; i++) {
        kept[count++] = setup->taken[i];
    }
    fd_close_others(STDERR_FILENO + 1, kept, count);
}

enum { CHILD_ERROR_FD = WIRE_FD_COUNT, CHILD_PROGRAM_FD, CHILD_FIRST_TO_CLOSE };

static int step_identity(struct child *, const struct plan_step *)
{
    /* Keeps capabilities over the change of ids, because the following steps need them. */
    if (prctl(PR_SET_SECUREBITS, SECBIT_KEEP_CAPS | SECBIT_NO_SETUID_FIXUP) < 0) {
        return -1;
    }
    if (setresgid(PLAN_INSIDE_ID, PLAN_INSIDE_ID, PLAN_INSIDE_ID) < 0 ||
        setresuid(PLAN_INSIDE_ID, PLAN_INSIDE_ID, PLAN_INSIDE_ID) < 0) {
        return -1;
    }
    /* A process that changes its ids is not dumpable, and root owns its files in /proc, proc(5):
     * the limits below could not be written. No guest exists yet; init switches it off. */
    return prctl(PR_SET_DUMPABLE, 1);
}

static int step_loopback(struct child *, const struct plan_step *)
{
    defer_close int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    if (fd < 0) {
        return -1;
    }
    sysctls_bound_sockets();
    return ioctl(fd, SIOCSIFFLAGS, &request);
}

/* Moves the descriptors above the numbers where init expects them first, then there. */
static int step_descriptors(struct child *child, const struct plan_step *)
{
    enum { COUNT = 12 };
    const struct child_setup *setup = child->setup;
    const int from[COUNT] = {
        setup->init_fd,         setup->config_fd,       setup->error_fd,
        setup->program_fd,      child->output_fd,       child->layers.upper_fd,
        child->layers.lower_fd, child->layers.store_fd, child->layers.overlay_fd,
        child->files_fd,        child->machine_fd,      child->memory_fd};
    const int to[COUNT] = {WIRE_INIT_FD,    WIRE_CONFIG_FD, CHILD_ERROR_FD,  CHILD_PROGRAM_FD,
                           WIRE_OUTPUT_FD,  WIRE_UPPER_FD,  WIRE_LOWER_FD,   WIRE_STORE_FD,
                           WIRE_OVERLAY_FD, WIRE_FILES_FD,  WIRE_MACHINE_FD, WIRE_MEMORY_FD};
    int parked[COUNT];
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (unsigned i = 0; i < COUNT; i++) {
        parked[i] = fcntl(from[i] < 0 ? null : from[i], F_DUPFD_CLOEXEC, CHILD_FIRST_TO_CLOSE);
        if (parked[i] < 0) {
            return -1;
        }
    }
    if (dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0) {
        return -1;
    }
    for (unsigned i = 0; i < COUNT; i++) {
        int flags = to[i] >= CHILD_ERROR_FD || from[i] < 0 ? O_CLOEXEC : 0;
        if (dup3(parked[i], to[i], flags) < 0) {
            return -1;
        }
    }
    fd_close_range(CHILD_FIRST_TO_CLOSE, ~0U);
    return 0;
}

static int step_capabilities(struct child *child, const struct plan_step *)
{
    cap_value_t cap = 0;
    while (cap_drop_bound(cap) == 0) {
        cap++;
    }
    if (errno != EINVAL || cap == 0 || /* the kernel has no such capability */
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
                                     SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
                                     SECBIT_NO_CAP_AMBIENT_RAISE |
                                     SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED) < 0 ||
        cap_set_proc(child->setup->no_capabilities) < 0) {
        return -1;
    }
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

static int step_death_signal(struct child *, const struct plan_step *)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0) {
        return -1;
    }
    /* The server may have exited before the signal was requested; then its end is closed. */
    struct pollfd fd = {.fd = WIRE_INIT_FD, .events = 0};
    if (poll(&fd, 1, 0) == 1) {
        errno = EPIPE;
        return -1;
    }
    return 0;
}

static int step_seccomp(struct child *child, const struct plan_step *)
{
    const struct plan *plan = child->setup->plan;
    struct sock_fprog program = {.len = (unsigned short)plan->filter_init.count,
                                 .filter = plan->filter_init.program};
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

/* What code makes in the user's directory is for a group that the user shares it with. */
static int step_execute(struct child *child, const struct plan_step *step)
{
    (void)umask((child->umask & S_IWGRP) | S_IWOTH);
    const char *const argv[] = {step->source ? step->source : "sandpiper-init", NULL};
    static const char *const envp[] = {NULL};
    return (int)syscall(SYS_execveat, CHILD_PROGRAM_FD, "", argv, envp, AT_EMPTY_PATH);
}

void child_leave_memory_out_of_cores(void)
{
    (void)fd_write_text_at(AT_FDCWD, "/proc/self/coredump_filter", "0");
}

/* Also gives the process a keyring of its own. It would inherit the login session's, which holds
 * keys of the user's file systems and tickets, session-keyring(7). Where the kernel or a
 * container's filter has no keyctl(2), or the user's key quota is used up, the guest's filter still
 * refuses the call. */
static int step_session(struct child *child, const struct plan_step *)
{
    enum { JOIN_SESSION_KEYRING = 1 };
    child->umask = umask(022);
    child_leave_memory_out_of_cores();
    if (syscall(SYS_keyctl, JOIN_SESSION_KEYRING, NULL, 0, 0, 0) < 0 && errno != ENOSYS &&
        errno != EPERM && errno != EACCES && errno != EDQUOT) {
        return -1;
    }
    return setsid() < 0 ? -1 : 0;
}

static int step_hostname(struct child *, const struct plan_step *step)
{
    int r = sethostname(step->source, strlen(step->source));
    return r < 0 && !(step->optional && errno == EPERM) ? -1 : 0;
}

static int step_group(struct child *child, const struct plan_step *)
{
    char go = 0;
    struct pollfd fd = {.fd = child->setup->go_fd, .events = POLLIN};
    if (poll(&fd, 1, -1) != 1 || packet_receive(fd.fd, &go, 1, &child->memory_fd, 1) != 1) {
        errno = EPIPE; /* the server has given up or exited */
        return -1;
    }
    const int *tasks = child->setup->tasks;
    for (unsigned i = 0; tasks && i < CGROUP_DIRECTORIES; i++) {
        if (tasks[i] >= 0 && write(tasks[i], "0", 1) != 1) {
            return -1;
        }
    }
    return 0;
}

static int step_cgroup_namespace(struct child *, const struct plan_step *)
{
    return unshare(CLONE_NEWCGROUP);
}

static int step_subreaper(struct child *, const struct plan_step *)
{
    return prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* Without a user namespace an ordinary user's process may lack the right to drop capabilities.
 * Those that stay in the bounding set are useless without a way to gain privileges. */
static int step_step_down(struct child *child, const struct plan_step *step)
{
    for (cap_value_t cap = 0; cap_get_bound(cap) >= 0; cap++) {
        (void)cap_drop_bound(cap);
    }
    (void)prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED);
    bool other = step->uid != geteuid() || step->supervisor != step->uid;
    if (other && (setgroups(0, NULL) < 0 || setresgid(step->gid, step->gid, step->gid) < 0 ||
                  setresuid(step->supervisor, step->uid, step->supervisor) < 0)) {
        return -1;
    }
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
        cap_set_proc(child->setup->no_capabilities) < 0) {
        return -1;
    }
    /* The supervisor keeps two ids: its own, and the guest's to assign. Older kernels (Linux 6.12
     * for one) take that for a set-user-ID program, and under no_new_privs execve(2) keeps only one
     * of them: cap_bprm_creds_from_file() in security/commoncap.c. So the supervisor's program sets
     * it (init/main.c). */
    return step->supervisor != step->uid ? 0 : prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

static int step_enter(struct child *, const struct plan_step *step)
{
    return chdir(step->target);
}

static const child_step_fn step_fns[PLAN_KIND_COUNT] = {
    [PLAN_CGROUP_NAMESPACE] = step_cgroup_namespace,
    [PLAN_IDENTITY] = step_identity,
    [PLAN_SESSION] = step_session,
    [PLAN_HOSTNAME] = step_hostname,
    [PLAN_LOOPBACK] = step_loopback,
    [PLAN_NO_NAMESPACES] = sysctls_bound_user,
    [PLAN_DESCRIPTORS] = step_descriptors,
    [PLAN_CAPABILITIES] = step_capabilities,
    [PLAN_DEATH_SIGNAL] = step_death_signal,
    [PLAN_SECCOMP] = step_seccomp,
    [PLAN_GROUP] = step_group,
    [PLAN_SUBREAPER] = step_subreaper,
    [PLAN_STEP_DOWN] = step_step_down,
    [PLAN_ENTER] = step_enter,
    [PLAN_EXECUTE] = step_execute,
};

void child_main(const struct child_setup *setup)
{
    struct child child = {.setup = setup,
                          .machine_fd = -1,
                          .memory_fd = -1,
                          .output_fd = -1,
                          .layers = {-1, -1, -1, -1}};
    struct fail fail = {};
    int error_fd = setup->error_fd;
    char go = 0;
    child_keep_own(setup);
    child.files_fd = setup->counts_files ? open("/proc/sys/fs/file-nr", O_RDONLY | O_CLOEXEC) : -1;
    if (read(setup->go_fd, &go, 1) != 1) {
        _exit(1); /* the server has given up or exited */
    }
    for (unsigned i = 0; i < setup->plan->step_count; i++) {
        const struct plan_step *step = &setup->plan->steps[i];
        child_step_fn step_fn = step_fns[step->kind];
        step_fn = step_fn ? step_fn : child_root_steps[step->kind];
        if (step_fn(&child, step) < 0) {
            const char *object = step->target ? step->target : step->source;
            (void)fail_set(&fail, errno, "%s%s%s", plan_kind_name(step->kind), object ? " " : "",
                           object ? object : "");
            fail.step = i + 1;
            (void)write(error_fd, &fail, sizeof fail);
            _exit(1);
        }
        if (step->kind == PLAN_DESCRIPTORS) {
            error_fd = CHILD_ERROR_FD;
        }
    }
    _exit(1);
}
