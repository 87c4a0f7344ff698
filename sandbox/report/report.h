#pragma once
#include "sandbox/box/box.h"
#include "sandbox/host/host_facts.h"
#include "sandbox/limits/cgroup.h"
#include "sandbox/plan/plan.h"
#include "sandbox/report/isolation.h"
#include "sandbox/report/selftest.h"

/* The only place that decides which protections are on, what that means, and whether code may run.
 * Pure: callers pass everything it needs. */

struct report_facts {
    const struct box_spec *spec;
    enum box_level level;                   /* planned, or effective */
    const struct host *host;                /* for fixes; NULL: not examined, no fixes */
    const struct cgroup *cgroup;            /* set up; NULL: unknown */
    const struct selftest_verdict *verdict; /* of a sandbox that ran; NULL: not tested */
    const struct fail *failure;             /* why there is no sandbox, or NULL */
    enum box_protection failed;             /* the protection that failed */
    enum plan_kind failed_step;             /* or PLAN_KIND_COUNT */
    bool has_hostname;                      /* the sandbox has its own; only with a verdict */
    bool has_machine; /* its /proc tells of the machine; only with a verdict */
    int landlock_abi;
    const char *python_path;    /* NULL: unknown */
    const char *python_version; /* NULL: unknown */
};

/* A protection at an isolation level if everything works as intended. */
struct level_row {
    bool mandatory;                  /* no code runs without it, whatever the flags say */
    enum box_protection_state state; /* OFF: the isolation level does not have it */
    const char *detail;
    const char *consequence; /* of the state, or of its absence */
};

void report_compute(const struct report_facts *facts, struct box_report *report);

/* --- remedy.c: fixes for missing protections: exact commands for this host. Pure. --- */

/* Whether the kernel executes no program that is in memory, which every isolation level needs. */
bool remedy_is_memfd(const struct host *host, int error);

/* A mandatory protection that could not be set up. kind: the failed step of the plan, or
 * PLAN_KIND_COUNT if it was none of them; error: its errno value. */
void remedy_for_protection(enum box_protection protection, enum plan_kind kind, int error,
                           const struct host *host, struct box_report *report);

/* The overlay of a copy-on-write workspace could not be mounted; see child_overlay(). */
void remedy_for_overlay(int error, const struct box_spec *spec,
                        struct box_protection_report *entry);

/* The self-test found that a protection which was set up has no effect. */
void remedy_for_finding(struct box_protection_report *entry);

/* A sandbox without /proc: what hides parts of the enclosing /proc, and the fix. */
void remedy_for_proc(const struct host *host, struct box_protection_report *entry);

/* No Landlock: why, and the fix. */
void remedy_for_landlock(const struct host *host, struct box_protection_report *entry);

/* No control group for a limit. known: the fix outside of a container that cgroup.c suggests, or
 * NULL. */
void remedy_for_limit(const struct host *host, const char *known,
                      struct box_protection_report *entry);

/* The self-test and the isolation report of one sandbox. */

/* Starts the self-test in the sandbox; its result goes to selftest_done(). 0 or -errno */
int selftest_start(struct box *box, struct fail *ret_fail);
void selftest_stop(struct box *box); /* idempotent */
/* The interpreter is ready: starts the self-test's time limit. */
void selftest_wait(struct box *box);
/* After the self-test: checks the sandbox, its limits, and the interpreter, which has this pid
 * outside. 0, or -ESRCH when the interpreter has just exited. */
int selftest_check(const struct box *box, pid_t pid, struct selftest_verdict *verdict);

/* Fill box->report; ret_fail (NULL: not needed) gets the message with the fix. */
void box_report_failure(struct box *box, const struct fail *why, struct fail *ret_fail);
void box_report_verdict(struct box *box, const struct selftest_verdict *verdict);

/* Whether this exit status of an interpreter means that it could not be confined or executed; then
 * ret_fail has the failed step, and box->building its protection. */
bool box_confinement_failed(struct box *box, int status, struct fail *ret_fail);
