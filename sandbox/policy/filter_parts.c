#include "sandbox/policy/filter_parts.h"

#include <linux/netlink.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox/policy/filter.h"

enum { TYPES = 16 }; /* flags are the bits above, socket(2) */

void filter_context_release(scmp_filter_ctx *context)
{
    if (*context) {
        seccomp_release(*context);
    }
}

/* Rules name calls by this machine's numbers; libseccomp translates them. */
static int context_target(scmp_filter_ctx context, uint32_t arch)
{
    if (arch == 0 || arch == seccomp_arch_native()) {
        return 0;
    }
    int r = seccomp_arch_add(context, arch);
    return r ? r : seccomp_arch_remove(context, SCMP_ARCH_NATIVE);
}

int filter_context_new(uint32_t action, uint32_t arch, scmp_filter_ctx *ret_context)
{
    scmp_filter_ctx context = seccomp_init(action);
    *ret_context = context;
    if (!context) {
        return -ENOMEM;
    }
    /* Not KILL: the kernel would write an audit record for each, with a name that code has
     * chosen. */
    int r = seccomp_attr_set(context, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));
    r = r ? r : seccomp_attr_set(context, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    return r ? r : context_target(context, arch);
}

int filter_add_names(scmp_filter_ctx context, uint32_t action, const char *const *names)
{
    for (; *names; names++) {
        int number = seccomp_syscall_resolve_name(*names);
        if (number < 0) {
            continue; /* unknown to this libseccomp, or missing on this architecture */
        }
        int r = seccomp_rule_add(context, action, number, 0);
        if (r < 0 && r != -EEXIST && r != -EDOM) {
            return r;
        }
    }
    return 0;
}

int filter_add_rules(scmp_filter_ctx context, const struct filter_rule *rules, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct filter_rule *rule = &rules[i];
        int number = seccomp_syscall_resolve_name(rule->name);
        if (number < 0) {
            continue;
        }
        struct scmp_arg_cmp compare = {
            .arg = rule->argument, .op = rule->compare, .datum_a = rule->a, .datum_b = rule->b};
        int r = seccomp_rule_add_array(context, SCMP_ACT_ERRNO((uint32_t)rule->error), number, 1,
                                       &compare);
        if (r < 0 && r != -EEXIST && r != -EDOM) {
            return r;
        }
    }
    return 0;
}

static int refuse(scmp_filter_ctx context, int error, int number, struct scmp_arg_cmp compare)
{
    return seccomp_rule_add_array(context, SCMP_ACT_ERRNO((uint32_t)error), number, 1, &compare);
}

/* Refuses an argument that is not in the set. */
static int refuse_others(scmp_filter_ctx context, int error, const struct filter_sockets *sockets,
                         unsigned argument, unsigned set)
{
    unsigned number = 0;
    int r = 0;
    for (; r == 0 && set >> number; number++) {
        r = set >> number & 1
                ? 0
                : refuse(context, error, sockets->call, SCMP_CMP(argument, SCMP_CMP_EQ, number));
    }
    return r ? r : refuse(context, error, sockets->call, SCMP_CMP(argument, SCMP_CMP_GE, number));
}

int filter_add_sockets(scmp_filter_ctx context, const struct filter_sockets *allowed)
{
    int r = refuse_others(context, EAFNOSUPPORT, allowed, 0, allowed->families);
    bool route = allowed->families >> AF_NETLINK & 1;
    for (unsigned type = 0; r == 0 && type < TYPES; type++) {
        struct scmp_arg_cmp compare[] = {SCMP_A1(SCMP_CMP_MASKED_EQ, TYPES - 1, type),
                                         SCMP_A0(SCMP_CMP_NE, AF_NETLINK)};
        r = allowed->types >> type & 1
                ? 0
                : seccomp_rule_add_array(context, SCMP_ACT_ERRNO(EPERM), allowed->call,
                                         route && type == SOCK_RAW ? 2 : 1, compare);
    }
    if (r == 0 && route) {
        r = seccomp_rule_add(context, SCMP_ACT_ERRNO(EPROTONOSUPPORT), allowed->call, 2,
                             SCMP_A0(SCMP_CMP_EQ, AF_NETLINK), SCMP_A2(SCMP_CMP_NE, NETLINK_ROUTE));
    }
    return r ? r : refuse_others(context, EPROTONOSUPPORT, allowed, 2, allowed->protocols);
}

/* libseccomp before 2.6 can write only to a descriptor. */
int filter_export(scmp_filter_ctx context, int r, const char *rules,
                  struct filter_program *ret_filter, struct fail *ret_fail)
{
    if (r < 0) {
        return fail_set(ret_fail, -r, "%s", rules);
    }
    defer_close int fd = memfd_create("filter", MFD_CLOEXEC);
    if (fd < 0) {
        return fail_set(ret_fail, errno, "memfd_create");
    }
    r = seccomp_export_bpf(context, fd);
    struct stat st;
    if (r < 0 || fstat(fd, &st) < 0) {
        return fail_set(ret_fail, r < 0 ? -r : errno, "cannot export a seccomp filter");
    }
    defer_free void *bytes = malloc((size_t)st.st_size);
    if (!bytes || pread(fd, bytes, (size_t)st.st_size, 0) != st.st_size) {
        return fail_set(ret_fail, bytes ? EIO : ENOMEM, "seccomp filter");
    }
    ret_filter->count = (unsigned)((size_t)st.st_size / sizeof(struct sock_filter));
    ret_filter->program = take_ptr(bytes);
    return 0;
}

int filter_export_with_lists(scmp_filter_ctx context, int r, const char *rules,
                             struct filter_program *ret_filter, struct fail *ret_fail)
{
    struct filter_program filter = {.arch = ret_filter->arch};
    r = filter_export(context, r, rules, &filter, ret_fail);
    if (r < 0) {
        return r;
    }
    r = filter_add_lists(&filter);
    if (r < 0) {
        free(filter.program);
        return fail_set(ret_fail, -r, "seccomp lists of options");
    }
    *ret_filter = filter;
    return 0;
}
