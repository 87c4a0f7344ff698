/* The plan of a sandbox without namespaces, for use inside a container. Code sees the host's
 * directories, but Landlock allows only those named here; init is its supervisor
 * (supervisor/supervisor.c). */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/own.h"
#include "sandbox/host/host_facts.h"
#include "sandbox/host/python.h"
#include "sandbox/plan/plan_parts.h"
#include "sandbox/policy/filter.h"
#include "sandbox/unprivileged/unprivileged.h"

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
