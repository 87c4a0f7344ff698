/* Programs that decide by the number of a call alone. Sorted by number, the lists make about a
 * hundred ranges with the same action each; the program finds the range by halving. The kernel runs
 * it once for each number that is allowed: it keeps the result (Linux 5.11). */
#include <stdlib.h>

#include "sandbox/policy/filter.h"
#include "sandbox/policy/filter_parts.h"

enum {
    NUMBERS = 1024,    /* above every call's number on the 64-bit architectures of Linux */
    RANGES_MOST = 255, /* half of them are skipped by a jump, which covers up to 255 steps */
    HEAD_STEPS = 4,
};

struct range {
    uint32_t start; /* its first number; it ends before the next range's, the last one nowhere */
    uint32_t action;
};

static const uint32_t absent = SECCOMP_RET_ERRNO | ENOSYS;

static int fill(const struct filter_named *lists, uint32_t arch, uint32_t actions[NUMBERS])
{
    for (; lists->names; lists++) {
        for (const char *const *name = lists->names; *name; name++) {
            int number = seccomp_syscall_resolve_name_arch(arch, *name);
            if (number < 0) {
                continue; /* unknown to this libseccomp, or missing on this architecture */
            }
            if (number >= NUMBERS) {
                return -ERANGE;
            }
            actions[number] = actions[number] ? actions[number] : lists->action;
        }
    }
    return 0;
}

static unsigned find_ranges(const uint32_t actions[NUMBERS], struct range ranges[NUMBERS + 1])
{
    unsigned count = 0;
    for (uint32_t number = 0; number <= NUMBERS; number++) {
        uint32_t action = number < NUMBERS && actions[number] ? actions[number] : absent;
        if (count == 0 || action != ranges[count - 1].action) {
            ranges[count++] = (struct range){.start = number, .action = action};
        }
    }
    return count;
}

/* Compiles the ranges for a number that is in one of them, to 2 * count - 1 steps. */
static unsigned compile(const struct range *ranges, unsigned count, struct sock_filter *steps)
{
    if (count == 1) {
        steps[0] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, ranges->action);
        return 1;
    }
    unsigned half = count / 2;
    unsigned below = compile(ranges, half, steps + 1);
    steps[0] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, ranges[half].start,
                                            (uint8_t)below, 0);
    return 1 + below + compile(ranges + half, count - half, steps + 1 + below);
}

int filter_build_named(const struct filter_named *lists, struct filter_program *ret_filter,
                       struct fail *ret_fail)
{
    uint32_t actions[NUMBERS] = {};
    struct range ranges[NUMBERS + 1];
    uint32_t arch = ret_filter->arch ? ret_filter->arch : seccomp_arch_native();
    int r = fill(lists, arch, actions);
    unsigned count = r < 0 ? 0 : find_ranges(actions, ranges);
    if (r < 0 || count > RANGES_MOST) {
        return fail_set(ret_fail, ERANGE, "seccomp rules by name for architecture %#x", arch);
    }
    struct sock_filter *steps = malloc((HEAD_STEPS + 2 * count) * sizeof *steps);
    if (!steps) {
        return fail_set(ret_fail, ENOMEM, "seccomp filter");
    }
    steps[0] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    steps[1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, arch, 1, 0);
    steps[2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, absent);
    steps[3] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    ret_filter->count = HEAD_STEPS + compile(ranges, count, steps + HEAD_STEPS);
    ret_filter->program = steps;
    return 0;
}
