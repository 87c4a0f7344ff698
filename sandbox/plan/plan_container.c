/* The plan of a box without namespaces, for inside of a container: what code sees are the host's own
 * folders, by Landlock only those that are named here; pid 1's program is its guardian (init/guard.c). */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox/confine/filter.h"
#include "sandbox/plan/plan_parts.h"
#include "sandbox/python/python.h"
#include "sandbox/room_inside.h"

#define READ (LANDLOCK_FS_READ_FILE | LANDLOCK_FS_READ_DIR)
#define WORK (LANDLOCK_RULE_READ | LANDLOCK_RULE_WRITE)
/* Names cannot be learnt there: what code has made it can open again, and what others have only by luck. */
#define SHARED_MEMORY                                                                              \
    (LANDLOCK_FS_MAKE_REG | LANDLOCK_FS_READ_FILE | LANDLOCK_FS_WRITE_FILE |                       \
     LANDLOCK_FS_TRUNCATE | LANDLOCK_FS_REMOVE_FILE)

/* Beyond what a box with a root of its own shows: there they are made by us. Programs die of an EACCES
 * where they expect ENOENT. */
static const char *const etc_container[] = {"/etc/debian_version", "/etc/gitconfig",
                                            "/etc/nsswitch.conf", "/etc/os-release", NULL};

/* Whether no file of somebody else's can be reached by its name in this folder, with Landlock's leave: what
 * an id that is nobody else's could open; for a user's own (own: false) whatever there is. */
static bool is_nobodys(const char *path, bool own)
{
    DIR *dir = opendir(path);
    bool found = false;
    const struct dirent *entry = NULL;
    while (dir && !found && (entry = readdir(dir))) {
        struct stat st;
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            found = !own || fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
                    (st.st_mode & S_IRWXO && !S_ISLNK(st.st_mode));
        }
    }
    bool listed = dir != NULL;
    if (dir) {
        (void)closedir(dir);
    }
    return listed && !found;
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
    allow_all(plan, plan_system_folders, LANDLOCK_RULE_READ);
    allow_all(plan, plan_etc_shared, READ);
    allow_all(plan, etc_container, READ);
    plan_allow(plan, "/etc/alternatives", LANDLOCK_RULE_READ);
    plan_allow(plan, "/dev/null", READ | LANDLOCK_FS_WRITE_FILE);
    plan_allow(plan, "/dev/zero", READ | LANDLOCK_FS_WRITE_FILE);
    plan_allow(plan, "/dev/full", READ | LANDLOCK_FS_WRITE_FILE);
    plan_allow(plan, "/dev/random", READ);
    plan_allow(plan, "/dev/urandom", READ);
}

static void allow_python(struct plan *plan, const struct python *python)
{
    for (unsigned i = 0; i < python->folder_count; i++) {
        plan_allow(plan, plan_keep(plan, "%s", python->folders[i]), LANDLOCK_RULE_READ);
    }
    for (unsigned minor = 9; minor < 20; minor++) {
        const char *folder = plan_keep(plan, "/etc/python3.%u", minor);
        if (folder && access(folder, F_OK) == 0) {
            plan_allow(plan, folder, READ);
        }
    }
}

/* Behind the others: pid 1's program calls those places where code may write, init/notify.h. */
static void allow_content(struct plan *plan, const struct box_spec *spec,
                          const struct plan_content *content)
{
    const struct box_view *view = &spec->view;
    plan_allow(plan, view->run, READ);
    if (!content->errand) {
        plan_allow(plan, view->work, WORK | LANDLOCK_RULE_STRAIGHT);
        plan_allow(plan, view->tmp, WORK | LANDLOCK_RULE_STRAIGHT);
        plan_allow(plan, view->home, WORK | LANDLOCK_RULE_STRAIGHT);
        plan_allow(plan, view->output, READ);
    }
    /* multiprocessing's locks need it; but a rule is for the whole folder. */
    if (!content->errand && is_nobodys("/dev/shm", spec->room->ids.own)) {
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

static void step_down(struct plan *plan, uid_t uid, gid_t gid, uid_t guard)
{
    struct plan_step *step = plan_add(plan, PLAN_STEP_DOWN, NULL, NULL);
    step->uid = uid;
    step->gid = gid;
    step->guard = guard;
    plan->outside_uid = uid;
    plan->outside_gid = gid;
}

int plan_build_container(struct plan *plan, const struct box_spec *spec,
                         const struct python *python, const struct plan_content *content,
                         struct fail *ret_fail)
{
    struct stat st;
    const struct ids *ids = &spec->room->ids;
    if (spec->workspace && stat(spec->workspace, &st) < 0) {
        return fail_set(ret_fail, errno, "the workspace %s; name a folder that exists",
                        spec->workspace);
    }
    if (spec->workspace && !S_ISDIR(st.st_mode)) {
        return fail_set(ret_fail, ENOTDIR, "the workspace %s", spec->workspace);
    }
    uid_t uid = content->errand ? ids->errand : ids->guest;
    allow_system(plan);
    allow_python(plan, python);
    allow_content(plan, spec, content);
    plan->own_uid = ids->own && !content->errand;
    plan_add(plan, PLAN_SESSION, NULL, NULL);
    if (spec->workspace && !content->errand) {
        plan_add(plan, PLAN_PROTECT, NULL, spec->view.work);
    }
    plan_add(plan, PLAN_WAIT, NULL, NULL);
    plan_add(plan, PLAN_DESCRIPTORS, NULL, NULL);
    plan_add(plan, PLAN_SUBREAPER, NULL, NULL);
    step_down(plan, uid, content->errand ? uid : ids->group,
              content->errand ? ids->errand_guard : ids->guard);
    plan_add(plan, PLAN_ENTER, NULL, spec->view.work);
    plan_add(plan, PLAN_EXECUTE, "sandpiper-guardian", NULL);
    return 0;
}

void plan_build_container_egress(struct plan *plan, const struct ids *ids)
{
    plan_add(plan, PLAN_SESSION, NULL, NULL);
    plan_add(plan, PLAN_DESCRIPTORS, NULL, NULL);
    step_down(plan, ids->broker, ids->group, ids->broker);
    plan_add(plan, PLAN_ENTER, NULL, "/");
    plan_add(plan, PLAN_DEATH_SIGNAL, NULL, NULL);
    plan_add(plan, PLAN_EXECUTE, "sandpiper-egress", NULL);
}

int plan_build_container_filters(struct plan *plan, struct fail *ret_fail)
{
    const struct filter_container container = {.landlock_abi = landlock_abi(),
                                               .egress = plan->egress};
    int r = filter_build_notified(&container, &plan->filter_notified, ret_fail);
    r = r ? r : filter_build_container_arguments(&container, &plan->filter_arguments, ret_fail);
    return r ? r : filter_build_container_names(&plan->filter_names, ret_fail);
}
