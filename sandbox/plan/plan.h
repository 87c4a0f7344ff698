#pragma once
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/fail.h"
#include "sandbox/policy/filter.h"
#include "sandbox/policy/landlock.h"
#include "sandbox/protocol/init_protocol.h"
#include "sandbox/types.h"

struct buf;
struct host_facts;
struct python;

/* The steps from a fork of the server to a sandbox's init, as data. plan_build() is pure; child.c
 * executes the steps in this order, one call each, and stops at the first failure. */

enum plan_kind {
    PLAN_CGROUP_NAMESPACE, /* the cgroup becomes the visible root */
    PLAN_OPEN_TREE,        /* source → slot, while the host's paths and ids are accessible */
    PLAN_TAKE_TREE,        /* slot: the server opens it, and maps the ids of its owner */
    PLAN_IDENTITY,         /* mapped uid and gid; keeps capabilities for the following steps */
    PLAN_SESSION,          /* setsid, umask, an empty keyring */
    PLAN_HOSTNAME,         /* source: the name */
    PLAN_LOOPBACK,
    PLAN_PRIVATE,   /* no mount propagates to the host */
    PLAN_DISK,      /* tmpfs that is below the new root: data */
    PLAN_ROOT,      /* tmpfs that becomes /: data */
    PLAN_DIRECTORY, /* target, mode */
    PLAN_FILE,      /* target, content */
    PLAN_COVER,     /* target, source: a file of the new root that is mounted over another one */
    PLAN_LINK,      /* target → source */
    PLAN_MOVE,      /* slot → target, with attributes */
    PLAN_SUBTREE,   /* directory source of the disk, or NULL: target itself; mounted at target */
    PLAN_OVERLAY,   /* target: layers "lower" and "changes/upper" of directory source */
    PLAN_HIDE,      /* target: unmounted; what is mounted from it stays */
    PLAN_PROTECT,   /* in target: names and hard links that code may not write to */
    PLAN_PROC,      /* target; what tells of the host is covered with what is mounted there */
    PLAN_MAKE_TERMINALS, /* devpts(4) of its own, made beside the following steps */
    PLAN_PROCESSORS,     /* target: the host's directories of those that the sandbox uses */
    PLAN_TERMINALS,      /* target: where it is mounted */
    PLAN_KEEP,           /* source: the directory of the disk in which init opens files */
    PLAN_READ_ONLY_ROOT,
    PLAN_PIVOT,         /* switches to the new root; the host's is unmounted */
    PLAN_NO_NAMESPACES, /* user.max_*_namespaces = 0: none can be made below this one */
    PLAN_DESCRIPTORS,   /* closes everything except what init needs */
    PLAN_CAPABILITIES,  /* empties and locks all sets */
    PLAN_DEATH_SIGNAL,  /* SIGKILL when the server exits */
    PLAN_SECCOMP,       /* init's filter */
    PLAN_GROUP,         /* waits until the server lets it continue, and is in its cgroup then */
    PLAN_SUBREAPER,     /* orphans of its descendants become its children */
    PLAN_STEP_DOWN,     /* uid, gid, supervisor; no capabilities after this */
    PLAN_ENTER,         /* target: the working directory */
    PLAN_EXECUTE,       /* the program that becomes pid 1; source: its name, or NULL */
    PLAN_KIND_COUNT,
};

struct plan_step {
    const char *source; /* all strings belong to the plan */
    const char *target;
    const char *data;
    const unsigned char *content;
    size_t content_size;
    uint64_t attributes; /* MOUNT_ATTR_*, mount_setattr(2) */
    enum plan_kind kind;
    unsigned mode;
    unsigned slot; /* of a tree */
    /* Skips a missing source, and a call that a container refuses; takes a tree unmapped if its ids
     * cannot be mapped. */
    bool optional;
    /* The user's: skipped where it cannot be opened or its path leads through a symlink. */
    bool data_directory;
    /* Of an overlay: its path may not lead through a symlink, and mounts below it are left out. */
    bool is_layer;
    uid_t uid;        /* PLAN_TAKE_TREE: owner of files that become the guest's; PLAN_STEP_DOWN: */
    gid_t gid;        /* the ids that the process has after it */
    uid_t supervisor; /* PLAN_STEP_DOWN: the real and saved one */
};

enum { PLAN_STEPS = 512, PLAN_TREES = 160, PLAN_RULES = 160 };

struct plan {
    enum box_level level; /* expected; /proc is found out by trying */
    struct plan_step steps[PLAN_STEPS];
    unsigned step_count;
    unsigned tree_count;
    char **strings; /* what the steps point to */
    unsigned string_count;
    struct landlock_rule rules[PLAN_RULES]; /* the guest's; the plan owns the paths */
    unsigned rule_count;
    unsigned long namespaces; /* flags of clone(2) */
    int landlock_abi;
    bool egress;         /* there is an egress proxy */
    bool asks_of_writes; /* init is notified of what is about to change files */
    bool own_uid;        /* nobody else has outside_uid, so the kernel counts only its processes */
    struct filter_program filter_init;      /* names that init and the guest need */
    struct filter_program filter_notified;  /* the guest's: calls that init decides; or none */
    struct filter_program filter_arguments; /* the guest's: arguments */
    struct filter_program filter_names;     /* the guest's: names */
    uid_t outside_uid;
    gid_t outside_gid;
    const char *data[BOX_MOUNTS]; /* /data/NAME; the plan owns the strings */
    unsigned data_count;
    uint32_t data_writable;           /* bits 1 << i */
    uint64_t allow_write;             /* of protected names */
    struct box_processors processors; /* which the sandbox may use at a time */
    enum wire_cow cow;                /* whether the workspace is an overlay */
    bool workspace_shared;            /* another sandbox uses it */
    bool workspace_idmap; /* root's own directory: a mapping gives its files to the guest */
    const char *argv[8];  /* of the zygote, NULL-terminated; the plan owns the strings */
    const char *envp[64];
};

enum { PLAN_INSIDE_ID = 1000 };

/* What one kind of sandbox shows and runs in addition to the common parts. */
struct plan_mount {
    const char *source; /* on the host: an absolute path */
    const char *target;
    bool writable;
};
enum { PLAN_MOUNTS = 8, PLAN_ARGUMENTS = 3 };
struct plan_content {
    const struct python *python;           /* the interpreter that runs */
    const struct embedded *files;          /* files for run; a row without a name ends them */
    const char *main;                      /* the file that the interpreter runs, */
    const char *arguments[PLAN_ARGUMENTS]; /* with these arguments, NULL after the last */
    char words[96];                        /* space for one of them */
    struct plan_mount mounts[PLAN_MOUNTS];
    unsigned mount_count;
    const struct box_mount *data; /* shown below /data */
    unsigned data_count;
    /* Runs with the ids of plan_installer_ids(), and isolated from the packages that it works
     * on. */
    bool installer;
};

/* Adds a mount; more than PLAN_MOUNTS is a programming error. */
void plan_show(struct plan_content *content, const char *source, const char *target, bool writable);

/* Which ids installers have outside: the same in all servers of a user, because they share
 * files. */
void plan_installer_ids(const struct host_facts *facts, uid_t *ret_uid, gid_t *ret_gid);

/* Adds the steps and rules of one isolation level. 0 or -errno with ret_fail */
typedef int (*plan_add_fn)(struct plan *plan, const struct box_spec *spec,
                           const struct host_facts *facts, const struct plan_content *content,
                           struct fail *ret_fail);

/* For a sandbox with namespaces. */
int plan_add_full(struct plan *plan, const struct box_spec *spec, const struct host_facts *facts,
                  const struct plan_content *content, struct fail *ret_fail);

/* Builds the plan for spec on a machine with these facts. What content points to is borrowed until
 * plan_done(). 0 or -errno with ret_fail */
[[nodiscard]] int plan_build(plan_add_fn add, const struct box_spec *spec,
                             const struct host_facts *facts, const struct plan_content *content,
                             struct plan *plan, struct fail *ret_fail);
/* Compile the filters that a sandbox needs besides the steps: init's when its child is cloned, the
 * guest's when init receives its settings. All of them take some milliseconds. */
[[nodiscard]] int plan_build_init_filter(struct plan *plan, struct fail *ret_fail);
/* Compiles the guest's filters for one isolation level. */
typedef int (*plan_compile_fn)(struct plan *plan, struct fail *ret_fail);
int plan_compile_full(struct plan *plan, struct fail *ret_fail);
[[nodiscard]] int plan_build_guest_filters(struct plan *plan, plan_compile_fn compile,
                                           struct fail *ret_fail);

/* The plan of a sandbox as far as it shows whether one can be made, without a program at its
 * end. */
void plan_build_namespace_check(const struct host_facts *facts, struct plan *plan);

/* The egress proxy's plan: no files and no privileges, but the host's network. In namespaces, like
 * its sandbox. */
void plan_build_proxy(const struct host_facts *facts, struct plan *plan);

void plan_done(struct plan *plan);

/* "move tree of /usr to /usr read-only nosuid nodev" */
int plan_print(const struct plan *plan, struct buf *out);
const char *plan_kind_name(enum plan_kind kind);

/* The only place that resolves the requested isolation level and decides which one is effective.
 * Pure. */

/* Resolves BOX_ISOLATION_BEST; returns any other level unchanged. namespaces: the namespace check
 * has found that they can be made, see launch/launch.c. */
enum box_isolation level_choose(enum box_isolation requested, bool namespaces);

/* The level that the plan for this request aims at. The kernel decides about /proc when the sandbox
 * is made: a check beforehand would cost each start time, and only few hosts refuse it. */
enum box_level level_expected(enum box_isolation requested);

/* The effective level. has_proc: the self-test has seen the sandbox's own /proc. */
enum box_level level_found(enum box_level expected, bool has_proc);

/* Parts of plans, shared by the files that build one. */

/* Keeps text as long as the plan lives. Returns NULL without memory, which plan_build() checks at
 * its end. */
__attribute__((format(printf, 2, 3))) const char *plan_keep(struct plan *plan, const char *fmt,
                                                            ...);

/* Appends a step with mode 0755; strings are borrowed while the plan lives. */
struct plan_step *plan_add(struct plan *plan, enum plan_kind kind, const char *source,
                           const char *target);

/* The same for a file that everybody may read. */
struct plan_step *plan_add_file(struct plan *plan, const char *target, const void *content,
                                size_t size);

/* The files of /sys; finds the plan's processors. */
void plan_add_machine(struct plan *plan, const struct box_spec *spec,
                      const struct host_facts *facts);

/* Appends a Landlock rule: allowed, LANDLOCK_FS_*, below path. */
void plan_allow(struct plan *plan, const char *path, uint64_t allowed);

/* The guest's envp and argv. */
void plan_set_environment(struct plan *plan, const struct box_spec *spec,
                          const struct plan_content *content);
void plan_set_arguments(struct plan *plan, const struct box_spec *spec,
                        const struct plan_content *content);

/* Refuses a plan for which there was too little memory. Also refuses a mount on the new root
 * itself, which would be found at "/..", and one whose path leads elsewhere than its text says. 0,
 * -ENOMEM or -EPERM with ret_fail. */
[[nodiscard]] int plan_check(const struct plan *plan, struct fail *ret_fail);

/* Removes the means to make a sandbox once it is made. trusted: runs only our code, and continues
 * where an engine has made /proc/sys read-only. */
void plan_add_locks(struct plan *plan, bool trusted);

/* Which ids the sandbox's one user has outside: an ordinary user's own, for root ids that own
 * nothing. */
void plan_choose_ids(struct plan *plan, const struct host_facts *facts, bool installer);

/* The namespaces of each sandbox, besides the network's. */
#define PLAN_NAMESPACES (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS)

/* NULL ends the list. */
extern const char *const plan_etc_shared[];
