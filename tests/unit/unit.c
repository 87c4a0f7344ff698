#include "tests/unit/unit.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

void unit_skip(const char *feature, const char *why)
{
    const char *required = getenv("SANDPIPER_TEST_REQUIRE");
    size_t size = strlen(feature);
    while (required && *required) {
        size_t length = strcspn(required, ",");
        if (length == size && strncmp(required, feature, size) == 0) {
            fail_msg("%s is required: %s", feature, why);
        }
        required += length;
        required += *required == ',';
    }
    print_message("# skipped: %s: %s\n", feature, why);
    skip();
}

bool unit_deny(long number, int error)
{
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof steps / sizeof *steps, .filter = steps};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}
