/* Starts the sandbox's child and attends to it until it executes init: makes both sides'
 * descriptors, maps the child's ids and moves it into its control group. */
#include "sandbox/launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/own.h"
#include "base/parse.h"
#include "sandbox/box/box.h"
#include "sandbox/host/host_facts.h"
#include "sandbox/plan/plan.h"
#include "sandbox/policy/filter.h"
#include "sandbox/programs/program.h"
#include "sandbox/protocol/packet.h"
#include "sandbox/types.h"

/* Whether init must count what code writes. It always checks an installer's staging directory. */
static bool counts_scratch(const struct box *box)
{
    return box->spec->scratch && !box->installer;
}

static int config_strings(const struct box *box, struct wire_config *config, struct buf *out)
{
    const struct plan *plan = &box->plan;
    const struct box_paths *paths = &box->spec->paths;
    bool counts = counts_scratch(box);
    for (const char *const *text = plan->argv; *text; text++, config->argc++) {
        buf_append(out, *text, strlen(*text) + 1);
    }
    for (const char *const *text = plan->envp; *text; text++, config->envc++) {
        buf_append(out, *text, strlen(*text) + 1);
    }
    for (unsigned i = 0; i < plan->data_count; i++, config->datac++) {
        buf_append(out, plan->data[i], strlen(plan->data[i]) + 1);
    }
    for (unsigned i = 0; i < plan->rule_count; i++) {
        buf_append(out, plan->rules[i].path, strlen(plan->rules[i].path) + 1);
    }
    const char *const shown[] = {paths->work, paths->tmp, box->installer ? paths->staging : "",
                                 box->egress.path, counts ? paths->output : "",
                                 /* those that count for the disk limit */
                                 counts ? paths->tmp : "", counts ? paths->home : "",
                                 counts && !box->spec->workspace ? paths->work : "",
                                 counts ? paths->output : ""};
    for (unsigned i = 0; i < sizeof shown / sizeof *shown; i++) {
        buf_append(out, shown[i], strlen(shown[i]) + 1);
    }
    return buf_error(out);
}

static int write_rights(int fd, const struct plan *plan)
{
    uint64_t rights[PLAN_RULES];
    for (unsigned i = 0; i < plan->rule_count; i++) {
        rights[i] = plan->rules[i].allowed;
    }
    return fd_write_all(fd, rights, plan->rule_count * sizeof *rights);
}

static int write_filter(int fd, const struct filter_program *filter)
{
    return fd_write_all(fd, filter->program, filter->count * sizeof *filter->program);
}

static void release_filter(struct filter_program *filter)
{
    free(filter->program);
}

struct rlimit_sizes config_sizes(const struct box *box)
{
    const struct plan *plan = &box->plan;
    const struct box_limits *limits = &box->spec->limits;
    bool guards = plan->level == BOX_CONTAINER;
    /* Beside a control group it keeps code from what LIMIT_PIDS_SPARE is for. */
    bool counted = (guards && !plan->own_uid) ||
                   (cgroup_has(&box->cgroup, CGROUP_PIDS) && host_counts_outside());
    return (struct rlimit_sizes){.file_bytes = limits->disk_bytes,
                                 .data_bytes = guards ? 2 * limits->memory_bytes : 0,
                                 .pids_max = counted ? 0 : limits->pids + LIMIT_PIDS_SPARE};
}

/* What an epoll item counts as. The kernel counts them for the whole user, epoll(7): a quarter of
 * what the user may have counts as all of --memory. */
static uint64_t config_epoll_item_bytes(const struct box_limits *limits)
{
    enum { LEAST = 256, SHARE = 4 };
    char text[32] = "";
    uint64_t most = 0;
    (void)fd_read_text_at(AT_FDCWD, "/proc/sys/fs/epoll/max_user_watches", text, sizeof text);
    text[strcspn(text, "\n")] = '\0';
    uint64_t bytes =
        parse_u64(text, &most) == 0 && most > 0 ? limits->memory_bytes / most * SHARE : 0;
    return bytes > LEAST ? bytes : LEAST;
}

/* Writes all of init's settings to fd. 0 or -errno */
static int config_write(const struct box *box, int fd, struct fail *ret_fail)
{
    OWNED(release_filter) struct filter_program uncounted = {};
    OWNED(buf_done) struct buf strings = BUF_EMPTY;
    const struct plan *plan = &box->plan;
    const struct box_limits *limits = &box->spec->limits;
    const struct rlimit_sizes sizes = config_sizes(box);
    bool guards = plan->level == BOX_CONTAINER;
    struct wire_config config = {
        .magic = WIRE_CONFIG_MAGIC,
        .filter_notified_count = plan->filter_notified.count,
        .filter_arguments_count = plan->filter_arguments.count,
        .filter_names_count = plan->filter_names.count,
        .rule_count = plan->rule_count,
        .pids_max = sizes.pids_max,
        .watch_memory_bytes = cgroup_has(&box->cgroup, CGROUP_MEMORY) ? 0 : limits->memory_bytes,
        .uncounted_bytes = cgroup_has(&box->cgroup, CGROUP_MEMORY) ? limits->memory_bytes : 0,
        .inet_bytes = cgroup_uncounted_inet(&box->cgroup),
        .epoll_item_bytes = config_epoll_item_bytes(limits),
        .staging_bytes = box->installer ? box->spec->packages_bytes : 0,
        .disk_bytes = counts_scratch(box) ? limits->disk_bytes : 0,
        .disk_inodes = limits->disk_inodes,
        .file_bytes = sizes.file_bytes,
        .data_bytes = sizes.data_bytes,
        .guards = guards,
        .guest_uid = plan->outside_uid,
        .guest_gid = plan->outside_gid,
        .tasks_max = guards && !sizes.pids_max ? limits->pids : 0,
        .asks_of_writes = plan->asks_of_writes,
        .own_workspace = !box->spec->workspace,
        .undo_files_bytes = box_spec_undo_files_bytes(box->spec),
        .landlock_optional = (box->spec->allow_degraded & 1U << BOX_PROTECTION_LANDLOCK) != 0,
        .cow = plan->cow,
        .processors = plan->processors,
    };
    int r = config.watch_memory_bytes ? filter_build_uncounted(&uncounted, ret_fail) : 0;
    if (r < 0) {
        return r;
    }
    config.filter_uncounted_count = uncounted.count;
    r = config_strings(box, &config, &strings);
    r = r ? r : fd_write_all(fd, &config, sizeof config);
    r = r ? r : write_rights(fd, plan);
    r = r ? r : write_filter(fd, &plan->filter_notified);
    r = r || !uncounted.count ? r : write_filter(fd, &uncounted);
    r = r ? r : write_filter(fd, &plan->filter_arguments);
    r = r ? r : write_filter(fd, &plan->filter_names);
    r = r ? r : fd_write_all(fd, buf_bytes(&strings), buf_size(&strings));
    return r < 0 ? fail_set(ret_fail, -r, "init's settings") : 0;
}

static const char of_sandbox[] = "the sandbox";

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
    return launch_start(&box->child, &setup, cgroup_clone_fd(&box->cgroup), of_sandbox, ret_fail);
}

/* Lets the child continue. memory_fd: WIRE_MEMORY_FD, or -1. 0 or -errno */
static int launch_go(const struct launched *child, int memory_fd, const char *whose,
                     struct fail *ret_fail)
{
    const char go = 1;
    ssize_t sent = packet_send(child->go_fd, &go, 1, &memory_fd, memory_fd >= 0, 0);
    return sent == 1 ? 0 : fail_set(ret_fail, EPIPE, "%s's child", whose);
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
    r = launch_go(&box->child, memory_fd, of_sandbox, ret_fail);
    drop_fd(&box->child.go_fd);
    drop_fd(&box->starting.config_fd);
    return r;
}

const struct launched launch_none = {.pidfd = -1, .go_fd = -1, .error_fd = -1};

static pid_t clone_child(struct launched *child, const struct child_setup *setup, int group_fd)
{
    const unsigned long flags = setup->plan->namespaces | CLONE_PIDFD;
    int pidfd = -1;
    pid_t pid = -1;
    if (group_fd >= 0) {
        struct clone_args args = {.flags = flags | CLONE_INTO_CGROUP,
                                  .pidfd = (uint64_t)(uintptr_t)&pidfd,
                                  .exit_signal = SIGCHLD,
                                  .cgroup = (uint64_t)group_fd};
        pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
        child->in_group = pid > 0;
    }
    if (pid < 0) {
        /* The raw call, because glibc's clone wants a separate stack. Otherwise like fork(2). */
        pid = (pid_t)syscall(SYS_clone, flags | SIGCHLD, NULL, &pidfd, NULL, NULL);
    }
    if (pid == 0) {
        child_main(setup);
    }
    if (pid > 0) {
        child->pid = pid;
        child->pidfd = pidfd;
    }
    return pid;
}

static int map_ids(pid_t pid, const struct plan *plan, struct fail *ret_fail)
{
    const struct idmap idmap = {.disk_uid = PLAN_INSIDE_ID,
                                .disk_gid = PLAN_INSIDE_ID,
                                .outside_uid = plan->outside_uid,
                                .outside_gid = plan->outside_gid};
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/setgroups", (int)pid);
    int r = fd_write_text_at(AT_FDCWD, path, "deny");
    r = r ? r : idmap_write(pid, &idmap);
    return r < 0 ? fail_set(ret_fail, -r, "cannot map the sandbox's ids") : 0;
}

int launch_start(struct launched *ret_child, struct child_setup *setup, int group_fd,
                 const char *whose, struct fail *ret_fail)
{
    const struct plan *plan = setup->plan;
    defer_close int go_fd = -1;
    defer_close int error_fd = -1;
    int go[2] = {-1, -1};
    int r = fd_socketpair(SOCK_STREAM, go);
    ret_child->go_fd = go[0];
    go_fd = go[1];
    r = r ? r : fd_pipe(&ret_child->error_fd, &error_fd);
    if (r < 0) {
        return fail_set(ret_fail, -r, "%s's descriptors", whose);
    }
    cap_t none = cap_init();
    if (!none) {
        return fail_set(ret_fail, ENOMEM, "capabilities");
    }
    setup->no_capabilities = none;
    setup->go_fd = go_fd;
    setup->error_fd = error_fd;
    pid_t pid = clone_child(ret_child, setup, group_fd);
    int error = errno;
    (void)cap_free(none);
    if (pid < 0) {
        return fail_set(ret_fail, error, "cannot create %s for %s",
                        plan->namespaces ? "namespaces" : "a process", whose);
    }
    r = plan->namespaces ? map_ids(pid, plan, ret_fail) : 0;
    return r < 0 ? r : launch_go(ret_child, /* memory_fd= */ -1, whose, ret_fail);
}

void launch_end(struct launched *child)
{
    program_kill(&child->pid);
    drop_fd(&child->pidfd);
    drop_fd(&child->go_fd);
    drop_fd(&child->error_fd);
}

static int monitor_spawn(struct box *box)
{
    char number[16];
    char limit[24];
    char item[24];
    const char *const argv[] = {"sandpiper-monitor", number, limit, item, NULL};
    bool counted = cgroup_has(&box->cgroup, CGROUP_MEMORY);
    int fd = -1;
    (void)snprintf(number, sizeof number, "%d", (int)box->child.pid);
    (void)snprintf(limit, sizeof limit, "%llu",
                   counted ? 0ULL : (unsigned long long)box->spec->limits.memory_bytes);
    (void)snprintf(item, sizeof item, "%llu",
                   (unsigned long long)config_epoll_item_bytes(&box->spec->limits));
    pid_t pid = program_spawn(argv, NULL, &fd);
    if (pid < 0) {
        return pid;
    }
    box->monitor_pid = pid;
    return init_client_start(&box->monitor, box->loop, fd);
}

int monitor_start(struct box *box, struct fail *ret_fail)
{
    struct wire_request zygote = {
        .op = WIRE_WATCH, .role = WIRE_ROLE_ZYGOTE, .pid = box->installer ? 0 : box->guest.pid};
    int r = box->monitor.fd < 0 ? monitor_spawn(box) : 0;
    r = r ? r : box_tell_monitor(box, &zygote);
    r = r ? r : box_tell_monitor_keeper(box);
    return r < 0 ? fail_set(ret_fail, -r, "the sandbox's process monitor") : 0;
}

/* The child's report is one write, or none if every step succeeded. */
static bool plan_works(const struct plan *plan, struct fail *ret_fail)
{
    struct launched child = launch_none;
    struct child_setup setup = {.plan = plan, .init_fd = -1, .config_fd = -1, .program_fd = -1};
    struct fail fail = {};
    bool works = launch_start(&child, &setup, -1, "the sandbox", ret_fail) == 0;
    if (works) {
        /* There is no group to join. */
        (void)launch_go(&child, /* memory_fd= */ -1, "the sandbox", NULL);
        works = read(child.error_fd, &fail, sizeof fail) != (ssize_t)sizeof fail;
        *ret_fail = fail;
    }
    launch_end(&child);
    return works;
}

/* Whether a sandbox with namespaces can be made here. A child builds a root by the steps of a plan,
 * and exits. Blocks for some milliseconds. This does not replace the self-test, which every sandbox
 * runs itself. */
static bool namespace_check_passes(void)
{
    struct fail fail = {};
    struct host_facts facts;
    defer_free struct plan *plan = calloc(1, sizeof *plan);
    if (!plan) {
        return false;
    }
    host_facts_read(NULL, &facts);
    plan_build_namespace_check(&facts, plan);
    bool works = plan_works(plan, &fail);
    if (!works) {
        log_info("sandbox", "no namespaces: %s", fail_text(&fail));
    }
    plan_done(plan);
    return works;
}

void namespace_check_resolve(struct box_spec *spec)
{
    bool unresolved = spec->isolation == BOX_ISOLATION_BEST;
    spec->isolation = level_choose(spec->isolation, unresolved && namespace_check_passes());
}
