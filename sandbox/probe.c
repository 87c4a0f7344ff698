/* For doctor: one real box is started, looked at and ended. */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/loop.h"
#include "sandbox/box.h"

enum { PROBE_MS = 20000 };

struct probe {
    bool ended; /* one way or the other */
    bool ready;
};

static void probe_on_state(void *arg, enum box_state state, const struct fail *)
{
    struct probe *probe = arg;
    probe->ended = true;
    probe->ready = state == BOX_READY;
}

void box_probe(const struct box_spec *spec, struct box_grade *grade)
{
    struct loop *loop = NULL;
    struct probe probe = {};
    struct box *box = NULL;
    struct fail fail = {};
    box_grade_expect(spec, grade);
    grade->usable = false;
    if (loop_new(&loop) < 0) {
        return;
    }
    struct box_owner owner = {probe_on_state, &probe, grade};
    int r = box_start(loop, spec, NULL, &owner, &box, &fail);
    uint64_t deadline_ns = clock_now_ns() + PROBE_MS * CLOCK_NS_PER_MS;
    while (r == 0 && !probe.ended && clock_now_ns() < deadline_ns) {
        r = loop_step(loop, 100);
    }
    if (box && !probe.ended) {
        (void)fail_set(&fail, ETIMEDOUT, "the interpreter does not answer");
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
    r = r ? r : plan_build(spec, python, &content, plan, ret_fail);
    if (r == 0) {
        box_adapt_plan(plan);
        r = plan_print(plan, out);
        plan_done(plan);
    }
    free(python);
    free(plan);
    return r;
}
