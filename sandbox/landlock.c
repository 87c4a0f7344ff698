#include "sandbox/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* landlock(7). Written out because the kernel's header of Debian 12 ends at version 3; the numbers
 * are the same on all architectures. */
#define FS_EXECUTE (1ULL << 0)
#define FS_WRITE_FILE (1ULL << 1)
#define FS_READ_FILE (1ULL << 2)
#define FS_READ_DIR (1ULL << 3)
#define FS_MAKE_CHAR (1ULL << 6)
#define FS_MAKE_BLOCK (1ULL << 11)
#define FS_REFER (1ULL << 13)
#define FS_TRUNCATE (1ULL << 14)
#define FS_IOCTL_DEV (1ULL << 15)
#define FS_UP_TO(last) (((last) << 1) - 1)

#define SCOPE_ABSTRACT_UNIX (1ULL << 0)
#define SCOPE_SIGNAL (1ULL << 1)

enum { CREATE_VERSION = 1, RULE_PATH_BENEATH = 1, ABI_TRUNCATE = 3, ABI_IOCTL_DEV = 5 };

struct ruleset {
    uint64_t handled_fs;
    uint64_t handled_net; /* since version 4; none: the network is an own namespace */
    uint64_t scoped;      /* since version 6 */
};

struct path_beneath {
    uint64_t allowed;
    int32_t parent_fd;
} __attribute__((packed));

#define READ (FS_EXECUTE | FS_READ_FILE | FS_READ_DIR)
#define WRITE (FS_UP_TO(FS_IOCTL_DEV) & ~(FS_MAKE_CHAR | FS_MAKE_BLOCK | FS_IOCTL_DEV))

/* What is not named is read-only, /proc too: /proc/PID/mem is a way into the zygote and into other
 * sessions that the filters, which see no names, cannot close. */
static const struct {
    const char *path;
    uint64_t allowed;
} rules[] = {
    {"/", READ},
    {"/work", WRITE},
    {"/tmp", WRITE},
    {"/dev/shm", WRITE},
    {"/dev/null", FS_WRITE_FILE},
    {"/dev/zero", FS_WRITE_FILE},
    {"/dev/full", FS_WRITE_FILE},
};

int landlock_abi(void)
{
    int abi = (int)syscall(SYS_landlock_create_ruleset, NULL, (size_t)0, CREATE_VERSION);
    return abi > 0 ? abi : 0;
}

static uint64_t handled_by(int abi)
{
    if (abi >= ABI_IOCTL_DEV) {
        return FS_UP_TO(FS_IOCTL_DEV);
    }
    return abi >= ABI_TRUNCATE ? FS_UP_TO(FS_TRUNCATE) : FS_UP_TO(FS_REFER);
}

static int add_rule(int ruleset_fd, const char *path, uint64_t allowed)
{
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    struct path_beneath beneath = {.allowed = allowed, .parent_fd = fd};
    int r = (int)syscall(SYS_landlock_add_rule, ruleset_fd, RULE_PATH_BENEATH, &beneath, 0);
    r = r < 0 ? -errno : 0;
    (void)close(fd);
    return r;
}

int landlock_confine(void)
{
    int abi = landlock_abi();
    if (abi < LANDLOCK_ABI_LEAST) {
        return -EOPNOTSUPP;
    }
    bool scopes = abi >= LANDLOCK_ABI_SCOPES;
    struct ruleset ruleset = {.handled_fs = handled_by(abi),
                              .scoped = scopes ? SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL : 0};
    /* An older kernel takes a longer structure when the rest is zero. */
    int fd = (int)syscall(SYS_landlock_create_ruleset, &ruleset, sizeof ruleset, 0);
    if (fd < 0) {
        return -errno;
    }
    int r = 0;
    for (unsigned i = 0; r == 0 && i < sizeof rules / sizeof *rules; i++) {
        r = add_rule(fd, rules[i].path, rules[i].allowed & ruleset.handled_fs);
    }
    if (r == 0 && syscall(SYS_landlock_restrict_self, fd, 0) < 0) {
        r = -errno;
    }
    (void)close(fd);
    return r;
}
