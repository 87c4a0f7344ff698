#include "sandbox/host/idmap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "base/parse.h"

bool idmap_covers(uid_t id)
{
    char text[4096];
    if (fd_read_text_at(AT_FDCWD, "/proc/self/uid_map", text, sizeof text) < 0) {
        return false;
    }
    /* Lines of three numbers: inside, outside, count. */
    uint64_t numbers[3];
    unsigned have = 0;
    for (const char *at = text; *at;) {
        const char *rest = at + 1;
        if (parse_digits(at, &numbers[have], &rest) == 0 && ++have == 3) {
            have = 0;
            if (id >= numbers[0] && id - numbers[0] < numbers[2]) {
                return true;
            }
        }
        at = rest;
    }
    return false;
}

bool idmap_has_capabilities(const cap_value_t *needed, size_t count)
{
    cap_t own = cap_get_proc();
    bool has = own != NULL;
    for (size_t i = 0; has && i < count; i++) {
        cap_flag_value_t value = CAP_CLEAR;
        has = cap_get_flag(own, needed[i], CAP_EFFECTIVE, &value) == 0 && value == CAP_SET;
    }
    (void)cap_free(own);
    return has;
}

bool idmap_may_give(void)
{
    static const cap_value_t needed[] = {CAP_SETUID, CAP_SETGID};
    return idmap_has_capabilities(needed, sizeof needed / sizeof *needed);
}

int idmap_write(pid_t pid, const struct idmap *idmap)
{
    const struct {
        const char *file;
        unsigned inside;
        unsigned outside;
    } maps[] = {{"uid_map", idmap->disk_uid, idmap->outside_uid},
                {"gid_map", idmap->disk_gid, idmap->outside_gid}};
    int r = 0;
    for (unsigned i = 0; r == 0 && i < 2; i++) {
        char path[64];
        char text[64];
        (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, maps[i].file);
        (void)snprintf(text, sizeof text, "%u %u 1", maps[i].inside, maps[i].outside);
        r = fd_write_text_at(AT_FDCWD, path, text);
    }
    return r;
}

/* The kernel takes the mapping from a user namespace. Making one takes a process, which waits until
 * its map is written and its namespace opened. */
static int map_namespace(const struct idmap *idmap)
{
    pid_t server = getpid();
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0) {
        /* Must not outlive the server, which may already be dead. */
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != server) {
            _exit(1);
        }
        for (;;) {
            (void)pause();
        }
    }
    if (pid < 0) {
        return -errno;
    }
    char path[64];
    int r = idmap_write(pid, idmap);
    (void)snprintf(path, sizeof path, "/proc/%d/ns/user", (int)pid);
    if (r == 0) {
        r = open(path, O_RDONLY | O_CLOEXEC);
        r = r < 0 ? -errno : r;
    }
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    return r;
}

int idmap_tree(int fd, const struct idmap *idmap)
{
    defer_close int user_fd = map_namespace(idmap);
    if (user_fd < 0) {
        return user_fd;
    }
    defer_close int tree_fd = (int)syscall(SYS_open_tree, fd, "",
                                           OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH |
                                               (idmap->top_only ? 0 : AT_RECURSIVE));
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)user_fd};
    if (tree_fd < 0 || syscall(SYS_mount_setattr, tree_fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr,
                               sizeof attr) < 0) {
        return -errno;
    }
    return take_fd(&tree_fd);
}
