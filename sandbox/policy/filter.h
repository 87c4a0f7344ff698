#pragma once
#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/fail.h"

struct filter_program {
    struct sock_filter *program; /* heap; a plan's may be of the build (made_filters) */
    unsigned count;
    uint32_t arch; /* whose calls it checks: AUDIT_ARCH_* of linux/audit.h; 0: this machine's */
};

/* The programs of a sandbox, compiled for ret_filter->arch: by name here, by
 * argument with libseccomp. Each function returns 0 with a program on the heap, or -errno. The most
 * restrictive result of all programs that a process carries wins, seccomp(2). */

/* By name, for init: what the guest may do and the little more that init needs. Unknown calls fail
 * with ENOSYS, so that libraries fall back as on an older kernel. */
int filter_build_init(struct filter_program *ret_filter, struct fail *ret_fail);
/* By name, for the guest. */
int filter_build_names(struct filter_program *ret_filter, struct fail *ret_fail);
/* For the guest, as SECCOMP_RET_USER_NOTIF: signals, where Landlock has no scopes for them; and
 * what changes files, where the workspace is written through. At least one of both. */
struct filter_asks {
    bool signals;
    bool writes;
};
int filter_build_asks(const struct filter_asks *asks, struct filter_program *ret_filter,
                      struct fail *ret_fail);
/* Whether a call that init has received is interrupted by a fatal signal only: without that (before
 * Linux 5.19), every signal would end an open(2) with EINTR, seccomp_unotify(2). */
bool filter_can_ask_of_writes(void);
/* By argument, for the guest: what is refused of an allowed call. Separate, because libseccomp
 * takes one comparison for each argument in a rule. landlock: it keeps the zygote's memory from
 * code; otherwise the zygote hides it with PR_SET_DUMPABLE. */
int filter_build_arguments(bool landlock, struct filter_program *ret_filter, struct fail *ret_fail);
/* For a guest whose memory no control group counts: refuses what the watchdog could not see. */
int filter_build_uncounted(struct filter_program *ret_filter, struct fail *ret_fail);
/* For the egress proxy: its calls by name, sockets of TCP and UDP only. Everything else is
 * EPERM. */
int filter_build_proxy(struct filter_program *ret_filter, struct fail *ret_fail);
/* For the applying process: its calls by name, which make no process, socket or device. Everything
 * else is EPERM. */
int filter_build_apply(struct filter_program *ret_filter, struct fail *ret_fail);

/* The container level (plan_container.c): only these filters and Landlock separate the guest from
 * its user's other processes and files. */
struct filter_container {
    int landlock_abi; /* the filters check what this version does not */
    bool egress;      /* an egress proxy runs: the guest may request TCP sockets */
    bool writes;      /* what changes files is notified */
};
/* The calls that the supervisor decides, as SECCOMP_RET_USER_NOTIF. Installed first: a refusal by
 * another filter takes precedence, seccomp(2). */
int filter_build_notified(const struct filter_container *container,
                          struct filter_program *ret_filter, struct fail *ret_fail);
/* Each refuses what the program above refuses, and more. */
int filter_build_container_names(struct filter_program *ret_filter, struct fail *ret_fail);
int filter_build_container_arguments(const struct filter_container *container,
                                     struct filter_program *ret_filter, struct fail *ret_fail);

/* Filters of level full that the build has compiled (build-aux/make_filters.c): that takes half a
 * millisecond of each start. */
enum made_filter {
    MADE_INIT,
    MADE_NAMES,
    MADE_ARGUMENTS,
    MADE_WITH_LANDLOCK, /* by argument */
    MADE_FILTERS,
};

/* All are empty where the build could not run programs of the target. */
extern const struct filter_program made_filters[MADE_FILTERS];
