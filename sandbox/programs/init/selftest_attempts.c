/* The inside witness of the start-up proof, see sandbox/grade/proof.h: a process that is confined as the
 * interpreter is, tries what must not work, reports, and ends. What an attempt would do if it did
 * work is harmless: it happens in this process, which has nothing else to do. */
#include "sandbox/grade/proof.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "sandbox/init/init.h"

#ifndef SYS_io_uring_setup
#define SYS_io_uring_setup 425 /* the same on all architectures */
#endif

_Static_assert((int)PROOF_LIMITS >= (int)RLIMITS_MOST, "the record has room for all limits");

enum { PROOF_FD_MOST = 512, NULL_MAJOR = 1, NULL_MINOR = 3 };

static const char own_status[] = "/proc/self/status";

static int32_t outcome(long result)
{
    return result < 0 ? errno : 0;
}

static int32_t try_open(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK, 0600);
    int32_t error = outcome(fd);
    if (fd >= 0) {
        (void)close(fd);
    }
    return error;
}

static int32_t try_socket(int family)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int32_t error = outcome(fd);
    if (fd >= 0) {
        (void)close(fd);
    }
    return error;
}

static void look_at_privileges(struct proof_record *record)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
    if (syscall(SYS_capget, &head, sets) < 0) {
        sets[0] = (struct __user_cap_data_struct){~0U, ~0U, ~0U}; /* not proven */
        sets[1] = sets[0];
    }
    record->capabilities[0] = sets[0].inheritable | (uint64_t)sets[1].inheritable << 32;
    record->capabilities[1] = sets[0].permitted | (uint64_t)sets[1].permitted << 32;
    record->capabilities[2] = sets[0].effective | (uint64_t)sets[1].effective << 32;
    int held = 0;
    for (unsigned long cap = 0; cap < 64; cap++) {
        held = prctl(PR_CAPBSET_READ, cap, 0, 0, 0);
        if (held < 0) {
            break; /* there are no more, prctl(2) */
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

/* All that may be open are asked for in one call: none can have a number beyond the limit, unless it was
 * open before, and those were closed. */
static void look_at_descriptors(struct proof_record *record)
{
    static struct pollfd fds[PROOF_FD_MOST];
    struct rlimit limit = {};
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    nfds_t count = limit.rlim_cur < PROOF_FD_MOST ? limit.rlim_cur : PROOF_FD_MOST;
    for (nfds_t i = 0; i < count; i++) {
        fds[i].fd = (int)i;
    }
    if (poll(fds, count, 0) < 0) {
        return; /* none were counted: not proven */
    }
    for (nfds_t i = 0; i < count; i++) {
        if (!(fds[i].revents & POLLNVAL)) {
            record->descriptors++;
            record->odd_descriptors += !is_expected_descriptor((int)i);
        }
    }
}

static void look_at_folders(struct proof_record *record)
{
    static const char *const folders[PROOF_FOLDER_COUNT] = PROOF_FOLDERS;
    struct stat st;
    for (unsigned i = 0; i < PROOF_FOLDER_COUNT; i++) {
        if (stat(folders[i], &st) == 0) {
            record->folders[i] = (struct file_id){st.st_dev, st.st_ino};
        }
    }
}

/* What the plan may have gone without. */
static void look_at_optional(struct proof_record *record)
{
    struct utsname names = {};
    struct stat st;
    record->has_proc = stat("/proc/self", &st) == 0;
    record->has_hostname = uname(&names) == 0 && strcmp(names.nodename, PROOF_HOSTNAME) == 0;
}

static void look_at_mounts(struct proof_record *record)
{
    static const struct proof_mount mounts[PROOF_MOUNT_COUNT] = PROOF_MOUNTS;
    struct statvfs fs;
    for (unsigned i = 0; i < PROOF_MOUNT_COUNT; i++) {
        record->mount_flags[i] = statvfs(mounts[i].path, &fs) == 0 ? fs.f_flag : 0;
    }
}

/* A file without a name leaves nothing behind where it can be made, open(2). */
static void look_at_data(const struct init *init, struct proof_record *record)
{
    struct statvfs fs;
    for (uint32_t i = 0; i < init->config->datac && i < BOX_MOUNTS; i++) {
        bool there = statvfs(init->data[i], &fs) == 0;
        record->data_flags[i] = there ? PROOF_DATA_THERE | fs.f_flag : 0;
        record->data_write[i] = try_open(init->data[i], O_WRONLY | O_TMPFILE);
    }
}

static void look_at_limits(const struct init *init, struct proof_record *record)
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

static void attempt_all(struct proof_record *record, const char *canary)
{
    int32_t *attempts = record->attempts;
    char params[128] = {}; /* struct io_uring_params */
    attempts[PROOF_UNSHARE] = outcome(syscall(SYS_unshare, CLONE_NEWUSER));
    attempts[PROOF_MOUNT] = outcome(mount("tmpfs", "/tmp", "tmpfs", 0, NULL));
    attempts[PROOF_PTRACE] = outcome(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
    attempts[PROOF_IO_URING] = outcome(syscall(SYS_io_uring_setup, 1, params));
    attempts[PROOF_NETLINK] = try_socket(AF_NETLINK);
    attempts[PROOF_BECOME_ROOT] = outcome(setuid(0));
    attempts[PROOF_CANARY] = try_open(canary, O_RDONLY);
    attempts[PROOF_WRITE_ROOT] = try_open("/etc/proof", O_WRONLY | O_CREAT | O_EXCL);
    attempts[PROOF_WRITE_DEVICE] = try_open("/dev/urandom", O_WRONLY);
    attempts[PROOF_SIGNAL_PARENT] = outcome(kill(getppid(), 0));
    attempts[PROOF_READ_PROC] = try_open(own_status, O_RDONLY);
    attempts[PROOF_MEMFD] = outcome(memfd_create("proof", MFD_CLOEXEC));
    attempts[PROOF_PRIORITY] = outcome(
        setpriority(PRIO_PROCESS, (id_t)getppid(), getpriority(PRIO_PROCESS, (id_t)getppid())));
}

__attribute__((noreturn)) static void proof_child(const struct init *init, int fd, int listener_fd,
                                                  const char *canary)
{
    static struct proof_record record;
    uint64_t began_ns = clock_now_ns();
    record.magic = PROOF_MAGIC;
    record.write_device_before = try_open("/dev/urandom", O_WRONLY);
    record.signal_parent_before = outcome(kill(getppid(), 0));
    record.read_proc_before = try_open(own_status, O_RDONLY);
    record.step = (int32_t)confine(init, fd, listener_fd, /* nests= */ false);
    record.error = record.step ? errno : 0;
    if (record.step == WIRE_STEP_NONE) {
        look_at_descriptors(&record);
        look_at_privileges(&record);
        look_at_folders(&record);
        look_at_optional(&record);
        look_at_mounts(&record);
        look_at_data(init, &record);
        look_at_limits(init, &record);
        attempt_all(&record, canary);
        fd = CONFINED_CONTROL_FD;
    }
    record.duration_ns = clock_now_ns() - began_ns;
    (void)send(fd, &record, sizeof record, MSG_NOSIGNAL);
    _exit(0);
}

void proof_start(struct init *init, const struct wire_request *request)
{
    int ends[2] = {-1, -1};
    int listener[2] = {-1, -1};
    struct wire_reply reply = {.event = WIRE_ANSWER, .id = request->id};
    int r = fd_socketpair(SOCK_SEQPACKET, ends);
    r = r ? r : listener_pair(init, listener);
    pid_t pid = r < 0 ? -1 : fork();
    if (pid == 0) {
        proof_child(init, ends[1], listener[1], request->path);
    }
    if (pid > 0) {
        init_send(&reply, ends[0]);
    } else {
        init_answer(request->id, r < 0 ? -r : errno);
    }
    listener_take(init, listener);
    own_close(&ends[0]);
    own_close(&ends[1]);
}
