#pragma once
#include "sandbox/box/box.h"
#include "sandbox/report/selftest.h"

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
