#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox/programs/common/proc.h"
#include "sandbox/programs/common/tags.h"
#include "sandbox/protocol/init_protocol.h"

/* The number at column of the row that begins with name in /proc/PID/limits. */
static rlim_t limit_in(const char *limits, const char *name, unsigned column)
{
    const char *at = strstr(limits, name);
    if (!at) {
        return RLIM_INFINITY;
    }
    at += strlen(name);
    for (unsigned i = 0; i < column; i++) {
        at += strspn(at, " ");
        at += strcspn(at, " \n");
    }
    at += strspn(at, " ");
    return *at >= '0' && *at <= '9' ? strtoul(at, NULL, 10) : RLIM_INFINITY;
}

/* prlimit(2) refuses a guest with a separate uid: it checks the real ids. */
int tags_of(pid_t pid, struct tags *ret_tags)
{
    char text[4096];
    struct rlimit limit;
    struct rlimit counterpart;
    if (prlimit(pid, RLIMIT_MSGQUEUE, NULL, &limit) == 0 &&
        prlimit(pid, RLIMIT_LOCKS, NULL, &counterpart) == 0) {
        *ret_tags = (struct tags){limit.rlim_cur, limit.rlim_max, counterpart.rlim_max,
                                  counterpart.rlim_cur};
        return 0;
    }
    int error = errno;
    if (error != EPERM || read_proc(pid, "limits", text, sizeof text) == 0) {
        return -error;
    }
    *ret_tags = (struct tags){.soft = limit_in(text, "Max msgqueue size", 0),
                              .hard = limit_in(text, "Max msgqueue size", 1),
                              .counterpart = limit_in(text, "Max file locks", 1),
                              .cell = limit_in(text, "Max file locks", 0)};
    return 0;
}

uint32_t tags_id(const struct tags *tags)
{
    rlim_t sum = WIRE_TAG_SUM - tags->hard * WIRE_BRANCHES;
    if (tags->hard > WIRE_TAG_ZYGOTE || tags->hard == 0) {
        return 0;
    }
    if (tags->counterpart == RLIM_INFINITY) {
        return (uint32_t)tags->hard;
    }
    return tags->counterpart <= sum && sum - tags->counterpart < WIRE_BRANCHES
               ? (uint32_t)(tags->hard | (sum - tags->counterpart) << WIRE_BRANCH_SHIFT)
               : 0;
}

uint32_t tags_id_of(pid_t pid)
{
    struct tags tags = {};
    return tags_of(pid, &tags) == 0 ? tags_id(&tags) : 0;
}

bool tags_same(pid_t one, pid_t other)
{
    struct tags a = {};
    struct tags b = {};
    return tags_of(one, &a) == 0 && tags_of(other, &b) == 0 && a.hard == b.hard &&
           a.counterpart == b.counterpart && (a.hard == WIRE_TAG_ZYGOTE || tags_id(&a) != 0);
}
