#include "sandbox/plan/plan.h"

#include <assert.h>
#include <errno.h>
#include <linux/limits.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox/confine/filter.h"
#include "sandbox/grade/proof.h"
#include "sandbox/grade/surrounding.h"
#include "sandbox/plan/idmap.h"
#include "sandbox/plan/plan_parts.h"
#include "sandbox/python/python.h"
#include "sandbox/room_inside.h"

#define READ_ONLY (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
#define WRITABLE (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
#define DATA (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)
#define DEVICE (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC)

/* As root the box runs as an id that owns nothing: kernel objects of uid 0 are out of reach, and
 * RLIMIT_NPROC counts. Far above what distributions and sub-id ranges hand out. */
enum { ERRAND_ID = 1879048191, OUTSIDE_ID_FIRST };

static const char passwd[] =
    "root:x:0:0:root:/:/bin/false\n"
    "user:x:1000:1000:user:/tmp/home:/bin/sh\n"
    "nobody:x:65534:65534:nobody:/:/bin/false\n";
static const char group[] = "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n";
static const char hosts[] = "127.0.0.1 localhost sandbox\n::1 localhost\n";
static const char nsswitch[] = "passwd: files\ngroup: files\nhosts: files\n";

/* Of /etc, only what names no one and unlocks nothing. */
const char *const plan_etc_shared[] = {
    "/etc/alternatives",    "/etc/ca-certificates", "/etc/fonts",
    "/etc/ld.so.cache",     "/etc/ld.so.conf",      "/etc/ld.so.conf.d",
    "/etc/localtime",       "/etc/magic",           "/etc/matplotlibrc",
    "/etc/mime.types",      "/etc/pki/tls/certs",   "/etc/pki/ca-trust",
    "/etc/protocols",       "/etc/services",        "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf", "/etc/timezone",        NULL,
};
static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random",
                                      "/dev/urandom"};
const char *const plan_system_folders[] = {"/bin",    "/lib",  "/lib32", "/lib64",
                                           "/libx32", "/sbin", NULL};

/* The trees that the box shows, in two passes: opened while the host's view and ids reach them,
 * moved when the new root has their place. */
struct tree {
    const char *source;
    const char *target;
    uint64_t attributes;
    bool optional;
    const struct box_mount *data; /* or NULL */
};

struct trees {
    struct tree entries[PLAN_TREES];
    unsigned count;
};

static void show(struct trees *trees, const char *source, const char *target, uint64_t attributes,
                 bool optional)
{
    if (trees->count < PLAN_TREES) {
        trees->entries[trees->count++] =
            (struct tree){source, target, attributes, optional, .data = NULL};
    }
}

static void show_system(struct plan *plan, struct trees *trees)
{
    show(trees, "/usr", "/usr", READ_ONLY, false);
    for (unsigned i = 0; plan_system_folders[i]; i++) {
        const char *path = plan_system_folders[i];
        char target[PATH_MAX];
        struct stat st;
        if (lstat(path, &st) < 0) {
            continue;
        }
        ssize_t size = S_ISLNK(st.st_mode) ? readlink(path, target, sizeof target - 1) : -1;
        if (size > 0) {
            target[size] = '\0';
            plan_add(plan, PLAN_LINK, plan_keep(plan, "%s", target), path);
        } else {
            show(trees, path, path, READ_ONLY, true);
        }
    }
    if (access("/nix/store", F_OK) == 0) {
        show(trees, "/nix/store", "/nix/store", READ_ONLY, true);
    }
    for (unsigned i = 0; plan_etc_shared[i]; i++) {
        show(trees, plan_etc_shared[i], plan_etc_shared[i], READ_ONLY | MOUNT_ATTR_NOEXEC, true);
    }
    for (unsigned i = 0; i < sizeof devices / sizeof *devices; i++) {
        show(trees, devices[i], devices[i], DEVICE, false);
    }
}

static void show_python(struct plan *plan, struct trees *trees, const struct python *python)
{
    for (unsigned i = 0; i < python->folder_count; i++) {
        const char *folder = plan_keep(plan, "%s", python->folders[i]);
        show(trees, folder, folder, READ_ONLY, false);
    }
    /* Debian keeps parts of an interpreter in /etc/pythonX.Y */
    for (unsigned minor = 9; minor < 20; minor++) {
        const char *folder = plan_keep(plan, "/etc/python3.%u", minor);
        if (folder && access(folder, F_OK) == 0) {
            show(trees, folder, folder, READ_ONLY, true);
        }
    }
}

static void add_file(struct plan *plan, const char *target, const void *content, size_t size)
{
    struct plan_step *step = plan_add(plan, PLAN_FILE, NULL, target);
    step->content = content;
    step->content_size = size;
    step->mode = 0444;
}

static void add_fresh_files(struct plan *plan, const struct plan_content *content)
{
    plan_add(plan, PLAN_FOLDER, NULL, "/etc");
    add_file(plan, "/etc/passwd", passwd, sizeof passwd - 1);
    add_file(plan, "/etc/group", group, sizeof group - 1);
    add_file(plan, "/etc/hosts", hosts, sizeof hosts - 1);
    add_file(plan, "/etc/nsswitch.conf", nsswitch, sizeof nsswitch - 1);
    add_file(plan, "/etc/resolv.conf", "", 0);
    plan_add(plan, PLAN_FOLDER, NULL, "/run");
    plan_add(plan, PLAN_FOLDER, NULL, "/run/sandpiper");
    for (const struct embedded *file = content->files; file && file->name; file++) {
        const char *slash = strchr(file->name, '/');
        if (slash) {
            plan_add(plan, PLAN_FOLDER, NULL,
                     plan_keep(plan, "/run/sandpiper/%.*s", (int)(slash - file->name), file->name));
        }
        add_file(plan, plan_keep(plan, "/run/sandpiper/%s", file->name), file->data, file->size);
    }
}

/* Files in memory count as memory: a quarter of it is left for the interpreter, so that a full disk is
 * an error that code can handle and not the end of each process that comes after. */
uint64_t box_spec_disk_bytes(const struct box_spec *spec)
{
    uint64_t most = spec->room ? UINT64_MAX : spec->limits.memory_bytes / 4 * 3;
    return spec->limits.disk_bytes < most ? spec->limits.disk_bytes : most;
}

/* What the server trusts of the workspace is read-only there. The folders on the way are mounts too, and so
 * cannot be moved away from around it, rename(2). */
static void fix_in_workspace(struct plan *plan, const char *inside)
{
    size_t size = 0;
    do {
        size += strspn(inside + size, "/");
        size += strcspn(inside + size, "/");
        const char *path = plan_keep(plan, "/work/%.*s", (int)size, inside);
        plan_add(plan, PLAN_SUBTREE, path, path)->attributes = inside[size] ? WRITABLE : READ_ONLY;
    } while (inside[size]);
}

static void add_mounts(struct plan *plan, const struct box_spec *spec, const struct python *python,
                       const struct trees *trees)
{
    /* One tmpfs holds all that the guest can write, so that one size bounds it. */
    plan_add(plan, PLAN_TMPFS, NULL, "/run/disk")->data = plan_keep(
        plan, "size=%llu,nr_inodes=%llu,mode=0755", (unsigned long long)box_spec_disk_bytes(spec),
        (unsigned long long)spec->limits.disk_inodes);
    if (!spec->workspace) {
        plan_add(plan, PLAN_SUBTREE, "/run/disk/work", "/work")->attributes = WRITABLE;
    }
    plan_add(plan, PLAN_SUBTREE, "/run/disk/tmp", "/tmp")->attributes = WRITABLE;
    plan_add(plan, PLAN_SUBTREE, "/run/disk/shm", "/dev/shm")->attributes = DATA;
    plan_add(plan, PLAN_SUBTREE, "/run/disk/output", box_view_full.output)->attributes =
        DATA | MOUNT_ATTR_RDONLY; /* but for init, which holds the mount that can be written */
    plan_add(plan, PLAN_UNMOUNT, "/run/disk/output", "/run/disk");
    /* Behind the writable ones: an interpreter may lie below /tmp. */
    for (unsigned i = 0; i < trees->count; i++) {
        const struct tree *tree = &trees->entries[i];
        struct plan_step *step = plan_add(plan, PLAN_MOVE, tree->source, tree->target);
        step->slot = i;
        step->attributes = tree->attributes;
        step->optional = tree->optional;
    }
    for (unsigned i = 0; spec->workspace && i < python->inside_count; i++) {
        fix_in_workspace(plan, python->inside[i]);
    }
    for (unsigned i = 0; i < trees->count; i++) {
        bool data = trees->entries[i].data && trees->entries[i].data->writable;
        if (data || strcmp(trees->entries[i].target, "/work") == 0) {
            plan_add(plan, PLAN_PROTECT, trees->entries[i].source, trees->entries[i].target);
        }
    }
    plan_add(plan, PLAN_FOLDER, NULL, "/tmp/home");
    /* No hidepid: it hides what is not dumpable from pid 1 too, and any process can make itself so;
     * pid 1 has to find all to kill them. */
    struct plan_step *proc = plan_add(plan, PLAN_PROC, NULL, "/proc");
    proc->data = "subset=pid";
    proc->optional = surrounding_spares_proc(spec->isolation);
    plan_add(plan, PLAN_LINK, "/proc/self/fd", "/dev/fd");
    plan_add(plan, PLAN_LINK, "/proc/self/fd/0", "/dev/stdin");
    plan_add(plan, PLAN_LINK, "/proc/self/fd/1", "/dev/stdout");
    plan_add(plan, PLAN_LINK, "/proc/self/fd/2", "/dev/stderr");
    plan_add(plan, PLAN_FOLDER, NULL, "/var");
    plan_add(plan, PLAN_LINK, "/tmp", "/var/tmp");
}

/* Where programs look for the way out, each in both spellings. The box's own loopback is reached without
 * it, but for what of the host's the user has named. */
static unsigned set_proxy(struct plan *plan, const struct egress_policy *policy, unsigned n)
{
    static const char *const proxies[] = {
        "http_proxy=" EGRESS_PROXY_URL, "HTTP_PROXY=" EGRESS_PROXY_URL,
        "https_proxy=" EGRESS_PROXY_URL, "HTTPS_PROXY=" EGRESS_PROXY_URL};
    static const char *const own[] = {"localhost", "127.0.0.1", "::1"};
    char direct[64] = "";
    for (unsigned i = 0; i < sizeof own / sizeof *own; i++) {
        bool named = false;
        for (unsigned k = 0; k < policy->count; k++) {
            named = named || strcmp(policy->rows[k].host, own[i]) == 0;
        }
        if (!named) {
            (void)strncat(direct, direct[0] ? "," : "", 2);
            (void)strncat(direct, own[i], sizeof direct - strlen(direct) - 1);
        }
    }
    for (unsigned i = 0; i < sizeof proxies / sizeof *proxies; i++) {
        plan->envp[n++] = proxies[i];
    }
    plan->envp[n++] = plan_keep(plan, "no_proxy=%s", direct);
    plan->envp[n++] = plan_keep(plan, "NO_PROXY=%s", direct);
    return n;
}

/* What guest/installer looks for. */
static unsigned name_places(struct plan *plan, const struct box_view *view, unsigned n)
{
    plan->envp[n++] = plan_keep(plan, "SANDPIPER_STAGE=%s", view->stage);
    plan->envp[n++] = plan_keep(plan, "SANDPIPER_CACHE=%s", view->cache);
    plan->envp[n++] = plan_keep(plan, "SANDPIPER_FIND_LINKS=%s", view->find_links);
    plan->envp[n++] = plan_keep(plan, "SANDPIPER_CONSTRAINT=%s", view->constraint);
    plan->envp[n++] = plan_keep(plan, "SANDPIPER_CERTIFICATE=%s", view->certificate);
    return n;
}

void plan_set_environment(struct plan *plan, const struct box_spec *spec,
                          const struct python *python, const struct plan_content *content)
{
    const struct box_view *view = &spec->view;
    unsigned n = 0;
    uint32_t cpus = (spec->limits.cpu_milli + 999) / 1000;
    if (python->environment[0]) {
        plan->envp[n++] =
            plan_keep(plan, "PATH=%s/bin:/usr/local/bin:/usr/bin:/bin", python->environment);
        plan->envp[n++] = plan_keep(plan, "VIRTUAL_ENV=%s", python->environment);
    } else {
        plan->envp[n++] = "PATH=/usr/local/bin:/usr/bin:/bin";
    }
    if (python->user_base[0]) {
        plan->envp[n++] = plan_keep(plan, "PYTHONUSERBASE=%s", python->user_base);
    }
    plan->envp[n++] = plan_keep(plan, "HOME=%s", view->home);
    plan->envp[n++] = "USER=user";
    plan->envp[n++] = "LOGNAME=user";
    plan->envp[n++] = "SHELL=/bin/sh";
    plan->envp[n++] = "LANG=C.UTF-8";
    if (content->errand) {
        plan->envp[n++] = plan_keep(plan, "TMPDIR=%s/tmp", view->stage);
        n = name_places(plan, view, n);
    } else {
        plan->envp[n++] = plan_keep(plan, "TMPDIR=%s", view->tmp);
        plan->envp[n++] = plan_keep(plan, "SANDPIPER_DIRECTORY=%s", view->work);
    }
    plan->envp[n++] = "TERM=dumb";
    plan->envp[n++] = "MPLBACKEND=Agg";
    plan->envp[n++] = "PYTHONDONTWRITEBYTECODE=1";
    plan->envp[n++] = "PYTHONIOENCODING=utf-8:backslashreplace";
    for (unsigned i = 0; cpus && i < 5; i++) {
        static const char *const names[] = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS",
                                            "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS",
                                            "VECLIB_MAXIMUM_THREADS"};
        plan->envp[n++] = plan_keep(plan, "%s=%u", names[i], cpus);
    }
    n = spec->egress ? set_proxy(plan, spec->egress, n) : n;
    plan->envp[n] = NULL;
}

void plan_set_arguments(struct plan *plan, const struct box_spec *spec, const struct python *python,
                        const struct plan_content *content)
{
    unsigned n = 0;
    plan->argv[n++] = plan_keep(plan, "%s", python->path);
    if (content->errand) { /* there are packages of strangers around */
        plan->argv[n++] = "-I";
        plan->argv[n++] = "-B";
    } else if (!python->user_base[0]) {
        plan->argv[n++] = "-s"; /* code writes to $HOME, and a new zygote would import it */
    }
    plan->argv[n++] = plan_keep(plan, "%s/%s", spec->view.run, content->main);
    for (unsigned i = 0; i < PLAN_ARGUMENTS && content->arguments[i]; i++) {
        plan->argv[n++] = plan_keep(plan, "%s", content->arguments[i]);
    }
    plan->argv[n] = NULL;
}

/* Root of a user namespace that maps only itself has no other id to give, nor one whose capabilities were
 * dropped, user_namespaces(7). */
static bool gives_ids(void)
{
    return geteuid() == 0 && idmap_may_give() && idmap_covers(OUTSIDE_ID_FIRST);
}

void plan_errand_ids(const struct box_spec *spec, uid_t *ret_uid, gid_t *ret_gid)
{
    if (spec && spec->room) {
        *ret_uid = spec->room->ids.errand;
        *ret_gid = *ret_uid == geteuid() ? getegid() : *ret_uid;
        return;
    }
    bool gives = gives_ids();
    *ret_uid = gives ? ERRAND_ID : geteuid();
    *ret_gid = gives ? ERRAND_ID : getegid();
}

void plan_choose_ids(struct plan *plan, bool errand)
{
    plan_errand_ids(NULL, &plan->outside_uid, &plan->outside_gid);
    if (!errand && gives_ids()) {
        plan->outside_uid = OUTSIDE_ID_FIRST + (uid_t)getpid() % 4194304;
        plan->outside_gid = plan->outside_uid;
    }
}

/* Whose ids the box's one user has outside, and whether the workspace needs a mapping for them. */
static int choose_identity(struct plan *plan, const struct box_spec *spec,
                           const struct plan_content *content, struct fail *ret_fail)
{
    struct stat st = {};
    plan_choose_ids(plan, content->errand);
    if (spec->workspace) {
        if (stat(spec->workspace, &st) < 0) {
            return fail_set(ret_fail, errno, "the workspace %s; name a folder that exists",
                            spec->workspace);
        }
        if (!S_ISDIR(st.st_mode)) {
            return fail_set(ret_fail, ENOTDIR, "the workspace %s", spec->workspace);
        }
    }
    if (plan->outside_uid == geteuid() || !spec->workspace) {
        return 0;
    }
    if (st.st_uid != 0) {
        plan->outside_uid = st.st_uid;
        plan->outside_gid = st.st_gid ? st.st_gid : st.st_uid;
        return 0;
    }
    plan->workspace_idmap = true;
    return 0;
}

int plan_build_init_filter(struct plan *plan, struct fail *ret_fail)
{
    static struct plan_filter kept;
    if (plan->profile == BOX_CONTAINER) {
        return 0; /* a guardian has none: it starts what notifies it, and is no more than its guest */
    }
    int r = kept.program ? 0 : filter_build_init(&kept, ret_fail);
    plan->filter_init = kept;
    return r;
}

static int compile_guest_filters(struct plan *plan, struct fail *ret_fail)
{
    if (plan->profile == BOX_CONTAINER) {
        return plan_build_container_filters(plan, ret_fail);
    }
    bool landlock = landlock_abi() >= LANDLOCK_ABI_LEAST;
    bool scopes = landlock_abi() >= LANDLOCK_ABI_SCOPES;
    int r = scopes ? 0 : filter_build_signals(&plan->filter_notified, ret_fail);
    r = r ? r : filter_build_arguments(landlock, &plan->filter_arguments, ret_fail);
    return r ? r : filter_build_names(&plan->filter_names, ret_fail);
}

int plan_build_guest_filters(struct plan *plan, struct fail *ret_fail)
{
    static struct {
        struct plan_filter notified;
        struct plan_filter arguments;
        struct plan_filter names;
    } kept[3]; /* by all that they depend on */
    typeof(*kept) *mine = &kept[plan->profile == BOX_CONTAINER ? 1 + plan->egress : 0];
    if (!mine->names.program) {
        int r = compile_guest_filters(plan, ret_fail);
        if (r < 0) {
            return r;
        }
        mine->notified = plan->filter_notified;
        mine->arguments = plan->filter_arguments;
        mine->names = plan->filter_names;
    }
    plan->filter_notified = mine->notified;
    plan->filter_arguments = mine->arguments;
    plan->filter_names = mine->names;
    return 0;
}

void plan_show(struct plan_content *content, const char *source, const char *target, bool writable)
{
    assert(content->mount_count < PLAN_MOUNTS);
    content->mounts[content->mount_count++] = (struct plan_mount){source, target, writable};
}

static void show_content(struct trees *trees, const struct plan_content *content)
{
    for (unsigned i = 0; i < content->mount_count; i++) {
        const struct plan_mount *mount = &content->mounts[i];
        show(trees, mount->source, mount->target, mount->writable ? WRITABLE : READ_ONLY, false);
    }
}

static void show_data(struct plan *plan, struct trees *trees, const struct plan_content *content)
{
    for (unsigned i = 0; i < content->data_count && trees->count < PLAN_TREES; i++) {
        const struct box_mount *data = &content->data[i];
        const char *target = plan_keep(plan, "/data/%s", data->name);
        show(trees, data->path, target, data->writable ? DATA : DATA | MOUNT_ATTR_RDONLY,
             /* optional= */ true);
        trees->entries[trees->count - 1].data = data;
        plan->data[plan->data_count++] = target;
        plan->data_writable |= (uint32_t)data->writable << i;
        if (data->writable) {
            plan_allow(plan, target, LANDLOCK_RULE_WRITE);
        }
    }
}

/* The trees are opened while the host's view and ids reach them. What does not belong to the one
 * identity that root gives to code changes hands by a mapping. */
static void open_trees(struct plan *plan, const struct trees *trees)
{
    for (unsigned i = 0; i < trees->count; i++) {
        const struct tree *tree = &trees->entries[i];
        struct plan_step *step = plan_add(plan, PLAN_OPEN_TREE, tree->source, NULL);
        step->slot = i;
        step->optional = tree->optional;
        if (tree->data) {
            bool own = plan->outside_uid == geteuid() || plan->outside_uid == tree->data->uid;
            step->kind = own ? PLAN_OPEN_TREE : PLAN_TAKE_TREE;
            step->data_folder = true;
            step->optional = !tree->data->writable;
            step->uid = tree->data->uid;
            step->gid = tree->data->gid;
        } else if (plan->workspace_idmap && strcmp(tree->target, "/work") == 0) {
            step->kind = PLAN_TAKE_TREE;
        }
    }
}

/* A second lock on the file view, for the day on which a mount is wrong. What is not named is read-only,
 * /proc too: /proc/PID/mem is a way into the zygote and into other sessions that the filters, which see no
 * names, cannot close. RESOLVE_UNIX is allowed nowhere: sockets that were made within the domain are
 * reached without it, those of the host in a shown folder are not reached at all. */
static void add_rules(struct plan *plan)
{
    static const struct landlock_rule rules[] = {
        {"/", LANDLOCK_RULE_READ},
        {"/work", LANDLOCK_RULE_WRITE},
        {"/tmp", LANDLOCK_RULE_WRITE},
        {"/dev/shm", LANDLOCK_RULE_WRITE},
        {"/stage", LANDLOCK_RULE_WRITE}, /* an errand's */
        {"/cache", LANDLOCK_RULE_WRITE}, /* an errand's */
        {"/dev/null", LANDLOCK_FS_WRITE_FILE},
        {"/dev/zero", LANDLOCK_FS_WRITE_FILE},
        {"/dev/full", LANDLOCK_FS_WRITE_FILE},
    };
    for (unsigned i = 0; i < sizeof rules / sizeof *rules; i++) {
        plan_allow(plan, rules[i].path, rules[i].allowed);
    }
}

static void build_steps(struct plan *plan, const struct box_spec *spec, const struct python *python,
                        const struct plan_content *content)
{
    struct trees trees = {};
    /* Links that stand for system folders are collected now and made in their place below. */
    show_system(plan, &trees);
    unsigned links = plan->step_count;
    show_python(plan, &trees, python);
    if (spec->workspace) {
        show(&trees, spec->workspace, "/work", WRITABLE, false);
    }
    show_content(&trees, content);
    show_data(plan, &trees, content);
    struct plan_step system_links[8];
    memcpy(system_links, plan->steps, links * sizeof *system_links);
    plan->step_count = 0;
    plan->tree_count = trees.count;

    open_trees(plan, &trees);
    plan_add(plan, PLAN_IDENTITY, NULL, NULL);
    plan_add(plan, PLAN_SESSION, NULL, NULL);
    /* A name of its own is a courtesy; Docker's and Podman's filters refuse the call also where they
     * allow all that matters. */
    plan_add(plan, PLAN_HOSTNAME, PROOF_HOSTNAME, NULL)->optional = true;
    plan_add(plan, PLAN_LOOPBACK, NULL, NULL);
    plan_add(plan, PLAN_PRIVATE, NULL, NULL);
    plan_add(plan, PLAN_ROOT, NULL, NULL)->data = "size=16m,nr_inodes=2048,mode=0755";
    for (unsigned i = 0; i < links; i++) {
        plan_add(plan, PLAN_LINK, system_links[i].source, system_links[i].target);
    }
    add_fresh_files(plan, content);
    add_mounts(plan, spec, python, &trees);
    plan_add(plan, PLAN_READ_ONLY_ROOT, NULL, NULL);
    plan_add(plan, PLAN_PIVOT, NULL, NULL);
    plan_add(plan, PLAN_CGROUP_NAMESPACE, NULL, NULL);
    plan_add_locks(plan, /* trusted= */ false);
    plan_add(plan, PLAN_SECCOMP, NULL, NULL);
    plan_add(plan, PLAN_EXECUTE, NULL, NULL);
}

static int build_full(struct plan *plan, const struct box_spec *spec, const struct python *python,
                      const struct plan_content *content, struct fail *ret_fail)
{
    int r = choose_identity(plan, spec, content, ret_fail);
    if (r == 0) {
        plan->namespaces = PLAN_NAMESPACES | CLONE_NEWNET;
        build_steps(plan, spec, python, content);
        add_rules(plan);
    }
    return r;
}

int plan_build(const struct box_spec *spec, const struct python *python,
               const struct plan_content *content, struct plan *plan, struct fail *ret_fail)
{
    *plan = (struct plan){.profile = surrounding_expect(spec->isolation),
                          .egress = spec->egress != NULL,
                          .allow_write = spec->allow_write};
    int r = plan->profile == BOX_CONTAINER
                ? plan_build_container(plan, spec, python, content, ret_fail)
                : build_full(plan, spec, python, content, ret_fail);
    if (r == 0) {
        plan_set_environment(plan, spec, python, content);
        plan_set_arguments(plan, spec, python, content);
        r = plan_judge(plan, ret_fail);
    }
    if (r < 0) {
        plan_done(plan);
    }
    return r;
}

void plan_use_binds(struct plan *plan)
{
    /* 0, which is a kind that has no other form: as it is. */
    static const enum plan_kind instead[PLAN_KIND_COUNT] = {
        [PLAN_OPEN_TREE] = PLAN_HOLD,
        [PLAN_MOVE] = PLAN_BIND,
        [PLAN_SUBTREE] = PLAN_BIND_FOLDER,
        [PLAN_READ_ONLY_ROOT] = PLAN_BIND_READ_ONLY_ROOT,
    };
    for (unsigned i = 0; i < plan->step_count; i++) {
        struct plan_step *step = &plan->steps[i];
        if (instead[step->kind]) {
            step->kind = instead[step->kind];
        } else if (step->kind == PLAN_TAKE_TREE && step->optional) {
            step->kind = PLAN_HOLD; /* without those calls no ids are mapped */
        }
    }
}

void plan_done(struct plan *plan)
{
    for (unsigned i = 0; i < plan->string_count; i++) {
        free(plan->strings[i]);
    }
    free(plan->strings);
    *plan = (struct plan){};
}
