#include <linux/mount.h>

#include "base/buf.h"
#include "sandbox/plan/plan.h"

static const char *const kind_names[PLAN_KIND_COUNT] = {
    [PLAN_CGROUP_NAMESPACE] = "unshare cgroup namespace",
    [PLAN_OPEN_TREE] = "open tree",
    [PLAN_TAKE_TREE] = "take tree with mapped ids",
    [PLAN_IDENTITY] = "set ids",
    [PLAN_SESSION] = "new session",
    [PLAN_HOSTNAME] = "set hostname",
    [PLAN_LOOPBACK] = "bring up loopback",
    [PLAN_PRIVATE] = "make mounts private",
    [PLAN_DISK] = "new disk on tmpfs",
    [PLAN_ROOT] = "new root on tmpfs",
    [PLAN_DIRECTORY] = "make directory",
    [PLAN_FILE] = "write file",
    [PLAN_COVER] = "mount over file",
    [PLAN_LINK] = "link",
    [PLAN_MOVE] = "mount tree",
    [PLAN_SUBTREE] = "mount directory",
    [PLAN_OVERLAY] = "mount overlay",
    [PLAN_HIDE] = "hide",
    [PLAN_PROTECT] = "protect settings and hard links in",
    [PLAN_PROC] = "mount proc with covers",
    [PLAN_PROCESSORS] = "show processors",
    [PLAN_MAKE_TERMINALS] = "make devpts beside the next steps",
    [PLAN_TERMINALS] = "mount devpts",
    [PLAN_KEEP] = "keep for init",
    [PLAN_READ_ONLY_ROOT] = "make root read-only",
    [PLAN_PIVOT] = "pivot to the new root",
    [PLAN_NO_NAMESPACES] = "forbid further namespaces",
    [PLAN_DESCRIPTORS] = "close descriptors",
    [PLAN_CAPABILITIES] = "drop capabilities",
    [PLAN_DEATH_SIGNAL] = "die with the server",
    [PLAN_SECCOMP] = "seccomp filter of init",
    [PLAN_GROUP] = "move to the control group",
    [PLAN_SUBREAPER] = "become subreaper",
    [PLAN_STEP_DOWN] = "drop privileges",
    [PLAN_ENTER] = "enter",
    [PLAN_EXECUTE] = "execute init",
};

const char *plan_kind_name(enum plan_kind kind)
{
    return kind < PLAN_KIND_COUNT ? kind_names[kind] : "?";
}

static void print_attributes(const struct plan_step *step, struct buf *out)
{
    static const struct {
        uint64_t flag;
        const char *name;
    } attributes[] = {
        {MOUNT_ATTR_RDONLY, " read-only"},
        {MOUNT_ATTR_NOSUID, " nosuid"},
        {MOUNT_ATTR_NODEV, " nodev"},
        {MOUNT_ATTR_NOEXEC, " noexec"},
    };
    for (unsigned i = 0; i < sizeof attributes / sizeof *attributes; i++) {
        if (step->attributes & attributes[i].flag) {
            buf_append_text(out, attributes[i].name);
        }
    }
}

int plan_print(const struct plan *plan, struct buf *out)
{
    for (unsigned i = 0; i < plan->step_count; i++) {
        const struct plan_step *step = &plan->steps[i];
        buf_appendf(out, "%3u  %s", i + 1, plan_kind_name(step->kind));
        if (step->source) {
            buf_appendf(out, " %s", step->source);
        }
        if (step->target) {
            buf_appendf(out, "%s%s", step->source ? " at " : " ", step->target);
        }
        if (step->data) {
            buf_appendf(out, " (%s)", step->data);
        }
        print_attributes(step, out);
        if (step->kind == PLAN_IDENTITY) {
            buf_appendf(out, " %d inside, %u:%u outside", PLAN_INSIDE_ID, plan->outside_uid,
                        plan->outside_gid);
        }
        if (step->kind == PLAN_STEP_DOWN) {
            buf_appendf(out, " to %u:%u", step->uid, step->gid);
        }
        if (step->optional || step->data_directory) {
            bool call = step->kind == PLAN_HOSTNAME || step->kind == PLAN_PROC ||
                        step->kind == PLAN_TERMINALS || step->kind == PLAN_NO_NAMESPACES;
            buf_append_text(out, call ? " [if allowed]" : " [if present]");
        }
        buf_append_text(out, "\n");
    }
    return buf_error(out);
}
