/* The plan of a sandbox without namespaces, for use inside a container. Code sees the host's
 * directories, but Landlock allows only those named here; init is its supervisor
 * (supervisor/supervisor.c). */
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/own.h"
#include "sandbox/host/host_facts.h"
#include "sandbox/host/python.h"
#include "sandbox/plan/plan.h"
#include "sandbox/policy/filter.h"
#include "sandbox/policy/landlock.h"
#include "sandbox/unprivileged/unprivileged.h"

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

#define READ (LANDLOCK_FS_READ_FILE | LANDLOCK_FS_READ_DIR)
#define WORK (LANDLOCK_RULE_READ | LANDLOCK_RULE_WRITE)
/* Code cannot list this directory: it can reopen what it has made, but finds others' files only by
 * luck. */
#define SHARED_MEMORY                                                                              \
    (LANDLOCK_FS_MAKE_REG | LANDLOCK_FS_READ_FILE | LANDLOCK_FS_WRITE_FILE |                       \
     LANDLOCK_FS_TRUNCATE | LANDLOCK_FS_REMOVE_FILE)

/* Additions to what a sandbox with a root of its own shows, where the server makes them. Programs
 * die of an EACCES where they expect ENOENT. */
static const char *const etc_container[] = {"/etc/gitconfig", "/etc/nsswitch.conf", NULL};

/* The limit of processor time of the enclosing container, cgroups(7). joblib, and with it
 * scikit-learn, ends with an exception where these exist and cannot be read. */
static const char *const processor_limits[] = {"/sys/fs/cgroup/cpu.max",
                                               "/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
                                               "/sys/fs/cgroup/cpu/cpu.cfs_period_us", NULL};

/* Whether code that Landlock let into this directory could open none of its files by name. own:
 * code has a separate uid, so only files that any uid can open count; otherwise all entries do. */
static bool is_nobodys(const char *path, bool own)
{
    defer_closedir DIR *dir = opendir(path);
    bool found = false;
    for (const char *name = NULL; !found && (name = fd_next_name(dir));) {
        struct stat st;
        found = !own || fstatat(dirfd(dir), name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
                (st.st_mode & S_IRWXO && !S_ISLNK(st.st_mode));
    }
    return dir && !found;
}

static void allow_all(struct plan *plan, const char *const *paths, uint64_t allowed)
{
    for (; *paths; paths++) {
        plan_allow(plan, *paths, allowed);
    }
}

static void allow_system(struct plan *plan)
{
    plan_allow(plan, "/usr", LANDLOCK_RULE_READ);
    plan_allow(plan, "/nix/store", LANDLOCK_RULE_READ);
    allow_all(plan, host_system_directories, LANDLOCK_RULE_READ);
    allow_all(plan, plan_etc_shared, READ);
    allow_all(plan, etc_container, READ);
    allow_all(plan, processor_limits, READ);
    plan_allow(plan, "/etc/alternatives", LANDLOCK_RULE_READ);
    plan_allow(plan, "/dev/null", READ | LANDLOCK_FS_WRITE_FILE);
    plan_allow(plan, "/dev/zero", READ | LANDLOCK_FS_WRITE_FILE);
    plan_allow(plan, "/dev/full", READ | LANDLOCK_FS_WRITE_FILE);
    plan_allow(plan, "/dev/random", READ);
    plan_allow(plan, "/dev/urandom", READ);
}

static void allow_python(struct plan *plan, const struct python *python,
                         const struct host_facts *facts)
{
    for (unsigned i = 0; i < python->directory_count; i++) {
        plan_allow(plan, plan_keep(plan, "%s", python->directories[i]), LANDLOCK_RULE_READ);
    }
    for (unsigned minor = 0; minor < 32; minor++) {
        if (facts->etc_python & 1U << minor) {
            plan_allow(plan, plan_keep(plan, "/etc/python3.%u", minor), READ);
        }
    }
}

/* Must follow the others: init treats the directories where code may write as places, notify.h. */
static void allow_content(struct plan *plan, const struct box_spec *spec,
                          const struct plan_content *content)
{
    const struct box_paths *paths = &spec->paths;
    plan_allow(plan, paths->run, LANDLOCK_RULE_READ);
    if (!content->installer) {
        plan_allow(plan, paths->work, WORK | LANDLOCK_RULE_STRAIGHT);
        plan_allow(plan, paths->tmp, WORK | LANDLOCK_RULE_STRAIGHT);
        plan_allow(plan, paths->home, WORK | LANDLOCK_RULE_STRAIGHT);
        plan_allow(plan, paths->output, READ);
    }
    /* multiprocessing's locks need it, but a rule covers the whole directory. */
    if (!content->installer && is_nobodys("/dev/shm", spec->scratch->ids.own)) {
        plan_allow(plan, "/dev/shm", SHARED_MEMORY);
    }
    for (unsigned i = 0; i < content->mount_count; i++) {
        const struct plan_mount *mount = &content->mounts[i];
        plan_allow(plan, mount->source, mount->writable ? WORK : LANDLOCK_RULE_READ);
    }
    for (unsigned i = 0; i < content->data_count; i++) {
        const struct box_mount *data = &content->data[i];
        plan_allow(plan, data->path,
                   LANDLOCK_RULE_STRAIGHT |
                       (data->writable ? LANDLOCK_RULE_WRITE & ~LANDLOCK_FS_EXECUTE : READ));
    }
}

static void step_down(struct plan *plan, uid_t uid, gid_t gid, uid_t supervisor)
{
    struct plan_step *step = plan_add(plan, PLAN_STEP_DOWN, NULL, NULL);
    step->uid = uid;
    step->gid = gid;
    step->supervisor = supervisor;
    plan->outside_uid = uid;
    plan->outside_gid = gid;
}

static int add_container(struct plan *plan, const struct box_spec *spec,
                         const struct host_facts *facts, const struct plan_content *content,
                         struct fail *)
{
    const struct uid_pool *ids = &spec->scratch->ids;
    uid_t uid = content->installer ? ids->installer : ids->guest;
    allow_system(plan);
    allow_python(plan, content->python, facts);
    allow_content(plan, spec, content);
    plan->own_uid = ids->own && !content->installer;
    plan_add(plan, PLAN_SESSION, NULL, NULL);
    if (spec->workspace && !content->installer) {
        plan_add(plan, PLAN_PROTECT, NULL, spec->paths.work);
    }
    plan_add(plan, PLAN_GROUP, NULL, NULL);
    plan_add(plan, PLAN_DESCRIPTORS, NULL, NULL);
    plan_add(plan, PLAN_SUBREAPER, NULL, NULL);
    step_down(plan, uid, content->installer ? uid : ids->group,
              content->installer ? ids->installer_supervisor : ids->supervisor);
    plan_add(plan, PLAN_ENTER, NULL, spec->paths.work);
    plan_add(plan, PLAN_EXECUTE, "sandpiper-supervisor", NULL);
    return 0;
}

static int compile_container(struct plan *plan, struct fail *ret_fail)
{
    const struct filter_container container = {
        .landlock_abi = plan->landlock_abi, .egress = plan->egress, .writes = plan->asks_of_writes};
    int r = filter_build_notified(&container, &plan->filter_notified, ret_fail);
    r = r ? r : filter_build_container_arguments(&container, &plan->filter_arguments, ret_fail);
    return r ? r : filter_build_container_names(&plan->filter_names, ret_fail);
}

plan_add_fn level_plan(const struct box_spec *spec)
{
    return spec->scratch ? add_container : plan_add_full;
}

plan_compile_fn level_filters(const struct plan *plan)
{
    return plan->level == BOX_CONTAINER ? compile_container : plan_compile_full;
}

void level_installer_ids(const struct box_spec *spec, const struct host_facts *facts,
                         uid_t *ret_uid, gid_t *ret_gid)
{
    if (!spec->scratch) {
        plan_installer_ids(facts, ret_uid, ret_gid);
        return;
    }
    *ret_uid = spec->scratch->ids.installer;
    *ret_gid = *ret_uid == facts->uid ? facts->gid : *ret_uid;
}

void level_plan_proxy(const struct box_scratch *scratch, const struct host_facts *facts,
                      struct plan *plan)
{
    if (!scratch) {
        plan_build_proxy(facts, plan);
        return;
    }
    *plan = (struct plan){};
    plan_add(plan, PLAN_SESSION, NULL, NULL);
    plan_add(plan, PLAN_DESCRIPTORS, NULL, NULL);
    step_down(plan, scratch->ids.proxy, scratch->ids.group, scratch->ids.proxy);
    plan_add(plan, PLAN_ENTER, NULL, "/");
    plan_add(plan, PLAN_DEATH_SIGNAL, NULL, NULL);
    plan_add(plan, PLAN_EXECUTE, "sandpiper-proxy", NULL);
}
