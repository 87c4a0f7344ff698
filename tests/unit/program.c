#include "tests/unit/program.h"

#include <string.h>

#include "sandbox/plan/plan.h"
#include "tests/unit/unit.h"

static bool jumps(const struct sock_filter *step, uint32_t a)
{
    switch (BPF_OP(step->code)) {
    case BPF_JEQ:
        return a == step->k;
    case BPF_JGT:
        return a > step->k;
    case BPF_JGE:
        return a >= step->k;
    case BPF_JSET:
        return (a & step->k) != 0;
    default:
        fail_msg("jump %#x", step->code);
        return false;
    }
}

/* What the program answers to the call: SECCOMP_RET_*. */
static uint32_t interpret(const struct filter_program *filter, const struct seccomp_data *call)
{
    uint32_t a = 0;
    for (unsigned at = 0; at < filter->count; at++) {
        const struct sock_filter *step = &filter->program[at];
        switch (step->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            assert_true(step->k + sizeof a <= sizeof *call);
            memcpy(&a, (const char *)call + step->k, sizeof a);
            break;
        case BPF_ALU | BPF_AND | BPF_K:
            a &= step->k;
            break;
        case BPF_JMP | BPF_JA:
            at += step->k;
            break;
        case BPF_RET | BPF_K:
            return step->k;
        default:
            assert_int_equal(BPF_CLASS(step->code), BPF_JMP);
            at += jumps(step, a) ? step->jt : step->jf;
        }
    }
    fail_msg("the program runs off its end");
    return 0;
}

int program_action(const struct filter_program *filter, const struct seccomp_data *call)
{
    uint32_t said = interpret(filter, call);
    switch (said & SECCOMP_RET_ACTION_FULL) {
    case SECCOMP_RET_ALLOW:
        return PROGRAM_ALLOW;
    case SECCOMP_RET_USER_NOTIF:
        return PROGRAM_ASK;
    case SECCOMP_RET_ERRNO:
        return said & SECCOMP_RET_DATA ? (int)(said & SECCOMP_RET_DATA) : PROGRAM_PRETEND;
    default:
        assert_int_equal(said, SECCOMP_RET_KILL_PROCESS);
        return PROGRAM_KILL;
    }
}
