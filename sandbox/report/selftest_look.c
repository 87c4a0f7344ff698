#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "base/parse.h"
#include "sandbox/grade/proof.h"
#include "sandbox/plan/plan.h"

enum { STATUS_BYTES = 1 << 20 }; /* NGROUPS_MAX groups are 720 kB of it */

/* The first number behind "name:\t", proc(5). Returns fallback when there is none. */
static int64_t status_number(const char *status, const char *name, int64_t fallback)
{
    char line[64];
    const char *rest = NULL;
    uint64_t value = 0;
    (void)snprintf(line, sizeof line, "\n%s:\t", name);
    const char *found = strstr(status, line);
    if (!found || parse_digits(found + strlen(line), &value, &rest) < 0 || value > INT64_MAX) {
        return fallback;
    }
    return (int64_t)value;
}

/* Sets of capabilities are 16 hexadecimal digits. What cannot be read counts as all of them. */
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
        static const char digits[] = "0123456789abcdef";
        const char *digit = strchr(digits, *found);
        if (!digit) {
            return ~0UL;
        }
        value = value << 4 | (uint64_t)(digit - digits);
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

int proof_look(pid_t pid, struct proof_view *ret_view)
{
    static const char *const namespaces[PROOF_NS_COUNT] = {
        "ns/user", "ns/mnt", "ns/pid", "ns/net", "ns/ipc", "ns/uts", "ns/cgroup"};
    static const char *const sets[5] = {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"};
    char path[32] = "/proc/self";
    static char status[STATUS_BYTES];
    struct proof_view view = {};
    if (pid > 0) {
        (void)snprintf(path, sizeof path, "/proc/%d", (int)pid);
    }
    /* One folder for all: were the process to end, its number would not lead to another one. */
    defer_close int proc = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (proc < 0) {
        return -errno;
    }
    int r = fd_read_text_at(proc, "status", status, sizeof status);
    r = r < 0 ? r : stat_id(proc, "root", &view.root);
    for (unsigned i = 0; r >= 0 && i < PROOF_NS_COUNT; i++) {
        r = stat_id(proc, namespaces[i], &view.namespaces[i]);
    }
    if (r < 0) {
        return r;
    }
    for (unsigned i = 0; i < 5; i++) {
        view.capabilities[i] = status_set(status, sets[i]);
    }
    view.no_new_privs = status_number(status, "NoNewPrivs", -1);
    view.seccomp_mode = status_number(status, "Seccomp", -1);
    view.seccomp_filters = status_number(status, "Seccomp_filters", -1);
    view.uid = (uint64_t)status_number(status, "Uid", -1);
    view.gid = (uint64_t)status_number(status, "Gid", -1);
    *ret_view = view;
    return 0;
}

int proof_look_socket(int socket_fd, struct file_id *ret_namespace)
{
    defer_close int fd = ioctl(socket_fd, SIOCGSKNS);
    return fd < 0 ? -errno : stat_id(fd, "", ret_namespace);
}

void proof_look_folders(const struct plan *plan, struct file_id folders[PROOF_FOLDER_COUNT])
{
    static const char *const names[PROOF_FOLDER_COUNT] = PROOF_FOLDERS;
    for (unsigned i = 0; i < PROOF_FOLDER_COUNT; i++) {
        bool shown = false;
        for (unsigned k = 0; k < plan->step_count; k++) {
            const struct plan_step *step = &plan->steps[k];
            bool mounts = step->kind == PLAN_MOVE || step->kind == PLAN_BIND;
            shown = shown || (mounts && step->target && strcmp(step->target, names[i]) == 0);
        }
        if (shown || stat_id(AT_FDCWD, names[i], &folders[i]) < 0) {
            folders[i] = (struct file_id){};
        }
    }
}
