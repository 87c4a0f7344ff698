#include <stdio.h>

#include "base/buf.h"
#include "sandbox/grade/grade.h"

/* Appends text, with a comma before all but the first, counted in *count. */
static int list(struct buf *out, unsigned *count, const char *text)
{
    return (*count)++ ? buf_appendf(out, ", %s", text) : buf_append_text(out, text);
}

/* What bounds the code: by the kernel where that is known, else only what is asked for. */
static int describe_limits(const struct box_grade *grade, const struct box_spec *spec,
                           struct buf *out)
{
    const struct box_limits *limits = &spec->limits;
    char text[64];
    unsigned count = 0;
    int r = buf_append_text(out, " Limits: ");
    (void)snprintf(text, sizeof text, "%llu MiB of memory",
                   (unsigned long long)(limits->memory_bytes >> 20));
    r = r ? r : list(out, &count, text);
    (void)snprintf(text, sizeof text, "%llu MiB of files",
                   (unsigned long long)(box_spec_disk_bytes(spec) >> 20));
    r = r ? r : list(out, &count, text);
    (void)snprintf(text, sizeof text, "%u processes", limits->pids);
    r = r ? r : list(out, &count, text);
    if (r == 0 && limits->cpu_milli && grade->layers[BOX_LAYER_CPU].state != BOX_LAYER_OFF) {
        (void)snprintf(text, sizeof text, "%g processors", limits->cpu_milli / 1000.0);
        r = list(out, &count, text);
    }
    return r ? r : buf_append_text(out, ".");
}

static int describe_gaps(const struct box_grade *grade, struct buf *out)
{
    unsigned count = 0;
    int r = 0;
    for (unsigned i = 0; r == 0 && i < BOX_LAYER_COUNT; i++) {
        if (box_grade_gaps(grade) & 1U << i) {
            r = buf_appendf(out, "%s%s (%s)", count++ ? "; " : " Weaker on this machine: ",
                            box_layer_name((enum box_layer)i), grade->layers[i].consequence);
        }
    }
    return r == 0 && count ? buf_append_text(out, ". `sandpiper doctor` says what to do.") : r;
}

/* What stands around the code, by profile. */
static const char *const walls[] = {
    [BOX_FULL] = "namespaces, a root of its own, no privileges, system call filters",
    [BOX_FULL_WITHOUT_PROC] = "namespaces, a root of its own, no privileges, system call filters",
    [BOX_CONTAINER] = "no namespaces; no privileges, system call filters, a guardian process",
};

int box_grade_describe(const struct box_grade *grade, const struct box_spec *spec, struct buf *out)
{
    if (!grade->usable) {
        return buf_appendf(out, "Tools refuse to run code here: %s", grade->refusal);
    }
    bool landlock = grade->layers[BOX_LAYER_LANDLOCK].state == BOX_LAYER_ON;
    bool full = grade->profile == BOX_FULL;
    bool named = full ? grade->proven && !box_grade_gaps(grade) : true;
    int r =
        buf_appendf(out, "Isolation: %s%s%s%s%s.", named ? box_profile_name(grade->profile) : "",
                    named ? ": " : "", walls[grade->profile], landlock ? ", Landlock" : "",
                    grade->proven ? ", all proven" : "; each is proven before any code runs");
    r = r ? r : describe_limits(grade, spec, out);
    return r ? r : describe_gaps(grade, out);
}
