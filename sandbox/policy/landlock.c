#include "sandbox/policy/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"

#define FS_UP_TO(last) (((last) << 1) - 1)

enum {
    CREATE_VERSION = 1,
    RULE_PATH_BENEATH = 1,
    ABI_REFER = 2,
    ABI_NET = 4,
    ABI_IOCTL_DEV = 5,
    ABI_LOG = 7,
    ABI_RESOLVE_UNIX = 9,
};

struct ruleset {
    uint64_t handled_fs;
    uint64_t handled_net; /* since version 4; none where the sandbox has its own network */
    uint64_t scoped;      /* since version 6 */
};

struct path_beneath {
    uint64_t allowed;
    int32_t parent_fd;
} __attribute__((packed));

/* Rights that a rule for a non-directory can have; the kernel refuses a rule with more. */
#define OF_FILES                                                                                   \
    (LANDLOCK_FS_EXECUTE | LANDLOCK_FS_WRITE_FILE | LANDLOCK_FS_READ_FILE | LANDLOCK_FS_TRUNCATE | \
     LANDLOCK_FS_IOCTL_DEV | LANDLOCK_FS_RESOLVE_UNIX)

int landlock_abi(void)
{
    int abi = (int)syscall(SYS_landlock_create_ruleset, NULL, (size_t)0, CREATE_VERSION);
    return abi > 0 ? abi : 0;
}

uint64_t landlock_handled_fs(int abi)
{
    static const struct {
        int abi;
        uint64_t last;
    } rights[] = {
        {ABI_RESOLVE_UNIX, LANDLOCK_FS_RESOLVE_UNIX},
        {ABI_IOCTL_DEV, LANDLOCK_FS_IOCTL_DEV},
        {LANDLOCK_ABI_TRUNCATE, LANDLOCK_FS_TRUNCATE},
        {ABI_REFER, LANDLOCK_FS_REFER},
        {1, LANDLOCK_FS_MAKE_SYM},
    };
    for (unsigned i = 0; i < sizeof rights / sizeof *rights; i++) {
        if (abi >= rights[i].abi) {
            return FS_UP_TO(rights[i].last);
        }
    }
    return 0;
}

int landlock_open(const struct landlock_rule *rule)
{
    if (rule->path && rule->allowed & LANDLOCK_RULE_STRAIGHT) {
        return fd_open_straight(rule->path, O_PATH);
    }
    int fd =
        rule->path ? open(rule->path, O_PATH | O_CLOEXEC) : fcntl(rule->fd, F_DUPFD_CLOEXEC, 0);
    return fd < 0 ? -errno : fd;
}

static int add_rule(int ruleset_fd, const struct landlock_rule *rule, uint64_t handled_fs)
{
    struct stat st;
    defer_close int fd = landlock_open(rule);
    if (fd < 0) { /* the rule then allows nothing */
        return fd == -ENOENT || fd == -EACCES || fd == -ELOOP ? 0 : fd;
    }
    struct path_beneath beneath = {.allowed = rule->allowed & handled_fs, .parent_fd = fd};
    int r = fstat(fd, &st);
    if (r == 0 && !S_ISDIR(st.st_mode)) {
        beneath.allowed &= OF_FILES;
    }
    if (r == 0 && beneath.allowed) { /* the kernel refuses a rule that allows nothing */
        r = (int)syscall(SYS_landlock_add_rule, ruleset_fd, RULE_PATH_BENEATH, &beneath, 0);
    }
    return r < 0 ? -errno : 0;
}

static uint64_t scopes_of(int abi)
{
    return abi >= LANDLOCK_ABI_SCOPES ? LANDLOCK_SCOPED_ABSTRACT_UNIX | LANDLOCK_SCOPED_SIGNAL : 0;
}

int landlock_confine(const struct landlock_rule *rules, unsigned rule_count, unsigned flags)
{
    int abi = landlock_abi();
    if (abi < LANDLOCK_ABI_LEAST) {
        return -EOPNOTSUPP;
    }
    struct ruleset ruleset = {.handled_fs = landlock_handled_fs(abi),
                              .handled_net = flags & LANDLOCK_NO_TCP && abi >= ABI_NET
                                                 ? LANDLOCK_NET_BIND_TCP | LANDLOCK_NET_CONNECT_TCP
                                                 : 0,
                              .scoped = scopes_of(abi)};
    /* Refusals do not go to the host's audit log: code could fill it. */
    unsigned quiet =
        abi >= ABI_LOG ? LANDLOCK_RESTRICT_LOG_SAME_EXEC_OFF | LANDLOCK_RESTRICT_LOG_SUBDOMAINS_OFF
                       : 0;
    /* An older kernel accepts a longer structure whose rest is zero. */
    defer_close int fd = (int)syscall(SYS_landlock_create_ruleset, &ruleset, sizeof ruleset, 0);
    if (fd < 0) {
        return -errno;
    }
    int r = 0;
    for (unsigned i = 0; r == 0 && i < rule_count; i++) {
        r = add_rule(fd, &rules[i], ruleset.handled_fs);
    }
    if (r == 0 && syscall(SYS_landlock_restrict_self, fd, quiet) < 0) {
        r = -errno;
    }
    return r;
}

/* From version 2 on, every domain refuses REFER unless it allows it, landlock(7): so the ruleset
 * handles REFER and allows it everywhere. In version 1, a right that is refused in any case still
 * makes a domain. */
int landlock_nested_ruleset(void)
{
    int abi = landlock_abi();
    if (abi < 1) {
        return -EOPNOTSUPP;
    }
    const struct landlock_rule everywhere = {"/", LANDLOCK_FS_REFER};
    const struct ruleset ruleset = {.handled_fs = abi < LANDLOCK_ABI_LEAST ? LANDLOCK_FS_MAKE_CHAR
                                                                           : LANDLOCK_FS_REFER,
                                    .scoped = scopes_of(abi)};
    defer_close int fd = (int)syscall(SYS_landlock_create_ruleset, &ruleset, sizeof ruleset, 0);
    if (fd < 0) {
        return -errno;
    }
    int r = abi < LANDLOCK_ABI_LEAST ? 0 : add_rule(fd, &everywhere, ruleset.handled_fs);
    return r < 0 ? r : take_fd(&fd);
}
