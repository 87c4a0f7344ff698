#pragma once
#include "base/fail.h"

struct plan_filter;

/* The programs of a box, compiled by libseccomp for ret_filter->arch. Each returns 0 with a program on
 * the heap, or -errno. The most restrictive answer of all that a process carries wins, seccomp(2). */

/* By name, for pid 1: what the guest may do and the little more that pid 1 needs. Unknown calls get
 * ENOSYS, so that libraries fall back as on an older kernel. */
int filter_build_init(struct plan_filter *ret_filter, struct fail *ret_fail);
/* By name, for the guest. */
int filter_build_names(struct plan_filter *ret_filter, struct fail *ret_fail);
/* By argument, for the guest: what of an allowed call is refused all the same. Separate, because
 * libseccomp takes one comparison for an argument in a rule. */
int filter_build_arguments(struct plan_filter *ret_filter, struct fail *ret_fail);
/* For a guest whose memory no control group counts: what the watchdog could not see is refused. */
int filter_build_uncounted(struct plan_filter *ret_filter, struct fail *ret_fail);
/* For the egress broker: its calls by name, sockets of TCP and UDP only. All else is EPERM. */
int filter_build_broker(struct plan_filter *ret_filter, struct fail *ret_fail);
