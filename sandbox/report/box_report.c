/* Gathers the facts for an isolation report: from the host alone, from a sandbox that could not be
 * made, or from one that was tested. */
#include <sys/wait.h>

#include "base/buf.h"
#include "sandbox/box/box.h"
#include "sandbox/plan/plan.h"
#include "sandbox/policy/landlock.h"
#include "sandbox/report/box_report.h"
#include "sandbox/report/isolation.h"
#include "sandbox/report/report.h"
#include "sandbox/spec/spec.h"
#include "sandbox/workspace/protected.h"

/* Steps that are not listed belong to the mounts. */
static const struct {
    enum plan_kind kind;
    enum box_protection protection;
} step_protections[] = {
    {PLAN_GROUP, BOX_PROTECTION_MEMORY},
    {PLAN_CGROUP_NAMESPACE, BOX_PROTECTION_NAMESPACES},
    {PLAN_HOSTNAME, BOX_PROTECTION_NAMESPACES},
    {PLAN_LOOPBACK, BOX_PROTECTION_NAMESPACES},
    {PLAN_NO_NAMESPACES, BOX_PROTECTION_NAMESPACES},
    {PLAN_SESSION, BOX_PROTECTION_PRIVILEGES},
    {PLAN_IDENTITY, BOX_PROTECTION_PRIVILEGES},
    {PLAN_DESCRIPTORS, BOX_PROTECTION_PRIVILEGES},
    {PLAN_CAPABILITIES, BOX_PROTECTION_PRIVILEGES},
    {PLAN_DEATH_SIGNAL, BOX_PROTECTION_PRIVILEGES},
    {PLAN_SECCOMP, BOX_PROTECTION_SECCOMP},
    {PLAN_STEP_DOWN, BOX_PROTECTION_PRIVILEGES},
};

static enum box_protection protection_of_step(enum plan_kind kind)
{
    for (unsigned i = 0; i < sizeof step_protections / sizeof *step_protections; i++) {
        if (step_protections[i].kind == kind) {
            return step_protections[i].protection;
        }
    }
    return BOX_PROTECTION_MOUNTS;
}

/* Fixes need more facts about the host, which cost some file reads: only where a protection is
 * degraded or off. */
static void compute(struct report_facts *facts, struct box_report *report)
{
    struct host host;
    report_compute(facts, report);
    if (box_report_degraded(report)) {
        host_look(&host);
        facts->host = &host;
        report_compute(facts, report);
        facts->host = NULL;
    }
}

void box_report_failure(struct box *box, const struct fail *why, struct fail *ret_fail)
{
    struct fail failure = *why; /* a copy: why may be ret_fail */
    bool at_step = why->step > 0 && why->step <= box->plan.step_count;
    struct report_facts facts = {
        .spec = box->spec,
        .level = box->plan.level,
        .failure = &failure,
        .failed = box->building,
        .failed_step = at_step ? box->plan.steps[why->step - 1].kind : PLAN_KIND_COUNT,
        .landlock_abi = landlock_abi(),
    };
    if (at_step) {
        facts.failed = protection_of_step(facts.failed_step);
    }
    compute(&facts, box->report);
    (void)fail_set(ret_fail, 0, "%s", box->report->refusal);
}

void box_report_verdict(struct box *box, const struct selftest_verdict *verdict)
{
    struct report_facts facts = {
        .spec = box->spec,
        .level = level_found(box->plan.level, box->selftest.record.has_proc),
        .has_hostname = box->selftest.record.has_hostname,
        .has_machine = box->selftest.record.has_machine,
        .cgroup = &box->cgroup,
        .verdict = verdict,
        .failed_step = PLAN_KIND_COUNT,
        .landlock_abi = landlock_abi(),
        .python_path = box->python.path,
        .python_version = box->version,
    };
    compute(&facts, box->report);
    box->report->protected_names = box->protected_names;
    box->report->protected_names.shared |= box_protected_is_shared(box->workspace_fd);
}

void box_report_expect(const struct box_spec *spec, struct box_report *report)
{
    struct report_facts facts = {.spec = spec,
                                 .level = level_expected(spec->isolation),
                                 .failed_step = PLAN_KIND_COUNT,
                                 .landlock_abi = landlock_abi()};
    report_compute(&facts, report);
}

bool box_confinement_failed(struct box *box, int status, struct fail *ret_fail)
{
    static const struct {
        const char *what;
        enum box_protection protection;
    } steps[] = {
        [WIRE_STEP_SESSION] = {"cannot create a process session for", BOX_PROTECTION_PRIVILEGES},
        [WIRE_STEP_LIMITS] = {"cannot set resource limits for", BOX_PROTECTION_PRIVILEGES},
        [WIRE_STEP_DESCRIPTORS] = {"cannot arrange descriptors for", BOX_PROTECTION_PRIVILEGES},
        [WIRE_STEP_SECCOMP] = {"cannot install seccomp filters for", BOX_PROTECTION_SECCOMP},
        [WIRE_STEP_EXECUTE] = {"cannot execute", BOX_PROTECTION_PYTHON},
        [WIRE_STEP_FIND] = {"the sandbox lacks a file of", BOX_PROTECTION_PYTHON},
        [WIRE_STEP_LANDLOCK] = {"cannot enter a Landlock domain for", BOX_PROTECTION_LANDLOCK},
        [WIRE_STEP_LISTENER] = {"cannot receive seccomp notifications for", BOX_PROTECTION_SECCOMP},
    };
    unsigned step = WIFEXITED(status) ? (unsigned)WEXITSTATUS(status) : 0;
    if (step >= sizeof steps / sizeof *steps || !steps[step].what) {
        return false;
    }
    box->building = steps[step].protection;
    (void)fail_set(ret_fail, 0, "%s the interpreter %s", steps[step].what, box->python.path);
    return true;
}

/* The limits: the effective ones if they are known, else the requested ones. */
static void describe_limits(const struct box_report *report, const struct box_spec *spec,
                            struct buf *out)
{
    const struct box_limits *limits = &spec->limits;
    buf_appendf(out, " Limits: %llu MiB of memory, %llu MiB of files, %u processes",
                (unsigned long long)(limits->memory_bytes >> 20),
                (unsigned long long)(box_spec_disk_bytes(spec) >> 20), limits->pids);
    if (limits->cpu_milli && report->protections[BOX_PROTECTION_CPU].state != BOX_PROTECTION_OFF) {
        buf_appendf(out, ", %g processors", limits->cpu_milli / 1000.0);
    }
    buf_append_text(out, ".");
}

static void describe_degraded(const struct box_report *report, struct buf *out)
{
    unsigned count = 0;
    for (unsigned i = 0; i < BOX_PROTECTION_COUNT; i++) {
        if (box_report_degraded(report) & 1U << i) {
            buf_appendf(out, "%s%s (%s)", count++ ? "; " : " Degraded on this machine: ",
                        box_protection_name((enum box_protection)i),
                        report->protections[i].consequence);
        }
    }
    buf_append_text(out, count ? ". `sandpiper doctor` shows the fixes." : "");
}

int box_report_describe(const struct box_report *report, const struct box_spec *spec,
                        struct buf *out)
{
    if (!report->usable) {
        return buf_appendf(out, "Tools refuse to run code here: %s", report->refusal);
    }
    const char *walls =
        report->level == BOX_CONTAINER
            ? "no namespaces; no privileges, system call filters, a supervisor process"
            : "namespaces, private root file system, no privileges, system call filters";
    bool landlock = report->protections[BOX_PROTECTION_LANDLOCK].state == BOX_PROTECTION_ON;
    bool full = report->level == BOX_FULL;
    bool named = !full || (report->tested && !box_report_degraded(report));
    buf_appendf(out, "Isolation: %s%s%s%s%s.", named ? box_level_name(report->level) : "",
                named ? ": " : "", walls, landlock ? ", Landlock" : "",
                report->tested ? ", all tested at start-up"
                               : "; each is tested before any code runs");
    describe_limits(report, spec, out);
    describe_degraded(report, out);
    return buf_error(out);
}
