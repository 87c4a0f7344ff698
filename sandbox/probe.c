/* For doctor: starts, checks and kills one real sandbox. */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/loop.h"
#include "sandbox/box.h"
#include "sandbox/box/box.h"
#include "sandbox/host/host_facts.h"
#include "sandbox/interpreter/interpreter.h"
#include "sandbox/report/isolation.h"
#include "sandbox/unprivileged/unprivileged.h"

enum { PROBE_MS = 20000 };

/* The sandbox is ready, or has failed. */
static void probe_on_state(void *arg, enum box_state, const struct fail *)
{
    *(bool *)arg = true;
}

void box_probe(const struct box_spec *spec, struct box_report *report)
{
    struct loop *loop = NULL;
    bool ended = false;
    struct box *box = NULL;
    struct fail fail = {};
    box_report_expect(spec, report);
    report->usable = false;
    if (loop_new(&loop) < 0) {
        return;
    }
    struct box_owner owner = {probe_on_state, &ended, report};
    int r = box_start(loop, spec, NULL, &owner, &box, &fail);
    uint64_t deadline_ns = clock_now_ns() + PROBE_MS * CLOCK_NS_PER_MS;
    while (r == 0 && !ended && clock_now_ns() < deadline_ns) {
        r = loop_step(loop, 100);
    }
    if (box && !ended) {
        (void)fail_set(&fail, ETIMEDOUT, "the interpreter does not respond");
        box_broken(box, &fail);
    }
    box_free(box);
    loop_free(loop);
}

int box_plan_print(const struct box_spec *spec, struct buf *out, struct fail *ret_fail)
{
    struct python *python = calloc(1, sizeof *python);
    struct plan *plan = calloc(1, sizeof *plan);
    struct plan_content content;
    int r = python && plan ? 0 : fail_set(ret_fail, ENOMEM, "the sandbox's plan");
    r = r ? r : python_find(spec, python, ret_fail);
    zygote_content(spec, NULL, &content);
    content.python = python;
    struct host_facts facts;
    host_facts_read(spec, &facts);
    r = r ? r : plan_build(level_plan(spec), spec, &facts, &content, plan, ret_fail);
    if (r == 0) {
        r = plan_print(plan, out);
        plan_done(plan);
    }
    free(python);
    free(plan);
    return r;
}
