#include <dirent.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "sandbox/host/idmap.h"
#include "sandbox/unprivileged/unprivileged.h"

/* systemd's range for dynamic users, UIDS-GIDS.md of its documentation: no distribution assigns
 * them, and a container's map usually has them. */
enum {
    POOL_FIRST = 61184,
    POOL_LAST = 65519,
    POOL_STEP = 4, /* the guest's, its supervisor's, the egress proxy's */
    INSTALLER_SUPERVISOR = POOL_LAST - 1,
    INSTALLER = POOL_LAST,
    POOL_BLOCKS = (INSTALLER_SUPERVISOR - POOL_FIRST) / POOL_STEP,
};

static bool gives_ids(void)
{
    static const cap_value_t needed[] = {CAP_SETUID, CAP_SETGID,       CAP_CHOWN,
                                         CAP_KILL,   CAP_DAC_OVERRIDE, CAP_FOWNER};
    static int gives = -1;
    if (gives < 0) {
        gives = geteuid() == 0 && idmap_covers(POOL_FIRST) && idmap_covers(POOL_LAST) &&
                idmap_has_capabilities(needed, sizeof needed / sizeof *needed);
    }
    return gives;
}

/* Whether a process runs under one of a block's ids: of a server that was killed together with its
 * supervisor, or a service to which systemd assigned one. */
static bool is_in_use(uid_t first)
{
    defer_closedir DIR *proc = opendir("/proc");
    struct stat st;
    bool used = false;
    for (const char *name = NULL; !used && (name = fd_next_name(proc));) {
        used = name[0] >= '1' && name[0] <= '9' && fstatat(dirfd(proc), name, &st, 0) == 0 &&
               st.st_uid >= first && st.st_uid < first + POOL_STEP;
    }
    return used;
}

/* Holds a block as long as this process lives. An abstract socket (unix(7)) leaves nothing behind,
 * and processes that see one another's ids usually share a network namespace. Returns the block's
 * first uid, or 0. */
static uid_t take_block(void)
{
    static uid_t taken;
    for (unsigned i = 0; !taken && i < POOL_BLOCKS; i++) {
        uid_t first = POOL_FIRST + ((unsigned)getpid() + i) % POOL_BLOCKS * POOL_STEP;
        struct sockaddr_un name = {.sun_family = AF_UNIX};
        int size = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "sandpiper-uid-%u", first);
        defer_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0) {
            return 0;
        }
        socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)size);
        if (bind(fd, (const struct sockaddr *)&name, length) == 0 && !is_in_use(first)) {
            taken = first;
            (void)take_fd(&fd); /* held until this process exits */
        }
    }
    return taken;
}

bool uid_pool_all_reach(const char *path)
{
    char directory[PATH_MAX];
    struct stat st;
    if (stat(path, &st) < 0 || !(st.st_mode & S_IROTH) || !(st.st_mode & S_IXOTH) ||
        !realpath(path, directory)) {
        return false;
    }
    while (path_cut_last(directory) && directory[0]) {
        if (stat(directory, &st) < 0 || !(st.st_mode & S_IXOTH)) {
            return false;
        }
    }
    return true;
}

void uid_pool_choose(const char *workspace, const char *const *needed, struct uid_pool *ret_ids)
{
    struct stat st = {};
    const uid_t self = geteuid();
    *ret_ids = (struct uid_pool){self, getegid(), self, self, self, self, .own = false};
    bool gives = gives_ids() && (!workspace || (stat(workspace, &st) == 0 && st.st_uid != 0));
    for (; gives && *needed; needed++) {
        gives = uid_pool_all_reach(*needed);
    }
    uid_t first = gives ? take_block() : 0;
    if (first) {
        *ret_ids = (struct uid_pool){.guest = workspace ? st.st_uid : first,
                                     .group = workspace && st.st_gid ? st.st_gid : first,
                                     .supervisor = first + 1,
                                     .proxy = first + 2,
                                     .installer = INSTALLER,
                                     .installer_supervisor = INSTALLER_SUPERVISOR,
                                     .own = !workspace};
    }
}
