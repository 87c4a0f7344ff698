#pragma once
#include <stdbool.h>

#include "base/fail.h"

struct plan_filter;

/* The programs of a box, compiled by libseccomp for ret_filter->arch. Each returns 0 with a program on
 * the heap, or -errno. The most restrictive answer of all that a process carries wins, seccomp(2). */

/* By name, for pid 1: what the guest may do and the little more that pid 1 needs. Unknown calls get
 * ENOSYS, so that libraries fall back as on an older kernel. */
int filter_build_init(struct plan_filter *ret_filter, struct fail *ret_fail);
/* By name, for the guest. */
int filter_build_names(struct plan_filter *ret_filter, struct fail *ret_fail);
/* For the guest, where Landlock has no scopes: signals, which pid 1 is asked about. */
int filter_build_signals(struct plan_filter *ret_filter, struct fail *ret_fail);
/* By argument, for the guest: what of an allowed call is refused all the same. Separate, because
 * libseccomp takes one comparison for an argument in a rule. landlock: it keeps the zygote's memory from code;
 * else the zygote hides it itself, by PR_SET_DUMPABLE. */
int filter_build_arguments(bool landlock, struct plan_filter *ret_filter, struct fail *ret_fail);
/* For a guest whose memory no control group counts: what the watchdog could not see is refused. */
int filter_build_uncounted(struct plan_filter *ret_filter, struct fail *ret_fail);
/* For the egress broker: its calls by name, sockets of TCP and UDP only. All else is EPERM. */
int filter_build_broker(struct plan_filter *ret_filter, struct fail *ret_fail);

/* The container grade (filter_container.c): there nothing but these and Landlock stands between the
 * guest and the other processes and files of its user. */
struct filter_container {
    int landlock_abi; /* what Landlock does not judge yet is judged here */
    bool egress;      /* there is a way out: sockets of TCP can be asked for */
};
/* What pid 1's program is asked about (init/notify.h), as SECCOMP_RET_USER_NOTIF: to be installed first. A
 * refusal by one of the others comes before the question, seccomp(2). */
int filter_build_notified(const struct filter_container *container, struct plan_filter *ret_filter,
                          struct fail *ret_fail);
/* Each with what the programs above refuse, and more. */
int filter_build_container_names(struct plan_filter *ret_filter, struct fail *ret_fail);
int filter_build_container_arguments(const struct filter_container *container,
                                     struct plan_filter *ret_filter, struct fail *ret_fail);
