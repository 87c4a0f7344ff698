#pragma once
#include "sandbox/cgroup.h"
#include "sandbox/host.h"
#include "sandbox/plan.h"
#include "sandbox/proof.h"

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
    int landlock_abi;
    const char *python_path;    /* NULL: unknown */
    const char *python_version; /* NULL: unknown */
};

void grade_compute(const struct grade_facts *facts, struct box_grade *grade);
