#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/own.h"
#include "base/parse.h"
#include "sandbox/plan/plan.h"
#include "sandbox/report/selftest.h"

enum { STATUS_BYTES = 1 << 20 }; /* NGROUPS_MAX groups take 720 kB */

/* The number behind name, proc(5); -1: there is none. */
static int64_t status_number(const char *status, const char *name)
{
    return (int64_t)parse_field(status, name, UINT64_MAX);
}

/* A capability set has 16 hexadecimal digits. An unreadable one counts as all capabilities. */
static uint64_t status_set(const char *status, const char *name)
{
    char line[64];
    uint64_t value = 0;
    (void)snprintf(line, sizeof line, "\n%s:\t", name);
    const char *found = strstr(status, line);
    if (!found) {
        return ~0UL;
    }
    for (found += strlen(line); *found && *found != '\n'; found++) {
        int digit = parse_hex_digit(*found);
        if (digit < 0) {
            return ~0UL;
        }
        value = value << 4 | (unsigned)digit;
    }
    return value;
}

static int stat_id(int dir_fd, const char *path, struct file_id *ret_id)
{
    struct stat st;
    if (fstatat(dir_fd, path, &st, path[0] ? 0 : AT_EMPTY_PATH) < 0) {
        return -errno;
    }
    *ret_id = (struct file_id){st.st_dev, st.st_ino};
    return 0;
}

int selftest_look(pid_t pid, struct selftest_process *ret_process)
{
    static const char *const namespaces[SELFTEST_NS_COUNT] = {
        "ns/user", "ns/mnt", "ns/pid", "ns/net", "ns/ipc", "ns/uts", "ns/cgroup"};
    static const char *const sets[5] = {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"};
    char path[32] = "/proc/self";
    static char status[STATUS_BYTES];
    struct selftest_process process = {};
    if (pid > 0) {
        (void)snprintf(path, sizeof path, "/proc/%d", (int)pid);
    }
    /* One open directory for all files: if the process exits, its pid cannot lead to another
     * process. */
    defer_close int proc = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (proc < 0) {
        return -errno;
    }
    int r = fd_read_text_at(proc, "status", status, sizeof status);
    r = r < 0 ? r : stat_id(proc, "root", &process.root);
    for (unsigned i = 0; r >= 0 && i < SELFTEST_NS_COUNT; i++) {
        r = stat_id(proc, namespaces[i], &process.namespaces[i]);
    }
    if (r < 0) {
        return r;
    }
    for (unsigned i = 0; i < 5; i++) {
        process.capabilities[i] = status_set(status, sets[i]);
    }
    process.no_new_privs = status_number(status, "NoNewPrivs:");
    process.seccomp_mode = status_number(status, "Seccomp:");
    process.seccomp_filters = status_number(status, "Seccomp_filters:");
    process.uid = (uint64_t)status_number(status, "Uid:");
    process.gid = (uint64_t)status_number(status, "Gid:");
    *ret_process = process;
    return 0;
}

int selftest_look_socket(int socket_fd, struct file_id *ret_namespace)
{
    defer_close int fd = ioctl(socket_fd, SIOCGSKNS);
    return fd < 0 ? -errno : stat_id(fd, "", ret_namespace);
}

void selftest_look_directories(const struct plan *plan,
                               struct file_id directories[SELFTEST_DIRECTORY_COUNT])
{
    static const char *const names[SELFTEST_DIRECTORY_COUNT] = SELFTEST_DIRECTORIES;
    for (unsigned i = 0; i < SELFTEST_DIRECTORY_COUNT; i++) {
        bool shown = false;
        for (unsigned k = 0; k < plan->step_count; k++) {
            const struct plan_step *step = &plan->steps[k];
            shown = shown || (step->kind == PLAN_MOVE && strcmp(step->target, names[i]) == 0);
        }
        if (shown || stat_id(AT_FDCWD, names[i], &directories[i]) < 0) {
            directories[i] = (struct file_id){};
        }
    }
}
