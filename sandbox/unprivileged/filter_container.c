#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "sandbox/plan/plan.h"
#include "sandbox/policy/filter.h"
#include "sandbox/policy/filter_parts.h"
#include "sandbox/policy/landlock.h"
#include "sandbox/policy/syscalls.h"

/* Landlock does not cover attributes: init changes them where the guest may write. */
static const char *const notified_files[] = {"chmod",  "fchmod",    "fchmodat",  "utime",
                                             "utimes", "futimesat", "utimensat", NULL};
static const char *const notified_truncation[] = {"truncate", NULL};
/* An address is in memory, which no filter sees. Abstract ones belong to the network namespace. */
static const char *const notified_addresses[] = {"bind", "connect", NULL};
/* So that init counts tasks, and none is forked while the sandbox is being killed. */
static const char *const notified_tasks[] = {"clone", "fork", "vfork", NULL};

/* Memory that no process's figures contain while it is in transit in a message; and segments, which
 * would be those of the container's other programs. */
static const char *const absent[] = {"memfd_create", "shmget", "shmat", "shmdt", "shmctl", NULL};
static const char *const refused_owners[] = {"chown",  "chown32",  "fchown",   "fchown32",
                                             "lchown", "lchown32", "fchownat", NULL};
/* Landlock covers neither reading nor writing them by name, nor writing them by a descriptor that
 * was opened for reading. */
static const char *const refused_attributes[] = {
    "getxattr",  "lgetxattr",   "listxattr",    "llistxattr",   "setxattr", "lsetxattr",
    "fsetxattr", "removexattr", "lremovexattr", "fremovexattr", NULL};

static const struct filter_rule rules[] = {
    /* the supervisor adopts the guest's orphans */
    {EINVAL, "prctl", 0, SCMP_CMP_MASKED_EQ, FILTER_LOW_32, PR_SET_DUMPABLE},
    FILTER_VALUE("prctl", 0, PR_SET_CHILD_SUBREAPER),
    /* a connected pair's datagrams can still be sent to any address; streams' cannot, unix(7) */
    {EPERM, "sendto", 4, SCMP_CMP_NE, 0, 0},
    FILTER_VALUE("fcntl", 1, F_SETPIPE_SZ),
    /* the file's owner would set it for all its writers */
    FILTER_VALUE("fcntl", 1, F_SET_RW_HINT),
};

/* Before version 3 of Landlock a readable file can be emptied as well, landlock(7). */
static const struct filter_rule truncation_rules[] = {
    FILTER_MASKED(EPERM, "open", 1, O_ACCMODE | O_TRUNC, O_TRUNC),
    FILTER_MASKED(EPERM, "openat", 2, O_ACCMODE | O_TRUNC, O_TRUNC),
};

static const struct filter_sockets pairs = {.call = SCMP_SYS(socketpair),
                                            .families = 1U << AF_UNIX,
                                            .types = 1U << SOCK_STREAM | 1U << SOCK_SEQPACKET,
                                            .protocols = 1U << 0};

static int add_notified_sockets(scmp_filter_ctx context)
{
    int r = seccomp_rule_add(context, SCMP_ACT_NOTIFY, SCMP_SYS(socket), 1,
                             SCMP_A0(SCMP_CMP_EQ, AF_INET));
    /* The socket that the guest gets instead has no TCP options, and needs none. */
    return r ? r
             : seccomp_rule_add(context, SCMP_ACT_ERRNO(0), SCMP_SYS(setsockopt), 1,
                                SCMP_A1(SCMP_CMP_MASKED_EQ, FILTER_LOW_32, IPPROTO_TCP));
}

int filter_build_notified(const struct filter_container *container,
                          struct filter_program *ret_filter, struct fail *ret_fail)
{
    FILTER_CONTEXT context = NULL;
    int r = filter_context_new(SCMP_ACT_ALLOW, ret_filter->arch, &context);
    r = r ? r : filter_add_names(context, SCMP_ACT_NOTIFY, notified_files);
    r = r ? r : filter_add_names(context, SCMP_ACT_NOTIFY, notified_addresses);
    r = r ? r : filter_add_names(context, SCMP_ACT_NOTIFY, notified_tasks);
    if (r == 0 && container->landlock_abi < LANDLOCK_ABI_TRUNCATE) {
        r = filter_add_names(context, SCMP_ACT_NOTIFY, notified_truncation);
    }
    if (r == 0 && container->landlock_abi < LANDLOCK_ABI_SCOPES) {
        r = filter_add_names(context, SCMP_ACT_NOTIFY, filter_signals);
    }
    if (r == 0 && container->egress) {
        r = add_notified_sockets(context);
    }
    if (r == 0 && container->writes) {
        r = filter_add_writes(context);
    }
    return filter_export(context, r, "seccomp rules for supervised calls", ret_filter, ret_fail);
}

int filter_build_container_names(struct filter_program *ret_filter, struct fail *ret_fail)
{
    static const struct filter_named lists[] = {
        {absent, SECCOMP_RET_ERRNO | ENOSYS},
        {refused_owners, SECCOMP_RET_ERRNO | EPERM},
        {refused_attributes, SECCOMP_RET_ERRNO | ENOTSUP},
        {syscalls_allowed, SECCOMP_RET_ALLOW},
        {syscalls_refused, SECCOMP_RET_ERRNO | EPERM},
        {syscalls_unsuited, SECCOMP_RET_ERRNO | EINVAL},
        {},
    };
    return filter_build_named(lists, ret_filter, ret_fail);
}

int filter_build_container_arguments(const struct filter_container *container,
                                     struct filter_program *ret_filter, struct fail *ret_fail)
{
    FILTER_CONTEXT context = NULL;
    const struct filter_sockets sockets = {.call = SCMP_SYS(socket),
                                           .families = 1U << AF_UNIX |
                                                       (container->egress ? 1U << AF_INET : 0),
                                           .types = 1U << SOCK_STREAM,
                                           .protocols = 1U << 0 | 1U << IPPROTO_TCP};
    int r = filter_context_new(SCMP_ACT_ALLOW, ret_filter->arch, &context);
    r = r ? r : filter_add_common(context);
    r = r ? r : filter_add_rules(context, rules, sizeof rules / sizeof *rules);
    r = r ? r : filter_add_sockets(context, &sockets);
    r = r ? r : filter_add_sockets(context, &pairs);
    if (r == 0 && container->landlock_abi < LANDLOCK_ABI_TRUNCATE) {
        r = filter_add_rules(context, truncation_rules,
                             sizeof truncation_rules / sizeof *truncation_rules);
    }
    /* A process that must die with its parent does, and cannot revoke it. */
    r = r ? r
          : seccomp_rule_add(context, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(prctl), 2,
                             SCMP_A0(SCMP_CMP_MASKED_EQ, FILTER_LOW_32, PR_SET_PDEATHSIG),
                             SCMP_A1(SCMP_CMP_NE, SIGKILL));
    return filter_export_with_lists(context, r, "seccomp rules by argument, in a container",
                                    ret_filter, ret_fail);
}
