#include "sandbox/host/host_facts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "sandbox/host/idmap.h"
#include "sandbox/host/mounts.h"
#include "sandbox/policy/filter.h"
#include "sandbox/policy/landlock.h"
#include "sandbox/types.h"

enum { PYTHON_MINOR_FIRST = 9, PYTHON_MINOR_END = 20 };

const char *const host_system_directories[HOST_DIRECTORIES + 1] = {
    "/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin", NULL};

static void read_directory(const char *path, struct host_directory *directory)
{
    struct stat st;
    directory->exists = lstat(path, &st) == 0;
    ssize_t size = directory->exists && S_ISLNK(st.st_mode)
                       ? readlink(path, directory->target, sizeof directory->target - 1)
                       : 0;
    directory->target[size > 0 ? size : 0] = '\0';
}

static void read_workspace(const char *path, struct host_facts *facts)
{
    struct stat st;
    if (stat(path, &st) < 0) {
        facts->workspace_error = errno;
    } else if (!S_ISDIR(st.st_mode)) {
        facts->workspace_error = ENOTDIR;
    } else {
        facts->workspace_uid = st.st_uid;
        facts->workspace_gid = st.st_gid;
    }
}

/* A kernel that knows more processors refuses a smaller set, sched_getaffinity(2). */
static void read_processors(struct box_processors *processors)
{
    uint64_t all[8 * BOX_PROCESSORS / 64] = {1};
    (void)syscall(SYS_sched_getaffinity, 0, sizeof all, all);
    memcpy(processors->bits, all, sizeof processors->bits);
}

/* Init has to read the paths in the memory of the processes that it starts, ptrace(2). */
static const char *why_writes_are_unseen(void)
{
    char scope[8] = "0"; /* there is no Yama */
    (void)fd_read_text_at(AT_FDCWD, "/proc/sys/kernel/yama/ptrace_scope", scope, sizeof scope);
    return !filter_can_ask_of_writes()
               ? "this needs Linux 5.19, and a container engine that allows "
                 "seccomp notifications"
           : scope[0] > '1' ? "the setting kernel.yama.ptrace_scope forbids it"
                            : NULL;
}

void host_facts_read(const struct box_spec *spec, struct host_facts *ret_facts)
{
    *ret_facts = (struct host_facts){
        .uid = geteuid(),
        .gid = getegid(),
        .pid = getpid(),
        .landlock_abi = landlock_abi(),
        .writes_unseen = why_writes_are_unseen(),
        .has_nix_store = access("/nix/store", F_OK) == 0,
    };
    /* Root of a user namespace that maps only itself has no other id to give, nor has one without
     * the capabilities, user_namespaces(7). */
    ret_facts->gives_ids = ret_facts->uid == 0 && idmap_may_give() && idmap_covers(HOST_ID_FIRST);
    if (!spec) {
        return;
    }
    read_processors(&ret_facts->processors);
    ret_facts->leaves_out_mounts = spec->cow && box_cow_may_leave_out();
    for (unsigned i = 0; host_system_directories[i]; i++) {
        read_directory(host_system_directories[i], &ret_facts->system[i]);
    }
    for (unsigned minor = PYTHON_MINOR_FIRST; minor < PYTHON_MINOR_END; minor++) {
        char path[32];
        (void)snprintf(path, sizeof path, "/etc/python3.%u", minor);
        ret_facts->etc_python |= access(path, F_OK) == 0 ? 1U << minor : 0;
    }
    if (spec->workspace) {
        read_workspace(spec->workspace, ret_facts);
    }
}
