/* The self-test inside the sandbox, see sandbox/protocol/selftest_record.h: a process with the
 * interpreter's confinement tries what must fail, reports, and exits. An attempt that succeeded
 * would be harmless: it happens in this process, which does nothing else. */
#include "sandbox/protocol/selftest_record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <linux/netlink.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "sandbox/programs/common/processes.h"
#include "sandbox/programs/init/init.h"

#ifndef SYS_io_uring_setup
#define SYS_io_uring_setup 425 /* the same on all architectures */
#endif

_Static_assert((int)SELFTEST_LIMITS >= (int)RLIMITS_MOST, "the record has space for all limits");

enum { SELFTEST_FD_MOST = 512, NULL_MAJOR = 1, NULL_MINOR = 3 };

static const char own_status[] = "/proc/self/status";

static int32_t outcome(long result)
{
    return result < 0 ? errno : 0;
}

static int32_t try_open(const char *path, int flags)
{
    defer_close int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK, 0600);
    return outcome(fd);
}

static int32_t try_netlink(int protocol)
{
    defer_close int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, protocol);
    return outcome(fd);
}

static void check_privileges(struct selftest_record *record)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
    if (syscall(SYS_capget, &head, sets) < 0) {
        sets[0] = (struct __user_cap_data_struct){~0U, ~0U, ~0U}; /* not tested */
        sets[1] = sets[0];
    }
    record->capabilities[0] = sets[0].inheritable | (uint64_t)sets[1].inheritable << 32;
    record->capabilities[1] = sets[0].permitted | (uint64_t)sets[1].permitted << 32;
    record->capabilities[2] = sets[0].effective | (uint64_t)sets[1].effective << 32;
    int held = 0;
    for (unsigned long cap = 0; cap < 64; cap++) {
        held = prctl(PR_CAPBSET_READ, cap, 0, 0, 0);
        if (held < 0) {
            break; /* no further capabilities, prctl(2) */
        }
        record->capabilities[3] |= (uint64_t)(held == 1) << cap;
        held = prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, cap, 0, 0);
        record->capabilities[4] |= (uint64_t)(held == 1) << cap;
    }
    record->no_new_privs = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
    record->seccomp_mode = prctl(PR_GET_SECCOMP, 0, 0, 0, 0);
    record->uid = geteuid();
    record->gid = getegid();
}

static bool is_expected_descriptor(int fd)
{
    struct stat st;
    if (fd > CONFINED_CONTROL_FD || fstat(fd, &st) < 0) {
        return false;
    }
    return fd == CONFINED_CONTROL_FD
               ? S_ISSOCK(st.st_mode)
               : S_ISCHR(st.st_mode) && st.st_rdev == makedev(NULL_MAJOR, NULL_MINOR);
}

/* Polls all possible descriptors in one call. None has a number above the limit, unless it was
 * opened before the limit was set, and those were closed. */
static void check_descriptors(struct selftest_record *record)
{
    static struct pollfd fds[SELFTEST_FD_MOST];
    struct rlimit limit = {};
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    nfds_t count = limit.rlim_cur < SELFTEST_FD_MOST ? limit.rlim_cur : SELFTEST_FD_MOST;
    for (nfds_t i = 0; i < count; i++) {
        fds[i].fd = (int)i;
    }
    if (poll(fds, count, 0) < 0) {
        return; /* none counted: not tested */
    }
    for (nfds_t i = 0; i < count; i++) {
        if (!(fds[i].revents & POLLNVAL)) {
            record->descriptors++;
            record->odd_descriptors += !is_expected_descriptor((int)i);
        }
    }
}

static void check_directories(struct selftest_record *record)
{
    static const char *const directories[SELFTEST_DIRECTORY_COUNT] = SELFTEST_DIRECTORIES;
    struct stat st;
    for (unsigned i = 0; i < SELFTEST_DIRECTORY_COUNT; i++) {
        if (stat(directories[i], &st) == 0) {
            record->directories[i] = (struct file_id){st.st_dev, st.st_ino};
        }
    }
}

static void add_uncovered(struct selftest_record *record, const char *name)
{
    if (record->uncovered++ == 0) {
        (void)snprintf(record->uncovered_name, sizeof record->uncovered_name, "%.31s", name);
    }
}

/* The machine's nodes: what is written to them is no matter, but their modes are all users'. */
static void check_devices(struct selftest_record *record)
{
    static const char *const devices[] = SELFTEST_DEVICES;
    struct stat st;
    for (unsigned i = 0; i < sizeof devices / sizeof *devices; i++) {
        if (stat(devices[i], &st) == 0 && chmod(devices[i], st.st_mode & 07777) == 0) {
            add_uncovered(record, devices[i]);
        }
    }
}

/* Each name in /proc: what the kernel shows there of the host is covered by something else, and
 * nothing can be written to. */
static void check_covers(struct selftest_record *record)
{
    DIR *dir = opendir("/proc");
    struct stat st;
    struct statfs fs;
    for (const char *name = NULL; (name = fd_next_name(dir));) {
        char path[sizeof "/proc/" + NAME_MAX];
        (void)snprintf(path, sizeof path, "/proc/%s", name);
        if (selftest_proc_is_process(name) || lstat(path, &st) < 0 || S_ISLNK(st.st_mode)) {
            continue;
        }
        bool is_kernels = statfs(path, &fs) < 0 || fs.f_type == PROC_SUPER_MAGIC;
        bool is_bad = (is_kernels && !selftest_proc_is_shown(name)) ||
                      try_open(path, O_WRONLY) == 0 || chmod(path, st.st_mode & 07777) == 0;
        if (is_bad) {
            add_uncovered(record, path);
        }
    }
    if (dir) {
        (void)closedir(dir);
    }
}

/* What the plan may have done without. */
static void check_optional(struct selftest_record *record)
{
    struct utsname names = {};
    struct stat st;
    record->has_proc = stat("/proc/self", &st) == 0;
    record->has_machine = stat("/proc/meminfo", &st) == 0;
    record->has_hostname = uname(&names) == 0 && strcmp(names.nodename, BOX_HOSTNAME) == 0;
}

static void check_mounts(struct selftest_record *record)
{
    static const struct selftest_mount mounts[SELFTEST_MOUNT_COUNT] = SELFTEST_MOUNTS;
    struct statvfs fs;
    for (unsigned i = 0; i < SELFTEST_MOUNT_COUNT; i++) {
        record->mount_flags[i] = statvfs(mounts[i].path, &fs) == 0 ? fs.f_flag : 0;
    }
}

/* A file without a name leaves nothing behind if it can be made, open(2). */
static void check_data(const struct init *init, struct selftest_record *record)
{
    struct statvfs fs;
    for (uint32_t i = 0; i < init->config->datac && i < BOX_MOUNTS; i++) {
        bool there = statvfs(init->data[i], &fs) == 0;
        record->data_flags[i] = there ? SELFTEST_DATA_THERE | fs.f_flag : 0;
        record->data_write[i] = try_open(init->data[i], O_WRONLY | O_TMPFILE);
    }
}

static void check_limits(const struct init *init, struct selftest_record *record)
{
    struct rlimit_wanted wanted[RLIMITS_MOST];
    unsigned count = limits_wanted(init->config, wanted);
    for (unsigned i = 0; i < count; i++) {
        struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
        (void)getrlimit((__rlimit_resource_t)wanted[i].which, &limit);
        record->limits_soft[i] = limit.rlim_cur;
        record->limits_hard[i] = limit.rlim_max;
    }
}

static void attempt_all(struct selftest_record *record, const char *canary)
{
    int32_t *attempts = record->attempts;
    char params[128] = {}; /* struct io_uring_params */
    attempts[SELFTEST_UNSHARE] = outcome(syscall(SYS_unshare, CLONE_NEWUSER));
    attempts[SELFTEST_MOUNT] = outcome(mount("tmpfs", "/tmp", "tmpfs", 0, NULL));
    attempts[SELFTEST_PTRACE] = outcome(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
    attempts[SELFTEST_IO_URING] = outcome(syscall(SYS_io_uring_setup, 1, params));
    attempts[SELFTEST_NETLINK] = try_netlink(NETLINK_KOBJECT_UEVENT);
    attempts[SELFTEST_BECOME_ROOT] = outcome(setuid(0));
    attempts[SELFTEST_CANARY] = try_open(canary, O_RDONLY);
    attempts[SELFTEST_WRITE_ROOT] = try_open("/etc/selftest", O_WRONLY | O_CREAT | O_EXCL);
    attempts[SELFTEST_WRITE_DEVICE] = try_open("/dev/urandom", O_WRONLY);
    attempts[SELFTEST_SIGNAL_PARENT] = outcome(kill(getppid(), 0));
    attempts[SELFTEST_READ_PROC] = try_open(own_status, O_RDONLY);
    attempts[SELFTEST_UNCOVER] = outcome(umount2("/proc/sys", MNT_DETACH));
    attempts[SELFTEST_MEMFD] = outcome(memfd_create("selftest", MFD_CLOEXEC));
    attempts[SELFTEST_PRIORITY] = outcome(
        setpriority(PRIO_PROCESS, (id_t)getppid(), getpriority(PRIO_PROCESS, (id_t)getppid())));
}

__attribute__((noreturn)) static void selftest_child(const struct init *init, int fd,
                                                     int listener_fd, const char *canary)
{
    static struct selftest_record record;
    uint64_t began_ns = clock_now_ns();
    record.magic = SELFTEST_MAGIC;
    record.write_device_before = try_open("/dev/urandom", O_WRONLY);
    record.signal_parent_before = outcome(kill(getppid(), 0));
    record.read_proc_before = try_open(own_status, O_RDONLY);
    record.step = (int32_t)confine(init, fd, listener_fd, /* nests= */ false);
    record.error = record.step ? errno : 0;
    if (record.step == WIRE_STEP_NONE) {
        check_descriptors(&record);
        check_privileges(&record);
        check_directories(&record);
        check_optional(&record);
        check_covers(&record);
        check_devices(&record);
        check_mounts(&record);
        check_data(init, &record);
        check_limits(init, &record);
        attempt_all(&record, canary);
        fd = CONFINED_CONTROL_FD;
    }
    record.duration_ns = clock_now_ns() - began_ns;
    (void)send(fd, &record, sizeof record, MSG_NOSIGNAL);
    _exit(0);
}

void selftest_spawn(struct init *init, const struct wire_request *request)
{
    defer_close_pair int ends[2] = {-1, -1};
    int listener[2] = {-1, -1};
    struct wire_reply reply = {.event = WIRE_RESPONSE, .id = request->id};
    int r = fd_socketpair(SOCK_SEQPACKET, ends);
    r = r ? r : listener_pair(init, listener);
    pid_t pid = r < 0 ? -1 : fork();
    if (pid == 0) {
        selftest_child(init, ends[1], listener[1], request->path);
    }
    if (pid > 0) {
        reply_send(&reply, ends[0]);
    } else {
        reply_result(request->id, r < 0 ? -r : errno);
    }
    listener_take(init, listener);
}
