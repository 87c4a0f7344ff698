#pragma once
#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/fail.h"
#include "sandbox/confine/landlock.h"
#include "sandbox/sandbox.h"

/* The way from a fork of the server to pid 1 of a box, as data. plan_build() is pure but for what
 * it is given; child.c carries the steps out in the order in which they stand here, one call each,
 * and stops at the first that does not work. */

enum plan_kind {
    PLAN_CGROUP_NAMESPACE, /* waits until the group is joined; it becomes the root that is seen */
    PLAN_OPEN_TREE,        /* source → slot, while the host's view and ids still reach it */
    PLAN_HOLD,      /* the same by a path, where trees cannot be opened: see plan_use_binds() */
    PLAN_TAKE_TREE, /* slot: opened by the server, because the ids of its owner are mapped */
    PLAN_IDENTITY,  /* uid and gid as mapped, capabilities kept for the steps that follow */
    PLAN_SESSION,   /* setsid, umask, an empty keyring */
    PLAN_HOSTNAME,  /* source: the name */
    PLAN_LOOPBACK,
    PLAN_PRIVATE, /* no mount travels back to the host */
    PLAN_ROOT,    /* tmpfs that becomes /: data */
    PLAN_FOLDER,  /* target, mode */
    PLAN_FILE,    /* target, content */
    PLAN_LINK,    /* target → source */
    PLAN_TMPFS,   /* target, data */
    PLAN_MOVE,    /* slot → target, with attributes */
    PLAN_BIND,    /* the same by bind mounts */
    PLAN_SUBTREE, /* folder source of the new root, moved to target */
    PLAN_BIND_FOLDER,
    PLAN_PROTECT, /* in target: names and hard links that code is not to write to */
    PLAN_PROC,    /* target, data */
    PLAN_UNMOUNT, /* target; source: a directory of it that init opens files in from then on */
    PLAN_READ_ONLY_ROOT,
    PLAN_BIND_READ_ONLY_ROOT,
    PLAN_PIVOT,         /* the new root takes over, the host's goes */
    PLAN_NO_NAMESPACES, /* user.max_*_namespaces = 0: none can be made below this one */
    PLAN_DESCRIPTORS,   /* only what pid 1 needs stays open */
    PLAN_CAPABILITIES,  /* all sets emptied and locked */
    PLAN_DEATH_SIGNAL,  /* SIGKILL when the server ends */
    PLAN_SECCOMP,       /* pid 1's filter */
    PLAN_WAIT,          /* until the group is joined */
    PLAN_SUBREAPER,     /* orphans of its descendants become its children */
    PLAN_STEP_DOWN,     /* uid, gid, guard; no capabilities from then on */
    PLAN_ENTER,         /* target: the working directory */
    PLAN_EXECUTE,       /* the program, which is pid 1's; source: as what, or NULL */
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
    bool
        optional; /* a source that is not there is passed over, a call that a container refuses too;
                      one whose ids cannot be mapped is taken as it is */
    bool data_folder; /* the user's: passed over where it cannot be opened or a link leads there */
    uid_t uid;        /* PLAN_TAKE_TREE: whose files are to be the guest's; PLAN_STEP_DOWN: whose */
    gid_t gid;        /* rights the process has from then on */
    uid_t guard;      /* PLAN_STEP_DOWN: the real and saved one */
};

enum { PLAN_STEPS = 384, PLAN_TREES = 96, PLAN_RULES = 96 };

struct plan_filter {
    struct sock_filter *program; /* heap; a plan's are the process's, which compiles each once */
    unsigned count;
    uint32_t arch; /* whose calls it judges: AUDIT_ARCH_* of linux/audit.h; 0: this machine's */
};

struct plan {
    enum box_profile profile; /* what it leads to; /proc is found out by trying */
    struct plan_step steps[PLAN_STEPS];
    unsigned step_count;
    unsigned tree_count;
    char **strings; /* what the steps point to */
    unsigned string_count;
    struct landlock_rule rules[PLAN_RULES]; /* the guest's; paths belong to the plan */
    unsigned rule_count;
    unsigned long namespaces; /* flags of clone(2) */
    bool egress;              /* there is a way out */
    bool own_uid; /* outside_uid is nobody else's, so that the kernel counts its processes */
    struct plan_filter filter_init;      /* names that pid 1 needs and the guest */
    struct plan_filter filter_notified;  /* the guest's: what pid 1 is asked about; or none */
    struct plan_filter filter_arguments; /* the guest's: arguments */
    struct plan_filter filter_names;     /* the guest's: names */
    uid_t outside_uid;
    gid_t outside_gid;
    const char *data[BOX_MOUNTS]; /* /data/NAME; strings of the plan */
    unsigned data_count;
    uint32_t data_writable; /* bits 1 << i */
    uint64_t allow_write;   /* of protected names */
    bool workspace_shared;  /* another sandbox is at work in it */
    bool workspace_idmap;   /* root's own folder: its files change hands by a mapping */
    const char *argv[8];    /* of the zygote, NULL-terminated; strings of the plan */
    const char *envp[40];
};

enum { PLAN_INSIDE_ID = 1000 };

/* What one kind of box shows and runs beyond what all do. */
struct plan_mount {
    const char *source; /* of the host: an absolute path */
    const char *target;
    bool writable;
};
enum { PLAN_MOUNTS = 8, PLAN_ARGUMENTS = 3 };
struct plan_content {
    const struct embedded *files;          /* for the view's run, closed by a row without name */
    const char *main;                      /* the one that the interpreter runs, */
    const char *arguments[PLAN_ARGUMENTS]; /* with these, NULL behind the last */
    char words[64];                        /* room for one of them */
    struct plan_mount mounts[PLAN_MOUNTS];
    unsigned mount_count;
    const struct box_mount *data; /* shown below /data */
    unsigned data_count;
    bool errand; /* runs with the ids of plan_errand_ids(), and isolated from what it works on */
};

/* Enters a mount; what is beyond PLAN_MOUNTS is a mistake of ours. */
void plan_show(struct plan_content *content, const char *source, const char *target, bool writable);

/* Whose ids errands have outside, in all servers of a user: they have files in common. */
void plan_errand_ids(const struct box_spec *spec, uid_t *ret_uid, gid_t *ret_gid);

struct ids;
struct python;

/* Builds the steps for spec on this host. python: what the interpreter needs; borrowed like all that
 * content points to, until plan_done(). */
[[nodiscard]] int plan_build(const struct box_spec *spec, const struct python *python,
                             const struct plan_content *content, struct plan *plan,
                             struct fail *ret_fail);
/* The programs, which a box needs besides the steps: pid 1's when its child is cloned, the guest's when
 * pid 1 is told its settings. Making all of them takes some milliseconds. */
[[nodiscard]] int plan_build_init_filter(struct plan *plan, struct fail *ret_fail);
[[nodiscard]] int plan_build_guest_filters(struct plan *plan, struct fail *ret_fail);

/* A box's way as far as it tells whether there can be one, without a program at its end. */
void plan_build_rehearsal(struct plan *plan);

/* The way to the egress broker: no files, no privileges, but the host's network. ids: of a box without
 * namespaces; NULL: the broker is in namespaces as its box is. */
void plan_build_egress(struct plan *plan, const struct ids *ids);

/* Turns the plan into one for a kernel without open_tree(2) and mount_setattr(2), see binds.h. */
void plan_use_binds(struct plan *plan);

void plan_done(struct plan *plan);

/* "move tree of /usr to /usr read-only nosuid nodev" */
int plan_print(const struct plan *plan, struct buf *out);
const char *plan_kind_name(enum plan_kind kind);
