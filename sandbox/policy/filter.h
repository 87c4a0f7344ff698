#pragma once
#include <errno.h>
#include <linux/filter.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fail.h"
#include "base/own.h"

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

/* Parts of the filters in filter.h: libseccomp's contexts, rules as data, and the rules for the
 * guest at each isolation level. All functions return 0 or a negative errno value of
 * libseccomp's. */

#define FILTER_LOW_32 0xffffffffUL /* the kernel ignores the rest of an int: CVE-2019-10063 */

struct filter_rule {
    int error;
    const char *name;
    unsigned argument;
    enum scmp_compare compare;
    uint64_t a;
    uint64_t b;
};

#define FILTER_MASKED(error, name, argument, mask, value)                                          \
    {                                                                                              \
        error, name, argument, SCMP_CMP_MASKED_EQ, mask, value                                     \
    }
#define FILTER_FLAG(name, argument, flag) FILTER_MASKED(EPERM, name, argument, flag, flag)
#define FILTER_VALUE(name, argument, value)                                                        \
    FILTER_MASKED(EPERM, name, argument, FILTER_LOW_32, value)

/* Sockets that code may make, each set as bits 1 << number. */
struct filter_sockets {
    int call;
    unsigned families;
    unsigned types;
    unsigned protocols;
};

/* action: for calls without a rule. arch: whose calls, as in struct filter_program; the filter
 * allows only native ones: 32-bit numbers and x32 are ENOSYS. The caller owns *ret_context, also
 * after an error. 0 or -errno */
int filter_context_new(uint32_t action, uint32_t arch, scmp_filter_ctx *ret_context);
void filter_context_release(scmp_filter_ctx *context);
#define FILTER_CONTEXT OWNED(filter_context_release) scmp_filter_ctx

int filter_add_names(scmp_filter_ctx context, uint32_t action, const char *const *names);
int filter_add_rules(scmp_filter_ctx context, const struct filter_rule *rules, size_t count);
/* Any other family is EAFNOSUPPORT, type EPERM, protocol EPROTONOSUPPORT. With AF_NETLINK only
 * NETLINK_ROUTE, and also as SOCK_RAW. */
int filter_add_sockets(scmp_filter_ctx context, const struct filter_sockets *allowed);
/* Refusals by argument that each isolation level has, except sockets. */
int filter_add_common(scmp_filter_ctx context);

/* Converts the rules into a program on the heap. r: the result of adding them; if negative, fails
 * with it and names them. */
int filter_export(scmp_filter_ctx context, int r, const char *rules,
                  struct filter_program *ret_filter, struct fail *ret_fail);
/* The same after the lists of calls' options, which are the same at each isolation level. */
int filter_export_with_lists(scmp_filter_ctx context, int r, const char *rules,
                             struct filter_program *ret_filter, struct fail *ret_fail);

/* Calls by name, and the action for them: SECCOMP_RET_* of linux/seccomp.h. */
struct filter_named {
    const char *const *names; /* NULL ends the list; what the architecture lacks is skipped */
    uint32_t action;
};
/* Builds a program that decides by the call's number alone, without libseccomp, which would take
 * milliseconds. The first list that has a call counts; others fail with ENOSYS. lists: ended by one
 * without names. */
int filter_build_named(const struct filter_named *lists, struct filter_program *ret_filter,
                       struct fail *ret_fail);

/* Notifications of calls that change names or attributes, or open for writing. */
int filter_add_writes(scmp_filter_ctx context);

/* Calls that send signals; NULL ends the list. */
extern const char *const filter_signals[];

/* System calls by name. Filters skip names that the architecture or libseccomp does not know. */

extern const char *const syscalls_allowed[];
/* Calls by programs that handle a refusal: EPERM instead of ENOSYS. */
extern const char *const syscalls_refused[];
/* The same with EINVAL, as for descriptors of another kind. */
extern const char *const syscalls_unsuited[];
/* Allowed only to init. */
extern const char *const syscalls_init[];
/* All calls of the egress proxy except socket(2), whose arguments are checked. */
extern const char *const syscalls_proxy[];
/* All calls of the applying process. */
extern const char *const syscalls_apply[];
