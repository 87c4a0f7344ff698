/* Starts the sandbox's child and attends to it until it executes init: makes both sides'
 * descriptors, maps the child's ids and moves it into its control group. */
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "sandbox/box/box.h"
#include "sandbox/host/idmap.h"
#include "sandbox/launch/child.h"
#include "sandbox/launch/launch.h"
#include "sandbox/programs/program.h"

static const char whose[] = "the sandbox";

/* Descriptors that the child keeps; the server closes them as soon as the child has them. */
struct child_ends {
    int init_fd;
    int tasks[CGROUP_DIRECTORIES];
    int taken[PLAN_TREES]; /* by slot: trees with mapped ids */
};

static void child_ends_done(struct child_ends *ends)
{
    own_close(&ends->init_fd);
    for (unsigned i = 0; i < CGROUP_DIRECTORIES; i++) {
        own_close(&ends->tasks[i]);
    }
    for (unsigned i = 0; i < PLAN_TREES; i++) {
        own_close(&ends->taken[i]);
    }
}

static int make_ends(struct box *box, struct child_ends *ends, struct fail *ret_fail)
{
    int ends_of_init[2];
    int r = fd_socketpair(SOCK_SEQPACKET, ends_of_init);
    if (r == 0) {
        ends->init_fd = ends_of_init[1];
        r = init_client_start(&box->init, box->loop, ends_of_init[0]);
    }
    if (r < 0) {
        return fail_set(ret_fail, -r, "the sandbox's descriptors");
    }
    box->starting.config_fd = memfd_create("sandpiper-config", MFD_CLOEXEC);
    return box->starting.config_fd < 0 ? fail_set(ret_fail, errno, "memfd_create") : 0;
}

/* A missing directory of the user's is left out. A read-only one is shown as it is where ids cannot
 * be mapped, so that code can read what others may read. */
static int take_tree(const struct plan *plan, const struct plan_step *step, int *ret_fd,
                     struct fail *ret_fail)
{
    const struct idmap idmap = {step->uid, step->gid, plan->outside_uid, plan->outside_gid,
                                step->is_layer};
    bool is_straight = step->data_directory || step->is_layer;
    defer_close int held = is_straight ? fd_open_straight(step->source, O_PATH | O_DIRECTORY)
                                       : open(step->source, O_PATH | O_CLOEXEC);
    int error = is_straight ? -held : errno;
    if (held < 0) {
        return step->data_directory
                   ? 0
                   : fail_set(ret_fail, error, "cannot open the workspace %s", step->source);
    }
    int fd = step->is_layer && step->optional
                 ? (int)syscall(SYS_open_tree, held, "",
                                OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH)
                 : idmap_tree(held, &idmap);
    if (fd >= 0 || step->optional) {
        *ret_fd = fd < 0 ? -1 : fd;
        return 0;
    }
    static const char cannot[] = "its file system or this kernel cannot map ids";
    if (step->is_layer && strcmp(step->data, "store") == 0) {
        return fail_set(ret_fail, -fd,
                        "the store %s is owned by a user other than the sandbox's, and %s: name a "
                        "directory on ext4, XFS or btrfs with --cow-store, or leave it out",
                        step->source, cannot);
    }
    return step->data_directory
               ? fail_set(ret_fail, -fd,
                          "the directory %s is owned by a user other than the sandbox's, and %s: "
                          "mount it without :rw",
                          step->source, cannot)
               : fail_set(ret_fail, -fd,
                          "the workspace %s belongs to root, and %s: name a "
                          "directory that an ordinary user owns",
                          step->source, cannot);
}

/* The kernel checks these arguments before all else. */
int launch_check_calls(struct fail *ret_fail)
{
    bool opens = syscall(SYS_openat2, -1, "", NULL, (size_t)0) < 0 && errno == EINVAL;
    bool closes = fd_may_close_range();
    if (opens && closes) {
        return 0;
    }
    return fail_refuse(ret_fail, ENOSYS,
                       "%s(2) is missing or refused: use Linux 5.12 or newer; inside a container, "
                       "allow openat2 and close_range in its seccomp profile",
                       opens ? "close_range" : "openat2");
}

int launch_child(struct box *box, struct fail *ret_fail)
{
    OWNED(child_ends_done) struct child_ends ends = {.init_fd = -1};
    memset(ends.tasks, -1, sizeof ends.tasks);
    memset(ends.taken, -1, sizeof ends.taken);
    int r = make_ends(box, &ends, ret_fail);
    if (r < 0) {
        return r;
    }
    box->building = BOX_PROTECTION_MOUNTS;
    for (unsigned i = 0; r == 0 && i < box->plan.step_count; i++) {
        const struct plan_step *step = &box->plan.steps[i];
        r = step->kind == PLAN_TAKE_TREE
                ? take_tree(&box->plan, step, &ends.taken[step->slot], ret_fail)
                : 0;
    }
    if (r < 0) {
        return r;
    }
    int program = program_fd(ret_fail);
    if (program < 0) {
        return program;
    }
    struct child_setup setup = {.plan = &box->plan,
                                .init_fd = ends.init_fd,
                                .config_fd = box->starting.config_fd,
                                .program_fd = program,
                                .taken = ends.taken,
                                .counts_files = true};
    if (cgroup_open_tasks(&box->cgroup, ends.tasks)) {
        setup.tasks = ends.tasks;
        box->child.in_group = true;
    }
    box->building = BOX_PROTECTION_NAMESPACES;
    return launch_start(&box->child, &setup, cgroup_clone_fd(&box->cgroup), whose, ret_fail);
}

int launch_confine(struct box *box, struct fail *ret_fail)
{
    int r = config_write(box, box->starting.config_fd, ret_fail);
    r = r < 0 ? r : program_wait(ret_fail);
    if (r < 0) {
        return r;
    }
    box->building = BOX_PROTECTION_MEMORY;
    r = box->child.in_group ? 0 : cgroup_attach(&box->cgroup, box->child.pid);
    if (r < 0) {
        return fail_set(ret_fail, -r, "cannot move the sandbox into its control group");
    }
    box->building = BOX_PROTECTION_PYTHON;
    defer_close int memory_fd =
        box->plan.level == BOX_CONTAINER ? -1 : cgroup_open_memory(&box->cgroup);
    r = launch_go(&box->child, memory_fd, whose, ret_fail);
    drop_fd(&box->child.go_fd);
    drop_fd(&box->starting.config_fd);
    return r;
}
