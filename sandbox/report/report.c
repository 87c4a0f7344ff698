#include "sandbox/report/report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sandbox/policy/landlock.h"
#include "sandbox/report/isolation.h"
#include "sandbox/spec/spec.h"

/* The protections of each isolation level, as data. */

/* A protection without which no code runs, and which is on. */
#define ALWAYS(detail)                                                                             \
    {                                                                                              \
        true, BOX_PROTECTION_ON, detail, ""                                                        \
    }

#define WALLS                                                                                      \
    [BOX_PROTECTION_PRIVILEGES] = ALWAYS("no capabilities, no_new_privs, unused uid and gid"),     \
    [BOX_PROTECTION_SECCOMP] =                                                                     \
        ALWAYS("filters system calls by name and argument, native architecture only"),             \
    [BOX_PROTECTION_LANDLOCK] = {false, BOX_PROTECTION_ON, "restricts files",                      \
                                 "only the mounts protect files; code of one session can read "    \
                                 "and change the memory of other sessions"},                       \
    [BOX_PROTECTION_PYTHON] = ALWAYS("")

static const struct level_row full[BOX_PROTECTION_COUNT] = {
    [BOX_PROTECTION_NAMESPACES] = ALWAYS("user, mount, pid, net, ipc, uts, cgroup"),
    [BOX_PROTECTION_MOUNTS] = ALWAYS("new root, read-only except /work, /tmp and /dev/shm"),
    WALLS,
};

static const struct level_row without_proc[BOX_PROTECTION_COUNT] = {
    [BOX_PROTECTION_NAMESPACES] =
        ALWAYS("user, mount, pid, net, ipc, uts, cgroup; only the filters refuse further ones"),
    [BOX_PROTECTION_MOUNTS] = {true, BOX_PROTECTION_DEGRADED,
                               "new root, read-only except /work, /tmp and /dev/shm; /proc has no "
                               "processes: the kernel refuses to mount a new one",
                               "programs that read of processes in /proc, or /dev/fd or "
                               "/dev/stdin, do not work: ps, top"},
    WALLS,
};

static const struct level_row in_container[BOX_PROTECTION_COUNT] = {
    [BOX_PROTECTION_NAMESPACES] = {false, BOX_PROTECTION_OFF, "none at this isolation level",
                                   "code can detect other processes; hostname, kernel and users "
                                   "are visible; no private loopback; only the filters refuse "
                                   "System V objects"},
    [BOX_PROTECTION_MOUNTS] = {false, BOX_PROTECTION_OFF, "none at this isolation level",
                               "file names, sizes and times outside are visible; no private /tmp "
                               "or /proc"},
    [BOX_PROTECTION_PRIVILEGES] =
        ALWAYS("no capabilities, no_new_privs; a supervisor kills all processes of the code"),
    [BOX_PROTECTION_SECCOMP] = ALWAYS(
        "filters system calls by name and argument, a supervisor performs some of them, native "
        "architecture only"),
    [BOX_PROTECTION_LANDLOCK] = ALWAYS("restricts files outside the workspace"),
    [BOX_PROTECTION_PYTHON] = ALWAYS(""),
};

static const struct level_row *level_row(enum box_level level, enum box_protection protection)
{
    static const struct level_row *const rows[] = {
        [BOX_FULL] = full, [BOX_FULL_WITHOUT_PROC] = without_proc, [BOX_CONTAINER] = in_container};
    return &rows[level][protection];
}

const char *box_level_name(enum box_level level)
{
    static const char *const names[] = {
        [BOX_FULL] = "full",
        [BOX_FULL_WITHOUT_PROC] = "full without /proc",
        [BOX_CONTAINER] = "container",
    };
    return names[level];
}

const char *const *box_level_not_promised(enum box_level level)
{
    static const char *const nothing[] = {NULL};
    static const char *const not_promised[] = {
        "file names, sizes and times outside are visible",
        "code can detect other processes",
        "hostname, kernel and users are visible",
        ("limits are checked, not enforced: memory every 25 ms if no control group limits it, disk "
         "and inodes at least every half second"),
        "no private /tmp, /proc or loopback",
        "code can open device nodes in a --mount directory",
        "code shares the container's uid if no other uid is available",
        "if server and supervisor are killed together, code may outlive them",
        ("without Landlock ABI 6 only seccomp restricts signals, without ABI 3 only seccomp "
         "restricts truncation"),
        NULL,
    };
    return level == BOX_CONTAINER ? not_promised : nothing;
}

static const char *const layer_names[BOX_PROTECTION_COUNT] = {
    [BOX_PROTECTION_NAMESPACES] = "namespaces",
    [BOX_PROTECTION_MOUNTS] = "mounts",
    [BOX_PROTECTION_PRIVILEGES] = "privileges",
    [BOX_PROTECTION_SECCOMP] = "seccomp",
    [BOX_PROTECTION_LANDLOCK] = "landlock",
    [BOX_PROTECTION_MEMORY] = "memory",
    [BOX_PROTECTION_PIDS] = "pids",
    [BOX_PROTECTION_CPU] = "cpu",
    [BOX_PROTECTION_DISK] = "disk",
    [BOX_PROTECTION_PYTHON] = "python",
};

const char *box_protection_name(enum box_protection protection)
{
    return layer_names[protection];
}

enum box_protection box_protection_find(const char *name, size_t size)
{
    unsigned i = 0;
    while (i < BOX_PROTECTION_COUNT &&
           (strlen(layer_names[i]) != size || memcmp(layer_names[i], name, size) != 0)) {
        i++;
    }
    return (enum box_protection)i;
}

bool box_protection_is_mandatory(enum box_protection protection)
{
    return level_row(BOX_FULL, protection)->mandatory;
}

__attribute__((format(printf, 3, 4))) static void set_detail(struct box_protection_report *entry,
                                                             enum box_protection_state state,
                                                             const char *fmt, ...)
{
    va_list args;
    entry->state = state;
    va_start(args, fmt);
    (void)vsnprintf(entry->detail, sizeof entry->detail, fmt, args);
    va_end(args);
}

static void set_consequence(struct box_protection_report *entry, const char *text)
{
    (void)snprintf(entry->consequence, sizeof entry->consequence, "%s", text);
}

/* --- each protection --- */

/* The state that the isolation level intends. */
static void report_as_meant(const struct report_facts *facts, enum box_protection protection,
                            struct box_protection_report *entry)
{
    const struct level_row *row = level_row(facts->level, protection);
    bool unknown = facts->level == BOX_CONTAINER || !facts->verdict;
    bool named = unknown || protection != BOX_PROTECTION_NAMESPACES || facts->has_hostname;
    bool whole = unknown || protection != BOX_PROTECTION_MOUNTS || facts->has_machine;
    set_detail(entry, row->state, "%s%s%s", row->detail,
               named ? "" : "; the hostname is the host's",
               whole ? "" : "; /proc has processes only, so free, top and psutil do not work");
    set_consequence(entry, row->consequence);
    if (row->state == BOX_PROTECTION_DEGRADED && facts->host) {
        remedy_for_proc(facts->host, entry);
    }
}

/* A failure belongs to one protection. Those before it in build order were set up, but that is not
 * a test, so the report does not rely on them. */
static void report_walls(const struct report_facts *facts, struct box_report *report)
{
    for (unsigned i = 0; i <= BOX_PROTECTION_SECCOMP; i++) {
        struct box_protection_report *entry = &report->protections[i];
        const struct level_row *row = level_row(facts->level, (enum box_protection)i);
        bool left_out = row->state == BOX_PROTECTION_OFF;
        if (!left_out && facts->verdict && facts->verdict->found[i][0]) {
            set_detail(entry, BOX_PROTECTION_OFF, "%s", facts->verdict->found[i]);
            remedy_for_finding(entry);
        } else if (left_out || facts->verdict) {
            report_as_meant(facts, (enum box_protection)i, entry);
        } else if (facts->failure) {
            set_detail(entry, BOX_PROTECTION_UNKNOWN, "%s",
                       i < facts->failed ? "set up, but not tested" : "not reached");
        } else {
            set_detail(entry, BOX_PROTECTION_UNKNOWN, "%s", row->detail);
        }
    }
}

static void report_landlock(const struct report_facts *facts, struct box_protection_report *entry)
{
    const struct level_row *row = level_row(facts->level, BOX_PROTECTION_LANDLOCK);
    int abi = facts->landlock_abi;
    const char *found = facts->verdict ? facts->verdict->found[BOX_PROTECTION_LANDLOCK] : "";
    bool signals_pass = facts->verdict && facts->verdict->signals_pass;
    if (abi < LANDLOCK_ABI_LEAST) {
        set_detail(entry, row->mandatory ? BOX_PROTECTION_OFF : BOX_PROTECTION_DEGRADED, "%s%s",
                   abi > 0 ? "version 1, too old" : "the kernel has none",
                   signals_pass ? "; signals between sessions are allowed" : "");
    } else if (found[0]) {
        set_detail(entry, BOX_PROTECTION_OFF, "version %d: %s", abi, found);
    } else if (signals_pass) {
        set_detail(entry, BOX_PROTECTION_DEGRADED,
                   "version %d: %s; signals between sessions are allowed", abi, row->detail);
        set_consequence(entry, "code of one session can kill the interpreters of other sessions");
        return;
    } else {
        set_detail(entry, BOX_PROTECTION_ON, "version %d: %s%s", abi, row->detail,
                   abi >= LANDLOCK_ABI_SCOPES ? " and outgoing signals" : "; init checks signals");
        return;
    }
    set_consequence(entry, row->consequence);
    if (found[0]) {
        remedy_for_finding(entry);
    } else if (facts->host) {
        remedy_for_landlock(facts->host, entry);
    }
}

/* A limit that a control group enforces, or something weaker. */
static void report_limit(const struct report_facts *facts, enum box_protection protection,
                         enum cgroup_controller controller, const char *amount,
                         const char *otherwise, struct box_protection_report *entry)
{
    const char *found = facts->verdict ? facts->verdict->found[protection] : "";
    if (found[0]) {
        set_detail(entry, BOX_PROTECTION_OFF, "%s", found);
    } else if (!facts->cgroup) {
        set_detail(entry, BOX_PROTECTION_UNKNOWN, "%s", facts->failure ? "not reached" : amount);
        return;
    } else if (cgroup_has(facts->cgroup, controller)) {
        set_detail(entry, BOX_PROTECTION_ON, "%s; control group, version %d%s", amount,
                   facts->cgroup->unified ? 2 : 1,
                   facts->cgroup->is_scope ? ", a systemd scope" : "");
        return;
    } else {
        set_detail(entry, BOX_PROTECTION_DEGRADED, "%.60s%s; %.160s", amount, otherwise,
                   facts->cgroup->why[controller]);
    }
    if (entry->state == BOX_PROTECTION_OFF) {
        remedy_for_finding(entry);
    } else if (facts->host) {
        remedy_for_limit(facts->host, facts->cgroup->remedy, entry);
    }
}

/* "768 MiB, three quarters of the server's own limit of 1024 MiB". */
static void describe_memory(const struct box_spec *spec, char *out, size_t size)
{
    unsigned long long mib = spec->limits.memory_bytes >> 20;
    if (spec->memory_enclosing && spec->limits.memory_bytes >= spec->memory_enclosing / 4 * 3) {
        (void)snprintf(out, size, "%llu MiB, three quarters of the server's own limit of %llu MiB",
                       mib, (unsigned long long)(spec->memory_enclosing >> 20));
    } else {
        (void)snprintf(out, size, "%llu MiB", mib);
    }
}

static void report_limits(const struct report_facts *facts, struct box_report *report)
{
    const struct box_limits *limits = &facts->spec->limits;
    struct box_protection_report *memory = &report->protections[BOX_PROTECTION_MEMORY];
    struct box_protection_report *pids = &report->protections[BOX_PROTECTION_PIDS];
    struct box_protection_report *cpu = &report->protections[BOX_PROTECTION_CPU];
    char amount[96];
    bool container = facts->level == BOX_CONTAINER;
    describe_memory(facts->spec, amount, sizeof amount);
    report_limit(facts, BOX_PROTECTION_MEMORY, CGROUP_MEMORY, amount,
                 container ? ", checked every 25 ms" : ", checked every 50 ms", memory);
    if (memory->state == BOX_PROTECTION_DEGRADED) {
        set_consequence(memory, "a fast allocation can briefly exceed the limit");
    }
    (void)snprintf(amount, sizeof amount, "%u", limits->pids);
    report_limit(facts, BOX_PROTECTION_PIDS, CGROUP_PIDS, amount, " by RLIMIT_NPROC", pids);
    if (pids->state == BOX_PROTECTION_DEGRADED && facts->level == BOX_CONTAINER) {
        set_detail(pids, BOX_PROTECTION_ON, "%u; the supervisor counts each new process and thread",
                   limits->pids);
        pids->remedy[0] = '\0';
    } else if (pids->state == BOX_PROTECTION_DEGRADED) {
        set_consequence(pids, facts->host && facts->host->counts_outside
                                  ? "the user's processes outside the sandbox count too"
                                  : "RLIMIT_NPROC alone enforces it");
    }
    (void)snprintf(amount, sizeof amount, limits->cpu_milli ? "--cpus %g" : "no limit requested",
                   limits->cpu_milli / 1000.0);
    report_limit(facts, BOX_PROTECTION_CPU, CGROUP_CPU, amount,
                 limits->cpu_milli ? " cannot be enforced" : "", cpu);
    if (cpu->state == BOX_PROTECTION_DEGRADED && limits->cpu_milli) {
        cpu->state = BOX_PROTECTION_OFF;
    }
    if (cpu->state == BOX_PROTECTION_DEGRADED || cpu->state == BOX_PROTECTION_OFF) {
        set_consequence(cpu, limits->cpu_milli ? "code may use all processors despite --cpus"
                                               : "code may use all processors; --cpus would be "
                                                 "refused");
    }
}

static void report_disk(const struct report_facts *facts, struct box_protection_report *entry)
{
    unsigned long long mib = (unsigned long long)box_spec_disk_bytes(facts->spec) >> 20;
    unsigned long long inodes = facts->spec->limits.disk_inodes;
    const struct box_spec *spec = facts->spec;
    bool workspace = box_spec_files_stay(spec);
    if (facts->level == BOX_CONTAINER) {
        set_detail(entry, BOX_PROTECTION_DEGRADED,
                   "%llu MiB and %llu inodes, checked at least every half second%s", mib, inodes,
                   workspace ? "; no limit for the workspace" : "");
        set_consequence(entry, workspace ? "code can fill the file system of the workspace"
                                         : "fast writes can briefly exceed the limit");
        return;
    }
    if (!workspace) {
        set_detail(entry, BOX_PROTECTION_ON, "%llu MiB and %llu inodes on a tmpfs", mib, inodes);
        return;
    }
    set_detail(entry, BOX_PROTECTION_DEGRADED, "%llu MiB for /tmp and for each file; %s", mib,
               spec->cow ? "changes of /work are in a directory of the host"
                         : "/work is a host directory");
    set_consequence(entry, spec->cow ? "code can fill the file system of the store"
                                     : "code can fill the file system of the workspace");
    if (facts->host) {
        (void)snprintf(entry->remedy, sizeof entry->remedy,
                       spec->cow ? "put the store on a file system of its own, or leave out "
                                   "--cow-store"
                                 : "nothing on a machine of your own; for a limit, put the "
                                   "workspace on a file system of its own");
    }
}

static void report_python(const struct report_facts *facts, struct box_protection_report *entry)
{
    if (facts->python_version && facts->python_path) {
        set_detail(entry, BOX_PROTECTION_ON, "%s, version %s", facts->python_path,
                   facts->python_version);
    } else {
        set_detail(entry, BOX_PROTECTION_UNKNOWN, "%s",
                   facts->failure ? "not reached" : "not started yet");
    }
}

static void report_failure(const struct report_facts *facts, struct box_report *report)
{
    struct box_protection_report *entry = &report->protections[facts->failed];
    char text[FAIL_TEXT + 128];
    if (facts->failed != BOX_PROTECTION_LANDLOCK || facts->landlock_abi >= LANDLOCK_ABI_LEAST) {
        set_detail(entry, BOX_PROTECTION_OFF, "%.255s",
                   fail_describe(facts->failure, text, sizeof text));
    } /* else report_landlock has said that the kernel has none */
    if (facts->host) {
        remedy_for_protection(facts->failed, facts->failed_step, facts->failure->code, facts->host,
                              report);
        if (facts->failed_step == PLAN_OVERLAY) {
            remedy_for_overlay(facts->failure->code, facts->spec, entry);
        }
    }
}

/* --- whether code may run --- */

/* A protection that is off prevents code from running, unless the isolation level does not have it;
 * a degraded one does so where it is required. Only the user's flags can accept what is off, and
 * only if it is not mandatory. */
static bool stops(const struct report_facts *facts, enum box_protection protection,
                  enum box_protection_state state)
{
    const struct box_spec *spec = facts->spec;
    const struct level_row *row = level_row(facts->level, protection);
    bool required = spec->require & 1U << protection;
    switch (state) {
    case BOX_PROTECTION_OFF:
        return row->state == BOX_PROTECTION_OFF
                   ? required
                   : row->mandatory || !(spec->allow_degraded & 1U << protection);
    case BOX_PROTECTION_DEGRADED:
        return required;
    case BOX_PROTECTION_ON:
    case BOX_PROTECTION_UNKNOWN:
    default:
        return false;
    }
}

/* Whether the host refuses namespaces or mounts, so that a sandbox without them would start. A path
 * that does not exist, or a refusal by the server itself, does not justify a weaker level. */
static bool lacks_namespaces(const struct report_facts *facts, enum box_protection protection)
{
    static const int reasons[] = {EPERM,  EACCES,     ENOSYS, EINVAL, ENOSPC,
                                  EUSERS, EOPNOTSUPP, ENODEV, EBUSY};
    bool refused = false;
    for (unsigned i = 0; facts->failure && i < sizeof reasons / sizeof *reasons; i++) {
        refused = refused || facts->failure->code == reasons[i];
    }
    bool memfd = refused && facts->host && remedy_is_memfd(facts->host, facts->failure->code);
    return refused && !memfd && !facts->spec->cow && protection <= BOX_PROTECTION_MOUNTS &&
           facts->level != BOX_CONTAINER && facts->landlock_abi >= LANDLOCK_ABI_LEAST;
}

static void refuse(const struct report_facts *facts, enum box_protection protection,
                   struct box_report *report)
{
    const struct box_protection_report *entry = &report->protections[protection];
    const struct level_row *row = level_row(facts->level, protection);
    bool meant = entry->state == row->state || entry->state == BOX_PROTECTION_DEGRADED;
    char egress[160] = "";
    if (lacks_namespaces(facts, protection)) {
        (void)snprintf(egress, sizeof egress,
                       ". Or accept a sandbox without namespaces: use --isolation=container, or "
                       "SANDPIPER_ISOLATION=container in the environment");
    } else if (meant) {
        (void)snprintf(egress, sizeof egress, " (or leave %s out of --require)",
                       layer_names[protection]);
    } else if (!row->mandatory) {
        (void)snprintf(egress, sizeof egress, " (or accept it with --allow-degraded %s)",
                       layer_names[protection]);
    }
    (void)snprintf(report->refusal, sizeof report->refusal, "%s: %s%s%s%s", layer_names[protection],
                   entry->detail, entry->remedy[0] ? ". Fix: " : "", entry->remedy, egress);
    report->usable = false;
}

void report_compute(const struct report_facts *facts, struct box_report *report)
{
    *report = (struct box_report){
        .level = facts->level, .tested = facts->verdict && !facts->failure, .usable = true};
    report_walls(facts, report);
    report_landlock(facts, &report->protections[BOX_PROTECTION_LANDLOCK]);
    report_limits(facts, report);
    report_disk(facts, &report->protections[BOX_PROTECTION_DISK]);
    report_python(facts, &report->protections[BOX_PROTECTION_PYTHON]);
    if (facts->failure) {
        report_failure(facts, report);
    }
    for (unsigned i = 0; i < BOX_PROTECTION_COUNT; i++) {
        struct box_protection_report *entry = &report->protections[i];
        const struct level_row *row = level_row(facts->level, (enum box_protection)i);
        entry->required = row->mandatory || (facts->spec->require & 1U << i);
        if (row->mandatory && entry->state == BOX_PROTECTION_OFF) {
            set_consequence(entry, "tools refuse to run code");
        }
        if (report->usable && stops(facts, (enum box_protection)i, entry->state)) {
            refuse(facts, (enum box_protection)i, report);
        }
    }
    if (facts->failure && report->usable) { /* even if accepted: there is no sandbox */
        refuse(facts, facts->failed, report);
    }
}

unsigned box_report_degraded(const struct box_report *report)
{
    unsigned degraded = 0;
    for (unsigned i = 0; i < BOX_PROTECTION_COUNT; i++) {
        enum box_protection_state state = report->protections[i].state;
        degraded |= state == BOX_PROTECTION_DEGRADED || state == BOX_PROTECTION_OFF ? 1U << i : 0;
    }
    return degraded;
}
