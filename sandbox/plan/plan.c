#include "sandbox/plan/plan.h"

#include <assert.h>
#include <errno.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox/host/host_facts.h"
#include "sandbox/host/python.h"
#include "sandbox/protocol/selftest_record.h"
#include "sandbox/types.h"
#include "sandbox/workspace/store.h"

#define READ_ONLY (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
#define WRITABLE (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
#define DATA (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)
/* Read-only for the mode, owner and times of the node, which are the machine's; not for what is
 * written to the device. */
#define DEVICE (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC)

static const char passwd[] =
    "root:x:0:0:root:/:/bin/false\n"
    "user:x:1000:1000:user:/tmp/home:/bin/sh\n"
    "nobody:x:65534:65534:nobody:/:/bin/false\n";
static const char group[] = "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n";
static const char hosts[] = "127.0.0.1 localhost sandbox\n::1 localhost\n";
static const char nsswitch[] = "passwd: files\ngroup: files\nhosts: files\n";

/* The files of /etc, and some of /var, that name nobody and unlock nothing. Of a directory in which
 * an administrator may keep tokens, passwords or names of hosts, only the files that programs need:
 * not R's Renviron.site and Rprofile.site, maven's settings.xml, chromium's apikeys, openmpi's
 * default-hostfile, perl's CPAN. Nothing for all shells and desktops (bash.bashrc, xdg): it may
 * have a proxy's password. Docs: THREATS.md, not promised. */
const char *const plan_etc_shared[] = {
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/fonts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/magic",
    "/etc/matplotlibrc",
    "/etc/mime.types",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust",
    "/etc/protocols",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/timezone",
    "/etc/ImageMagick-6",
    "/etc/ImageMagick-7",
    "/etc/OpenCL",
    "/etc/R/Makeconf",
    "/etc/R/Renviron",
    "/etc/R/ldpaths",
    "/etc/R/repositories",
    "/etc/X11/app-defaults",
    "/etc/X11/rgb.txt",
    "/etc/chromium.d/README",
    "/etc/chromium.d/default-flags",
    "/etc/chromium.d/dev-shm",
    "/etc/chromium.d/extensions",
    "/etc/debian_version",
    "/etc/dictionaries-common",
    "/etc/gai.conf",
    "/etc/ghostscript",
    "/etc/glvnd",
    "/etc/groff",
    "/etc/host.conf",
    "/etc/inputrc",
    "/etc/java-8-openjdk",
    "/etc/java-11-openjdk",
    "/etc/java-17-openjdk",
    "/etc/java-21-openjdk",
    "/etc/java-25-openjdk",
    "/etc/libreoffice",
    "/etc/locale.alias",
    "/etc/manpath.config",
    "/etc/maven/logging",
    "/etc/maven/m2.conf",
    "/etc/octaverc",
    "/etc/odbcinst.ini",
    "/etc/openmpi/openmpi-mca-params.conf",
    "/etc/os-release",
    "/etc/papersize",
    "/etc/perl/Net",
    "/etc/perl/XML",
    "/etc/rpc",
    "/etc/sgml",
    "/etc/shells",
    "/etc/terminfo",
    "/etc/texmf",
    "/etc/vim/vimrc",
    "/etc/vulkan",
    "/etc/xml",
    "/var/cache/fontconfig",
    "/var/lib/texmf",
    NULL,
};
static const char *const devices[] = SELFTEST_DEVICES;

/* An overlay's layers, while the root is built. mountinfo shows these names to code, not the host's
 * (step PLAN_OVERLAY). */
#define LAYERS "/run/cow"
#define LOWER LAYERS "/lower"
#define CHANGES LAYERS "/changes"

/* The trees that the sandbox shows, in two passes: opened while the host's paths and ids are
 * accessible, and moved to their place in the new root. */
struct tree {
    const char *source;
    const char *target;
    uint64_t attributes;
    bool optional;
    const struct box_mount *data; /* or NULL */
    bool is_layer;                /* of an overlay */
};

struct trees {
    struct tree entries[PLAN_TREES];
    unsigned count;
};

static void show(struct trees *trees, const char *source, const char *target, uint64_t attributes,
                 bool optional)
{
    if (trees->count < PLAN_TREES) {
        trees->entries[trees->count++] = (struct tree){
            .source = source, .target = target, .attributes = attributes, .optional = optional};
    }
}

static void show_system(struct plan *plan, struct trees *trees, const struct host_facts *facts)
{
    show(trees, "/usr", "/usr", READ_ONLY, false);
    for (unsigned i = 0; host_system_directories[i]; i++) {
        const char *path = host_system_directories[i];
        const char *target = facts->system[i].target;
        if (target[0]) {
            plan_add(plan, PLAN_LINK, plan_keep(plan, "%s", target), path);
        } else if (facts->system[i].exists) {
            show(trees, path, path, READ_ONLY, true);
        }
    }
    if (facts->has_nix_store) {
        show(trees, "/nix/store", "/nix/store", READ_ONLY, true);
    }
    for (unsigned i = 0; plan_etc_shared[i]; i++) {
        show(trees, plan_etc_shared[i], plan_etc_shared[i], READ_ONLY | MOUNT_ATTR_NOEXEC, true);
    }
    for (unsigned i = 0; i < sizeof devices / sizeof *devices; i++) {
        show(trees, devices[i], devices[i], DEVICE, false);
    }
}

static void show_python(struct plan *plan, struct trees *trees, const struct python *python,
                        const struct host_facts *facts)
{
    for (unsigned i = 0; i < python->directory_count; i++) {
        const char *directory = plan_keep(plan, "%s", python->directories[i]);
        show(trees, directory, directory, READ_ONLY, false);
    }
    /* Debian keeps parts of an interpreter in /etc/pythonX.Y. */
    for (unsigned minor = 0; minor < 32; minor++) {
        if (facts->etc_python & 1U << minor) {
            const char *directory = plan_keep(plan, "/etc/python3.%u", minor);
            show(trees, directory, directory, READ_ONLY, true);
        }
    }
}

static void add_fresh_files(struct plan *plan, const struct box_spec *spec,
                            const struct plan_content *content)
{
    plan_add(plan, PLAN_DIRECTORY, NULL, "/etc");
    (void)plan_add_file(plan, "/etc/passwd", passwd, sizeof passwd - 1);
    (void)plan_add_file(plan, "/etc/group", group, sizeof group - 1);
    (void)plan_add_file(plan, "/etc/hosts", hosts, sizeof hosts - 1);
    (void)plan_add_file(plan, "/etc/nsswitch.conf", nsswitch, sizeof nsswitch - 1);
    (void)plan_add_file(plan, "/etc/resolv.conf", "", 0);
    plan_add(plan, PLAN_DIRECTORY, NULL, "/run");
    plan_add(plan, PLAN_DIRECTORY, NULL, "/run/sandpiper");
    for (const struct embedded *file = content->files; file && file->name; file++) {
        plan_add_file(plan, plan_keep(plan, "/run/sandpiper/%s", file->name), file->data,
                      file->size)
            ->mode = embedded_mode(file);
    }
    if (spec->bundle) {
        plan_add_file(plan, "/run/sandpiper/" BOX_BUNDLE, spec->bundle->data, spec->bundle->size)
            ->mode = 0444;
    }
}

/* Makes read-only what the server trusts in the workspace. The directories on the way become mounts
 * too, so that code cannot rename one of them, rename(2). */
static void fix_in_workspace(struct plan *plan, const char *inside)
{
    size_t size = 0;
    do {
        size += strspn(inside + size, "/");
        size += strcspn(inside + size, "/");
        const char *path = plan_keep(plan, "/work/%.*s", (int)size, inside);
        plan_add(plan, PLAN_SUBTREE, NULL, path)->attributes = inside[size] ? WRITABLE : READ_ONLY;
    } while (inside[size]);
}

static void add_mounts(struct plan *plan, const struct box_spec *spec, const struct python *python,
                       const struct trees *trees)
{
    if (!spec->workspace) {
        plan_add(plan, PLAN_SUBTREE, "work", "/work")->attributes = WRITABLE;
    } else if (plan->cow == WIRE_COW_MEMORY) {
        plan_add(plan, PLAN_SUBTREE, "changes", CHANGES)->attributes = WRITABLE;
    }
    plan_add(plan, PLAN_SUBTREE, "tmp", "/tmp")->attributes = WRITABLE;
    plan_add(plan, PLAN_SUBTREE, "shm", "/dev/shm")->attributes = DATA;
    plan_add(plan, PLAN_SUBTREE, "output", box_paths_full.output)->attributes =
        DATA | MOUNT_ATTR_RDONLY; /* except for init, which holds the writable mount */
    plan_add(plan, PLAN_KEEP, "output", NULL);
    /* After the writable ones: an interpreter may lie below /tmp. */
    for (unsigned i = 0; i < trees->count; i++) {
        const struct tree *tree = &trees->entries[i];
        struct plan_step *step = plan_add(plan, PLAN_MOVE, tree->source, tree->target);
        step->slot = i;
        step->attributes = tree->attributes;
        step->optional = tree->optional;
        if (strcmp(tree->target, LOWER) == 0) {
            plan_add(plan, PLAN_OVERLAY, LAYERS, "/work");
            plan_add(plan, PLAN_HIDE, NULL, LOWER);
            plan_add(plan, PLAN_HIDE, NULL, CHANGES);
        }
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
    plan_add(plan, PLAN_DIRECTORY, NULL, "/tmp/home");
    /* Without hidepid: it hides processes that are not dumpable from init too, and any process can
     * make itself so; init must find all of them to kill them. */
    plan_add(plan, PLAN_SUBTREE, "machine", "/proc")->attributes = DATA | MOUNT_ATTR_RDONLY;
    /* Only this level continues without /proc when the kernel refuses it. */
    plan_add(plan, PLAN_PROC, NULL, "/proc")->optional = spec->isolation == BOX_ISOLATION_AUTO;
    plan_add(plan, PLAN_LINK, "/proc/self/fd", "/dev/fd");
    plan_add(plan, PLAN_LINK, "/proc/self/fd/0", "/dev/stdin");
    plan_add(plan, PLAN_LINK, "/proc/self/fd/1", "/dev/stdout");
    plan_add(plan, PLAN_LINK, "/proc/self/fd/2", "/dev/stderr");
    plan_add(plan, PLAN_DIRECTORY, NULL, "/var");
    plan_add(plan, PLAN_LINK, "/tmp", "/var/tmp");
}

void plan_installer_ids(const struct host_facts *facts, uid_t *ret_uid, gid_t *ret_gid)
{
    *ret_uid = facts->gives_ids ? HOST_ID_INSTALLER : facts->uid;
    *ret_gid = facts->gives_ids ? HOST_ID_INSTALLER : facts->gid;
}

void plan_choose_ids(struct plan *plan, const struct host_facts *facts, bool installer)
{
    plan_installer_ids(facts, &plan->outside_uid, &plan->outside_gid);
    if (!installer && facts->gives_ids) {
        plan->outside_uid = HOST_ID_FIRST + (uid_t)facts->pid % HOST_IDS;
        plan->outside_gid = plan->outside_uid;
    }
}

/* Which ids the sandbox's one user has outside, and whether the workspace needs them mapped. */
static void choose_identity(struct plan *plan, const struct box_spec *spec,
                            const struct host_facts *facts, const struct plan_content *content)
{
    plan_choose_ids(plan, facts, content->installer);
    if (plan->outside_uid == facts->uid || !spec->workspace) {
        return;
    }
    if (facts->workspace_uid == 0) {
        plan->workspace_idmap = true;
        return;
    }
    plan->outside_uid = facts->workspace_uid;
    plan->outside_gid = facts->workspace_gid ? facts->workspace_gid : facts->workspace_uid;
}

void plan_show(struct plan_content *content, const char *source, const char *target, bool writable)
{
    assert(content->mount_count < PLAN_MOUNTS);
    content->mounts[content->mount_count++] = (struct plan_mount){source, target, writable};
}

/* The lower layer last: the overlay follows it. */
static void show_workspace(const struct plan *plan, struct trees *trees,
                           const struct box_spec *spec)
{
    if (!plan->cow) {
        show(trees, spec->workspace, "/work", WRITABLE, false);
        return;
    }
    if (plan->cow == WIRE_COW_STORE) {
        show(trees, spec->store->layers, CHANGES, WRITABLE, false);
        trees->entries[trees->count - 1].is_layer = true;
    }
    show(trees, spec->workspace, LOWER, READ_ONLY, false);
    trees->entries[trees->count - 1].is_layer = true;
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

/* The server opens a layer where it can, because only the host's mount namespace lets a clone leave
 * out what is mounted below, has_locked_children() in fs/namespace.c. */
static void open_layer(const struct plan *plan, const struct tree *tree,
                       const struct host_facts *facts, struct plan_step *step)
{
    bool is_store = strcmp(tree->target, CHANGES) == 0;
    bool own = is_store ? plan->outside_uid == facts->uid : !plan->workspace_idmap;
    step->is_layer = true;
    step->kind = own && !facts->leaves_out_mounts ? PLAN_OPEN_TREE : PLAN_TAKE_TREE;
    step->optional = own;
    step->data = is_store ? "store" : "workspace";
    step->uid = is_store ? facts->uid : 0;
    step->gid = is_store ? facts->gid : 0;
}

/* Opens the trees while the host's paths and ids are accessible. A mapping gives code what does not
 * belong to the one uid that it has under root. */
static void open_trees(struct plan *plan, const struct trees *trees, const struct host_facts *facts)
{
    for (unsigned i = 0; i < trees->count; i++) {
        const struct tree *tree = &trees->entries[i];
        struct plan_step *step = plan_add(plan, PLAN_OPEN_TREE, tree->source, NULL);
        step->slot = i;
        step->optional = tree->optional;
        if (tree->data) {
            bool own = plan->outside_uid == facts->uid || plan->outside_uid == tree->data->uid;
            step->kind = own ? PLAN_OPEN_TREE : PLAN_TAKE_TREE;
            step->data_directory = true;
            step->optional = !tree->data->writable;
            step->uid = tree->data->uid;
            step->gid = tree->data->gid;
        } else if (tree->is_layer) {
            open_layer(plan, tree, facts, step);
        } else if (plan->workspace_idmap && strcmp(tree->target, "/work") == 0) {
            step->kind = PLAN_TAKE_TREE;
        }
    }
}

/* Restricts files a second time, in case a mount is wrong. Everything without a rule is read-only,
 * also /proc: /proc/PID/mem leads into the zygote and other sessions, and the filters, which see no
 * names, cannot stop it. No rule allows RESOLVE_UNIX: sockets made within the domain do not need
 * it, and the host's sockets in a shown directory are unreachable. */
static void add_rules(struct plan *plan)
{
    static const struct landlock_rule rules[] = {
        {"/", LANDLOCK_RULE_READ},
        {"/work", LANDLOCK_RULE_WRITE},
        {"/tmp", LANDLOCK_RULE_WRITE},
        {"/dev/shm", LANDLOCK_RULE_WRITE},
        {"/stage", LANDLOCK_RULE_WRITE}, /* for installers */
        {"/cache", LANDLOCK_RULE_WRITE}, /* for installers */
        {"/dev/null", LANDLOCK_FS_WRITE_FILE},
        {"/dev/zero", LANDLOCK_FS_WRITE_FILE},
        {"/dev/full", LANDLOCK_FS_WRITE_FILE},
        {"/dev/pts", LANDLOCK_FS_WRITE_FILE | LANDLOCK_FS_IOCTL_DEV},
    };
    for (unsigned i = 0; i < sizeof rules / sizeof *rules; i++) {
        plan_allow(plan, rules[i].path, rules[i].allowed);
    }
}

static void build_steps(struct plan *plan, const struct box_spec *spec,
                        const struct host_facts *facts, const struct plan_content *content)
{
    struct trees trees = {};
    /* Collects symlinks that stand for system directories here; makes them below. */
    show_system(plan, &trees, facts);
    unsigned links = plan->step_count;
    show_python(plan, &trees, content->python, facts);
    if (spec->workspace) {
        show_workspace(plan, &trees, spec);
    }
    show_content(&trees, content);
    show_data(plan, &trees, content);
    struct plan_step system_links[HOST_DIRECTORIES];
    memcpy(system_links, plan->steps, links * sizeof *system_links);
    plan->step_count = 0;
    plan->tree_count = trees.count;

    open_trees(plan, &trees, facts);
    plan_add(plan, PLAN_IDENTITY, NULL, NULL);
    plan_add(plan, PLAN_SESSION, NULL, NULL);
    /* The own hostname is optional: Docker's and Podman's filters refuse the call even where they
     * allow everything necessary. */
    plan_add(plan, PLAN_HOSTNAME, BOX_HOSTNAME, NULL)->optional = true;
    plan_add(plan, PLAN_LOOPBACK, NULL, NULL);
    plan_add(plan, PLAN_PRIVATE, NULL, NULL);
    if (!content->installer) {
        plan_add(plan, PLAN_MAKE_TERMINALS, NULL, NULL);
    }
    /* One tmpfs holds everything that the guest can write, so that one size limits it. */
    plan_add(plan, PLAN_DISK, NULL, NULL)->data = plan_keep(
        plan, "size=%llu,nr_inodes=%llu,mode=0755", (unsigned long long)box_spec_disk_bytes(spec),
        (unsigned long long)spec->limits.disk_inodes);
    plan_add(plan, PLAN_ROOT, NULL, NULL)->data = "size=16m,nr_inodes=2048,mode=0755";
    for (unsigned i = 0; i < links; i++) {
        plan_add(plan, PLAN_LINK, system_links[i].source, system_links[i].target);
    }
    add_fresh_files(plan, spec, content);
    add_mounts(plan, spec, content->python, &trees);
    if (spec->bundle && spec->certificates) { /* for programs that read this file by its name */
        struct plan_step *step =
            plan_add(plan, PLAN_COVER, "/run/sandpiper/" BOX_BUNDLE, spec->certificates);
        step->attributes = READ_ONLY;
        step->optional = true;
    }
    plan_add_machine(plan, spec, facts);
    if (!content->installer) {
        plan_add(plan, PLAN_DIRECTORY, NULL, "/dev/pts");
        plan_add(plan, PLAN_LINK, "pts/ptmx", "/dev/ptmx");
    }
    plan_add(plan, PLAN_READ_ONLY_ROOT, NULL, NULL);
    plan_add(plan, PLAN_PIVOT, NULL, NULL);
    plan_add(plan, PLAN_GROUP, NULL, NULL);
    plan_add(plan, PLAN_CGROUP_NAMESPACE, NULL, NULL);
    if (!content->installer) { /* late: the process that makes them takes its time to end */
        plan_add(plan, PLAN_TERMINALS, NULL, "/dev/pts")->optional = true;
    }
    plan_add_locks(plan, /* trusted= */ false);
    plan_add(plan, PLAN_SECCOMP, NULL, NULL);
    plan_add(plan, PLAN_EXECUTE, NULL, NULL);
}

int plan_add_full(struct plan *plan, const struct box_spec *spec, const struct host_facts *facts,
                  const struct plan_content *content, struct fail *)
{
    choose_identity(plan, spec, facts, content);
    plan->namespaces = PLAN_NAMESPACES | CLONE_NEWNET;
    build_steps(plan, spec, facts, content);
    add_rules(plan);
    return 0;
}

int plan_build(plan_add_fn add, const struct box_spec *spec, const struct host_facts *facts,
               const struct plan_content *content, struct plan *plan, struct fail *ret_fail)
{
    *plan = (struct plan){.level = level_expected(spec->isolation),
                          .landlock_abi = facts->landlock_abi,
                          .egress = spec->egress != NULL,
                          .asks_of_writes = !facts->writes_unseen && !content->installer &&
                                            !(spec->workspace && spec->cow),
                          .cow = !spec->cow || !spec->workspace ? WIRE_COW_NONE
                                 : spec->store                  ? WIRE_COW_STORE
                                                                : WIRE_COW_MEMORY,
                          .allow_write = spec->allow_write};
    int r = 0;
    if (facts->workspace_error) {
        r = fail_set(ret_fail, facts->workspace_error,
                     facts->workspace_error == ENOTDIR
                         ? "the workspace %s"
                         : "the workspace %s; name an existing directory",
                     spec->workspace);
    }
    r = r ? r : add(plan, spec, facts, content, ret_fail);
    if (r == 0) {
        plan_set_environment(plan, spec, content);
        plan_set_arguments(plan, spec, content);
        r = plan_check(plan, ret_fail);
    }
    if (r < 0) {
        plan_done(plan);
    }
    return r;
}

void plan_done(struct plan *plan)
{
    for (unsigned i = 0; i < plan->string_count; i++) {
        free(plan->strings[i]);
    }
    free(plan->strings);
    *plan = (struct plan){};
}
