/* Gathers the facts for a grade: from the host alone, from a box that could not be made, from one that
 * was proven. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "sandbox/box.h"
#include "sandbox/confine/landlock.h"
#include "sandbox/grade/grade.h"
#include "sandbox/grade/surrounding.h"

/* What is not named here belongs to the mounts. */
static const struct {
    enum plan_kind kind;
    enum box_layer layer;
} step_layers[] = {
    {PLAN_CGROUP_NAMESPACE, BOX_LAYER_NAMESPACES}, {PLAN_HOSTNAME, BOX_LAYER_NAMESPACES},
    {PLAN_LOOPBACK, BOX_LAYER_NAMESPACES},         {PLAN_NO_NAMESPACES, BOX_LAYER_NAMESPACES},
    {PLAN_SESSION, BOX_LAYER_PRIVILEGES},          {PLAN_IDENTITY, BOX_LAYER_PRIVILEGES},
    {PLAN_DESCRIPTORS, BOX_LAYER_PRIVILEGES},      {PLAN_CAPABILITIES, BOX_LAYER_PRIVILEGES},
    {PLAN_DEATH_SIGNAL, BOX_LAYER_PRIVILEGES},     {PLAN_SECCOMP, BOX_LAYER_SECCOMP},
    {PLAN_STEP_DOWN, BOX_LAYER_PRIVILEGES},
};

static enum box_layer layer_of_step(enum plan_kind kind)
{
    for (unsigned i = 0; i < sizeof step_layers / sizeof *step_layers; i++) {
        if (step_layers[i].kind == kind) {
            return step_layers[i].layer;
        }
    }
    return BOX_LAYER_MOUNTS;
}

/* Remedies want to know more of the host, which costs some file reads: only where there is a gap. */
static void compute(struct grade_facts *facts, struct box_grade *grade)
{
    struct host host;
    grade_compute(facts, grade);
    if (box_grade_gaps(grade)) {
        host_look(&host);
        facts->host = &host;
        grade_compute(facts, grade);
        facts->host = NULL;
    }
}

void box_grade_of_failure(struct box *box, const struct fail *why, struct fail *ret_fail)
{
    struct fail failure = *why; /* which may be ret_fail */
    bool at_step = why->step > 0 && why->step <= box->plan.step_count;
    struct grade_facts facts = {
        .spec = box->spec,
        .profile = box->plan.profile,
        .failure = &failure,
        .failed = box->building,
        .failed_step = at_step ? box->plan.steps[why->step - 1].kind : PLAN_KIND_COUNT,
        .landlock_abi = landlock_abi(),
    };
    if (at_step) {
        facts.failed = layer_of_step(facts.failed_step);
    }
    compute(&facts, box->grade);
    (void)fail_set(ret_fail, 0, "%s", box->grade->refusal);
}

void box_grade_of_verdict(struct box *box, const struct proof_verdict *verdict)
{
    struct grade_facts facts = {
        .spec = box->spec,
        .profile = surrounding_found(box->plan.profile, box->prove.record.has_proc),
        .has_hostname = box->prove.record.has_hostname,
        .cgroup = &box->cgroup,
        .verdict = verdict,
        .failed_step = PLAN_KIND_COUNT,
        .landlock_abi = landlock_abi(),
        .python_path = box->python.path,
        .python_version = box->version,
    };
    compute(&facts, box->grade);
    box->grade->protected_names = box->protected_names;
    box->grade->protected_names.shared |= box_protected_is_shared(box->workspace_fd);
}

void box_grade_expect(const struct box_spec *spec, struct box_grade *grade)
{
    struct grade_facts facts = {.spec = spec,
                                .profile = surrounding_expect(spec->isolation),
                                .failed_step = PLAN_KIND_COUNT,
                                .landlock_abi = landlock_abi()};
    grade_compute(&facts, grade);
}

bool box_confinement_failed(struct box *box, int status, struct fail *ret_fail)
{
    static const struct {
        const char *what;
        enum box_layer layer;
    } steps[] = {
        [WIRE_STEP_SESSION] = {"a new session for", BOX_LAYER_PRIVILEGES},
        [WIRE_STEP_LIMITS] = {"resource limits for", BOX_LAYER_PRIVILEGES},
        [WIRE_STEP_DESCRIPTORS] = {"descriptors for", BOX_LAYER_PRIVILEGES},
        [WIRE_STEP_SECCOMP] = {"seccomp filters for", BOX_LAYER_SECCOMP},
        [WIRE_STEP_EXECUTE] = {"execution of", BOX_LAYER_PYTHON},
        [WIRE_STEP_FIND] = {"the sandbox does not show a file that is needed for",
                            BOX_LAYER_PYTHON},
        [WIRE_STEP_LANDLOCK] = {"a Landlock domain for", BOX_LAYER_LANDLOCK},
        [WIRE_STEP_LISTENER] = {"notifications of seccomp for", BOX_LAYER_SECCOMP},
    };
    unsigned step = WIFEXITED(status) ? (unsigned)WEXITSTATUS(status) : 0;
    if (step >= sizeof steps / sizeof *steps || !steps[step].what) {
        return false;
    }
    box->building = steps[step].layer;
    (void)fail_set(ret_fail, 0, "%s the interpreter %s", steps[step].what, box->python.path);
    return true;
}
