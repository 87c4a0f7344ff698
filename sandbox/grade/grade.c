#include "sandbox/grade/grade.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sandbox/confine/landlock.h"
#include "sandbox/grade/remedy.h"

static const char *const layer_names[BOX_LAYER_COUNT] = {
    [BOX_LAYER_NAMESPACES] = "namespaces",
    [BOX_LAYER_MOUNTS] = "mounts",
    [BOX_LAYER_PRIVILEGES] = "privileges",
    [BOX_LAYER_SECCOMP] = "seccomp",
    [BOX_LAYER_LANDLOCK] = "landlock",
    [BOX_LAYER_MEMORY] = "memory",
    [BOX_LAYER_PIDS] = "pids",
    [BOX_LAYER_CPU] = "cpu",
    [BOX_LAYER_DISK] = "disk",
    [BOX_LAYER_PYTHON] = "python",
};

const char *box_layer_name(enum box_layer layer)
{
    return layer_names[layer];
}

enum box_layer box_layer_find(const char *name, size_t size)
{
    unsigned i = 0;
    while (i < BOX_LAYER_COUNT &&
           (strlen(layer_names[i]) != size || memcmp(layer_names[i], name, size) != 0)) {
        i++;
    }
    return (enum box_layer)i;
}

bool box_layer_is_mandatory(enum box_layer layer)
{
    return grade_row(BOX_FULL, layer)->mandatory;
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

static void set_consequence(struct box_layer_report *report, const char *text)
{
    (void)snprintf(report->consequence, sizeof report->consequence, "%s", text);
}

/* --- what each layer is like --- */

/* What this profile does about a layer, where it is all that is meant by it. */
static void grade_as_meant(const struct grade_facts *facts, enum box_layer layer,
                           struct box_layer_report *report)
{
    const struct grade_row *row = grade_row(facts->profile, layer);
    bool named = layer != BOX_LAYER_NAMESPACES || facts->profile == BOX_CONTAINER ||
                 !facts->verdict || facts->has_hostname;
    set_detail(report, row->state, "%s%s", row->detail, named ? "" : "; the host's name is kept");
    set_consequence(report, row->consequence);
    if (row->state == BOX_LAYER_DEGRADED && facts->host) {
        remedy_for_proc(facts->host, report);
    }
}

/* A failure is that of one layer. Those before it in the order of building were made; that is not a
 * proof, and they are not called on. */
static void grade_walls(const struct grade_facts *facts, struct box_grade *grade)
{
    for (unsigned i = 0; i <= BOX_LAYER_SECCOMP; i++) {
        struct box_layer_report *report = &grade->layers[i];
        const struct grade_row *row = grade_row(facts->profile, (enum box_layer)i);
        bool left_out = row->state == BOX_LAYER_OFF;
        if (!left_out && facts->verdict && facts->verdict->found[i][0]) {
            set_detail(report, BOX_LAYER_OFF, "%s", facts->verdict->found[i]);
            remedy_for_finding(report);
        } else if (left_out || facts->verdict) {
            grade_as_meant(facts, (enum box_layer)i, report);
        } else if (facts->failure) {
            set_detail(report, BOX_LAYER_UNKNOWN, "%s",
                       i < facts->failed ? "made, and not proven" : "not reached");
        } else {
            set_detail(report, BOX_LAYER_UNKNOWN, "%s", row->detail);
        }
    }
}

static void grade_landlock(const struct grade_facts *facts, struct box_layer_report *report)
{
    const struct grade_row *row = grade_row(facts->profile, BOX_LAYER_LANDLOCK);
    int abi = facts->landlock_abi;
    const char *found = facts->verdict ? facts->verdict->found[BOX_LAYER_LANDLOCK] : "";
    bool signals_pass = facts->verdict && facts->verdict->signals_pass;
    if (abi < LANDLOCK_ABI_LEAST) {
        set_detail(report, row->mandatory ? BOX_LAYER_OFF : BOX_LAYER_DEGRADED, "%s%s",
                   abi > 0 ? "version 1 is too old" : "not in this kernel",
                   signals_pass ? "; signals between sessions are not refused" : "");
    } else if (found[0]) {
        set_detail(report, BOX_LAYER_OFF, "version %d, but %s", abi, found);
    } else if (signals_pass) {
        set_detail(report, BOX_LAYER_DEGRADED,
                   "version %d: %s; signals between sessions are not refused", abi, row->detail);
        set_consequence(report, "code of one session can end the interpreters of others");
        return;
    } else {
        set_detail(report, BOX_LAYER_ON, "version %d: %s%s", abi, row->detail,
                   abi >= LANDLOCK_ABI_SCOPES ? ", no signals to outside"
                                              : "; init judges signals");
        return;
    }
    set_consequence(report, row->consequence);
    if (found[0]) {
        remedy_for_finding(report);
    } else if (facts->host) {
        remedy_for_landlock(facts->host, report);
    }
}

/* A limit that a control group enforces, or something weaker. */
static void grade_limit(const struct grade_facts *facts, enum box_layer layer,
                        enum cgroup_controller controller, const char *amount,
                        const char *otherwise, struct box_layer_report *report)
{
    const char *found = facts->verdict ? facts->verdict->found[layer] : "";
    if (found[0]) {
        set_detail(report, BOX_LAYER_OFF, "%s", found);
    } else if (!facts->cgroup) {
        set_detail(report, BOX_LAYER_UNKNOWN, "%s", facts->failure ? "not reached" : amount);
        return;
    } else if (cgroup_has(facts->cgroup, controller)) {
        set_detail(report, BOX_LAYER_ON, "%s; control group, version %d%s", amount,
                   facts->cgroup->unified ? 2 : 1,
                   facts->cgroup->is_scope ? ", a scope of systemd" : "");
        return;
    } else {
        set_detail(report, BOX_LAYER_DEGRADED, "%.60s%s; %.160s", amount, otherwise,
                   facts->cgroup->why[controller]);
    }
    if (report->state == BOX_LAYER_OFF) {
        remedy_for_finding(report);
    } else if (facts->host) {
        remedy_for_limit(facts->host, facts->cgroup->remedy, report);
    }
}

/* "768 MiB, three quarters of the 1024 around the server". */
static void describe_memory(const struct box_spec *spec, char *out, size_t size)
{
    unsigned long long mib = spec->limits.memory_bytes >> 20;
    if (spec->memory_around && spec->limits.memory_bytes >= spec->memory_around / 4 * 3) {
        (void)snprintf(out, size, "%llu MiB, three quarters of the %llu around the server", mib,
                       (unsigned long long)(spec->memory_around >> 20));
    } else {
        (void)snprintf(out, size, "%llu MiB", mib);
    }
}

static void grade_limits(const struct grade_facts *facts, struct box_grade *grade)
{
    const struct box_limits *limits = &facts->spec->limits;
    struct box_layer_report *memory = &grade->layers[BOX_LAYER_MEMORY];
    struct box_layer_report *pids = &grade->layers[BOX_LAYER_PIDS];
    struct box_layer_report *cpu = &grade->layers[BOX_LAYER_CPU];
    char amount[96];
    bool container = facts->profile == BOX_CONTAINER;
    describe_memory(facts->spec, amount, sizeof amount);
    grade_limit(facts, BOX_LAYER_MEMORY, CGROUP_MEMORY, amount,
                container ? " by a watchdog every 25 ms" : " by a watchdog every 50 ms", memory);
    if (memory->state == BOX_LAYER_DEGRADED) {
        set_consequence(memory, "a fast allocation can pass the limit for a moment");
    }
    (void)snprintf(amount, sizeof amount, "%u", limits->pids);
    grade_limit(facts, BOX_LAYER_PIDS, CGROUP_PIDS, amount, " by RLIMIT_NPROC", pids);
    if (pids->state == BOX_LAYER_DEGRADED && facts->profile == BOX_CONTAINER) {
        set_detail(pids, BOX_LAYER_ON, "%u, each new process or thread is counted", limits->pids);
        pids->remedy[0] = '\0';
    } else if (pids->state == BOX_LAYER_DEGRADED) {
        set_consequence(pids, "before Linux 5.14 the user's processes outside count too");
    }
    (void)snprintf(amount, sizeof amount, limits->cpu_milli ? "--cpus %g" : "no limit asked for",
                   limits->cpu_milli / 1000.0);
    grade_limit(facts, BOX_LAYER_CPU, CGROUP_CPU, amount,
                limits->cpu_milli ? " cannot be kept" : "", cpu);
    if (cpu->state == BOX_LAYER_DEGRADED && limits->cpu_milli) {
        cpu->state = BOX_LAYER_OFF;
    }
    if (cpu->state == BOX_LAYER_DEGRADED || cpu->state == BOX_LAYER_OFF) {
        set_consequence(cpu, limits->cpu_milli ? "code may use all processors, whatever --cpus says"
                                               : "code may use all processors; --cpus would be "
                                                 "refused");
    }
}

static void grade_disk(const struct grade_facts *facts, struct box_layer_report *report)
{
    unsigned long long mib = (unsigned long long)box_spec_disk_bytes(facts->spec) >> 20;
    if (facts->profile == BOX_CONTAINER && facts->spec->workspace) {
        set_detail(report, BOX_LAYER_DEGRADED,
                   "%llu MiB and %llu inodes by a watchdog, but for the workspace", mib,
                   (unsigned long long)facts->spec->limits.disk_inodes);
        set_consequence(report, "code can fill the file system of the workspace");
        return;
    }
    if (facts->profile == BOX_CONTAINER) {
        set_detail(report, BOX_LAYER_DEGRADED, "%llu MiB and %llu inodes by a watchdog", mib,
                   (unsigned long long)facts->spec->limits.disk_inodes);
        set_consequence(report, "checked at least every half second, not enforced");
        return;
    }
    if (!facts->spec->workspace) {
        set_detail(report, BOX_LAYER_ON, "%llu MiB and %llu inodes of a tmpfs", mib,
                   (unsigned long long)facts->spec->limits.disk_inodes);
        return;
    }
    set_detail(report, BOX_LAYER_DEGRADED,
               "%llu MiB for /tmp and for each single file; /work is a host folder", mib);
    set_consequence(report, "code can fill the file system of the workspace");
    if (facts->host) {
        (void)snprintf(report->remedy, sizeof report->remedy,
                       "put the workspace on a file system of its own, or leave out --workspace");
    }
}

static void grade_python(const struct grade_facts *facts, struct box_layer_report *report)
{
    if (facts->python_version && facts->python_path) {
        set_detail(report, BOX_LAYER_ON, "%s, version %s", facts->python_path,
                   facts->python_version);
    } else {
        set_detail(report, BOX_LAYER_UNKNOWN, "%s",
                   facts->failure ? "not reached" : "not started yet");
    }
}

static void grade_failure(const struct grade_facts *facts, struct box_grade *grade)
{
    struct box_layer_report *report = &grade->layers[facts->failed];
    char text[FAIL_TEXT + 128];
    set_detail(report, BOX_LAYER_OFF, "%.255s", fail_describe(facts->failure, text, sizeof text));
    if (facts->host) {
        remedy_for_layer(facts->failed, facts->failed_step, facts->failure->code, facts->host,
                         grade);
    }
}

/* --- whether code may run --- */

/* What is off stops the tools, unless this profile does without it; what is degraded does where it is
 * required. Only what is not mandatory can be accepted as off. */
static bool stops(const struct grade_facts *facts, enum box_layer layer, enum box_layer_state state)
{
    const struct box_spec *spec = facts->spec;
    const struct grade_row *row = grade_row(facts->profile, layer);
    bool required = spec->require & 1U << layer;
    switch (state) {
    case BOX_LAYER_OFF:
        return row->state == BOX_LAYER_OFF
                   ? required
                   : row->mandatory || !(spec->allow_degraded & 1U << layer);
    case BOX_LAYER_DEGRADED:
        return required;
    case BOX_LAYER_ON:
    case BOX_LAYER_UNKNOWN:
    default:
        return false;
    }
}

/* Whether it is this host that refuses namespaces or mounts, so that a sandbox without them would start. A name
 * that leads nowhere, and what was refused by us, are no reason for a weaker one. */
static bool lacks_namespaces(const struct grade_facts *facts, enum box_layer layer)
{
    static const int reasons[] = {EPERM,  EACCES,     ENOSYS, EINVAL, ENOSPC,
                                  EUSERS, EOPNOTSUPP, EAGAIN, ENODEV, EBUSY};
    bool refused = false;
    for (unsigned i = 0; facts->failure && i < sizeof reasons / sizeof *reasons; i++) {
        refused = refused || facts->failure->code == reasons[i];
    }
    return refused && layer <= BOX_LAYER_MOUNTS && facts->profile != BOX_CONTAINER &&
           facts->landlock_abi >= LANDLOCK_ABI_LEAST;
}

static void refuse(const struct grade_facts *facts, enum box_layer layer, struct box_grade *grade)
{
    const struct box_layer_report *report = &grade->layers[layer];
    const struct grade_row *row = grade_row(facts->profile, layer);
    bool meant = report->state == row->state || report->state == BOX_LAYER_DEGRADED;
    char way_out[160] = "";
    if (lacks_namespaces(facts, layer)) {
        (void)snprintf(way_out, sizeof way_out,
                       ". Or accept a sandbox without namespaces: --isolation=container, or "
                       "SANDPIPER_ISOLATION=container in the environment");
    } else if (meant) {
        (void)snprintf(way_out, sizeof way_out, " (or leave %s out of --require)",
                       layer_names[layer]);
    } else if (!row->mandatory) {
        (void)snprintf(way_out, sizeof way_out, " (or accept it with --allow-degraded %s)",
                       layer_names[layer]);
    }
    (void)snprintf(grade->refusal, sizeof grade->refusal, "%s: %s%s%s%s", layer_names[layer],
                   report->detail, report->remedy[0] ? ". What to do: " : "", report->remedy,
                   way_out);
    grade->usable = false;
}

void grade_compute(const struct grade_facts *facts, struct box_grade *grade)
{
    *grade = (struct box_grade){
        .profile = facts->profile, .proven = facts->verdict && !facts->failure, .usable = true};
    grade_walls(facts, grade);
    grade_landlock(facts, &grade->layers[BOX_LAYER_LANDLOCK]);
    grade_limits(facts, grade);
    grade_disk(facts, &grade->layers[BOX_LAYER_DISK]);
    grade_python(facts, &grade->layers[BOX_LAYER_PYTHON]);
    if (facts->failure) {
        grade_failure(facts, grade);
    }
    for (unsigned i = 0; i < BOX_LAYER_COUNT; i++) {
        struct box_layer_report *report = &grade->layers[i];
        const struct grade_row *row = grade_row(facts->profile, (enum box_layer)i);
        report->required = row->mandatory || (facts->spec->require & 1U << i);
        if (row->mandatory && report->state == BOX_LAYER_OFF) {
            set_consequence(report, "tools refuse to run code");
        }
        if (grade->usable && stops(facts, (enum box_layer)i, report->state)) {
            refuse(facts, (enum box_layer)i, grade);
        }
    }
    if (facts->failure && grade->usable) { /* accepted or not, there is no box */
        refuse(facts, facts->failed, grade);
    }
}

unsigned box_grade_gaps(const struct box_grade *grade)
{
    unsigned gaps = 0;
    for (unsigned i = 0; i < BOX_LAYER_COUNT; i++) {
        enum box_layer_state state = grade->layers[i].state;
        gaps |= state == BOX_LAYER_DEGRADED || state == BOX_LAYER_OFF ? 1U << i : 0;
    }
    return gaps;
}
