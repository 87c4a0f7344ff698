#include "base/buf.h"
#include "sandbox/plan/plan.h"
#include "sandbox/report/isolation.h"
#include "sandbox/spec/spec.h"
#include "sandbox/workspace/protected.h"

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
