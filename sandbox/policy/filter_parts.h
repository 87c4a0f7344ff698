#pragma once
#include <errno.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fail.h"
#include "base/own.h"
#include "sandbox/policy/filter.h"

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
