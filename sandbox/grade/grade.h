#pragma once
#include "sandbox/grade/host.h"
#include "sandbox/grade/proof.h"
#include "sandbox/limits/cgroup.h"
#include "sandbox/plan/plan.h"

/* The one place where it is decided what holds, what that means, and whether code may run. Pure: all
 * that it goes by is given to it. */

struct grade_facts {
    const struct box_spec *spec;
    enum box_profile profile;            /* planned, or found */
    const struct host *host;             /* for remedies; NULL: not looked at, none are given */
    const struct cgroup *cgroup;         /* made; NULL: unknown */
    const struct proof_verdict *verdict; /* of a box that ran; NULL: nothing is proven */
    const struct fail *failure;          /* why there is no box, or NULL */
    enum box_layer failed;               /* whose layer the failure is */
    enum plan_kind failed_step;          /* or PLAN_KIND_COUNT */
    bool has_hostname;                   /* of its own; counts where there is a verdict */
    int landlock_abi;
    const char *python_path;    /* NULL: unknown */
    const char *python_version; /* NULL: unknown */
};

/* What a profile makes of a layer when all goes as it is meant. */
struct grade_row {
    bool mandatory;             /* no code runs without it, whatever the flags say */
    enum box_layer_state state; /* OFF: the profile does without it */
    const char *detail;
    const char *consequence; /* of the state, or of lacking it */
};

const struct grade_row *grade_row(enum box_profile profile, enum box_layer layer);

void grade_compute(const struct grade_facts *facts, struct box_grade *grade);
