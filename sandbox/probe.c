/* What holds on this host, found out by doing it: one real box is started and ended. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/loop.h"
#include "sandbox/box.h"
#include "sandbox/landlock.h"

enum { PROBE_MS = 20000 };

struct probe {
    bool ready;
    bool dead;
    struct fail why;
};

static void probe_on_state(void *arg, enum box_state state, const struct fail *why)
{
    struct probe *probe = arg;
    if (state == BOX_READY) {
        probe->ready = true;
    } else {
        probe->dead = true;
        if (why) {
            probe->why = *why;
        }
    }
}

__attribute__((format(printf, 3, 4))) static void
set_detail(struct box_layer_report *report, enum box_layer_state state, const char *fmt, ...)
{
    va_list args;
    report->state = state;
    va_start(args, fmt);
    (void)vsnprintf(report->detail, sizeof report->detail, fmt, args);
    va_end(args);
}

static void set_advice(struct box_layer_report *report, const char *consequence, const char *remedy)
{
    (void)snprintf(report->consequence, sizeof report->consequence, "%s", consequence);
    (void)snprintf(report->remedy, sizeof report->remedy, "%s", remedy);
}

/* What is not named here belongs to the mounts. */
static const struct {
    enum plan_kind kind;
    enum box_layer layer;
} step_layers[] = {
    {PLAN_CGROUP_NAMESPACE, BOX_LAYER_NAMESPACES}, {PLAN_HOSTNAME, BOX_LAYER_NAMESPACES},
    {PLAN_LOOPBACK, BOX_LAYER_NAMESPACES},         {PLAN_NO_NAMESPACES, BOX_LAYER_NAMESPACES},
    {PLAN_IDENTITY, BOX_LAYER_PRIVILEGES},         {PLAN_CAPABILITIES, BOX_LAYER_PRIVILEGES},
    {PLAN_DEATH_SIGNAL, BOX_LAYER_PRIVILEGES},     {PLAN_SECCOMP, BOX_LAYER_SECCOMP},
};

/* Which layer the reason that a box gave belongs to, by the step that did not work. */
static enum box_layer layer_of_failure(const struct fail *why, const struct box *box)
{
    if (why->step > 0 && box && why->step <= box->plan.step_count) {
        enum plan_kind kind = box->plan.steps[why->step - 1].kind;
        for (unsigned i = 0; i < sizeof step_layers / sizeof *step_layers; i++) {
            if (step_layers[i].kind == kind) {
                return step_layers[i].layer;
            }
        }
        return BOX_LAYER_MOUNTS;
    }
    if (strstr(why->text, "interpreter") || strstr(why->text, "python")) {
        return BOX_LAYER_PYTHON;
    }
    return BOX_LAYER_NAMESPACES;
}

static void report_controller(struct box_layer_report *report, const struct cgroup *cgroup,
                              enum cgroup_controller controller, const char *otherwise)
{
    if (cgroup_has(cgroup, controller)) {
        set_detail(report, BOX_LAYER_ON, "control group, version %d%s", cgroup->unified ? 2 : 1,
                   cgroup->is_scope ? ", a scope of systemd" : "");
        return;
    }
    set_detail(report, BOX_LAYER_DEGRADED, "%s; %s", otherwise, cgroup->why[controller]);
}

static void report_limits(struct box_layer_report *reports, const struct box *box)
{
    const struct cgroup *cgroup = &box->cgroup;
    report_controller(&reports[BOX_LAYER_MEMORY], cgroup, CGROUP_MEMORY,
                      "watchdog, looks every 50 ms");
    report_controller(&reports[BOX_LAYER_PIDS], cgroup, CGROUP_PIDS, "RLIMIT_NPROC");
    report_controller(&reports[BOX_LAYER_CPU], cgroup, CGROUP_CPU, "none");
    if (reports[BOX_LAYER_MEMORY].state != BOX_LAYER_ON) {
        set_advice(&reports[BOX_LAYER_MEMORY], "a fast allocation can pass the limit for a moment",
                   cgroup->remedy ? cgroup->remedy : "");
    }
    if (reports[BOX_LAYER_CPU].state != BOX_LAYER_ON) {
        set_advice(&reports[BOX_LAYER_CPU], "--cpus is not enforced",
                   cgroup->remedy ? cgroup->remedy : "");
    }
    if (box->spec->workspace) {
        set_detail(&reports[BOX_LAYER_DISK], BOX_LAYER_DEGRADED,
                   "/tmp by tmpfs size; /work is a host folder");
        set_advice(&reports[BOX_LAYER_DISK], "code can fill the file system of the workspace",
                   "put the workspace on a file system of its own, or leave out --workspace");
    } else {
        set_detail(&reports[BOX_LAYER_DISK], BOX_LAYER_ON, "size and inodes of a tmpfs");
    }
}

static void report_landlock(struct box_layer_report *report)
{
    int abi = landlock_abi();
    if (abi >= LANDLOCK_ABI_LEAST) {
        set_advice(report, "", "");
        set_detail(report, BOX_LAYER_ON, "version %d: the file view again%s", abi,
                   abi >= LANDLOCK_ABI_SCOPES ? ", no signals to outside" : "");
        return;
    }
    set_detail(report, BOX_LAYER_DEGRADED, abi > 0 ? "version %d is too old" : "not in this kernel",
               abi);
    set_advice(report, "the mounts alone keep files out of reach",
               "boot a Linux 5.19 or newer with landlock in its lsm= list");
}

static const char *const layer_names[BOX_LAYER_COUNT] = {
    [BOX_LAYER_NAMESPACES] = "namespaces",
    [BOX_LAYER_MOUNTS] = "mounts",
    [BOX_LAYER_PRIVILEGES] = "privileges",
    [BOX_LAYER_SECCOMP] = "seccomp",
    [BOX_LAYER_LANDLOCK] = "landlock",
    [BOX_LAYER_MEMORY] = "memory",
    [BOX_LAYER_PIDS] = "processes",
    [BOX_LAYER_CPU] = "cpu",
    [BOX_LAYER_DISK] = "disk",
    [BOX_LAYER_PYTHON] = "python",
};

static const char *const layer_details[BOX_LAYER_COUNT] = {
    [BOX_LAYER_NAMESPACES] = "user, mount, pid, net, ipc, uts, cgroup",
    [BOX_LAYER_MOUNTS] = "fresh root, read-only but for /work, /tmp and /dev/shm",
    [BOX_LAYER_PRIVILEGES] = "no capabilities, no new privileges, ids of nobody else",
    [BOX_LAYER_SECCOMP] = "calls by name and by argument, native architecture only",
};

static void reports_init(struct box_layer_report *reports)
{
    for (unsigned i = 0; i < BOX_LAYER_COUNT; i++) {
        reports[i] =
            (struct box_layer_report){.name = layer_names[i],
                                      .state = BOX_LAYER_OFF,
                                      .required = i <= BOX_LAYER_SECCOMP || i == BOX_LAYER_PYTHON};
        set_detail(&reports[i], BOX_LAYER_OFF, "not reached");
        set_advice(&reports[i], "", "see the layer that is off");
    }
}

static void report_failure(struct box_layer_report *reports, const struct fail *why,
                           enum box_layer failed)
{
    char text[FAIL_TEXT + 128];
    for (unsigned i = 0; i < (unsigned)failed && i <= BOX_LAYER_SECCOMP; i++) {
        set_detail(&reports[i], BOX_LAYER_ON, "%s", layer_details[i]);
        set_advice(&reports[i], "", "");
    }
    set_detail(&reports[failed], BOX_LAYER_OFF, "%.240s", fail_describe(why, text, sizeof text));
    set_advice(&reports[failed], "tools refuse to run code",
               failed == BOX_LAYER_PYTHON ? "choose an interpreter with --python PATH"
                                          : "see the reason; inside a container, allow user "
                                            "namespaces and mounts in its seccomp profile");
}

bool box_probe(const struct box_spec *spec, struct box_layer_report *reports)
{
    struct loop *loop = NULL;
    struct probe probe = {};
    struct box *box = NULL;
    reports_init(reports);
    if (loop_new(&loop) < 0) {
        return false;
    }
    int r = box_start(loop, spec, probe_on_state, &probe, &box, &probe.why);
    uint64_t deadline_ns = clock_now_ns() + PROBE_MS * CLOCK_NS_PER_MS;
    while (r == 0 && !probe.ready && !probe.dead && clock_now_ns() < deadline_ns) {
        r = loop_step(loop, 100);
    }
    if (probe.ready) {
        for (unsigned i = 0; i <= BOX_LAYER_SECCOMP; i++) {
            set_detail(&reports[i], BOX_LAYER_ON, "%s", layer_details[i]);
            set_advice(&reports[i], "", "");
        }
        for (unsigned i = BOX_LAYER_MEMORY; i < BOX_LAYER_COUNT; i++) {
            set_advice(&reports[i], "", "");
        }
        report_landlock(&reports[BOX_LAYER_LANDLOCK]);
        report_limits(reports, box);
        set_detail(&reports[BOX_LAYER_PYTHON], BOX_LAYER_ON, "%s, version %s", box->python.path,
                   box->version);
    } else {
        if (!probe.why.text[0]) {
            (void)fail_set(&probe.why, ETIMEDOUT, "the interpreter does not answer");
        }
        report_failure(reports, &probe.why, layer_of_failure(&probe.why, box));
    }
    box_free(box);
    loop_free(loop);
    return probe.ready;
}
