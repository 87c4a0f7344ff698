/* What programs read in /sys to know their machine, as far as it is true for the sandbox: the
 * processors that it may use, its limits, its network. child_machine.c has the rest. */
#include <stdio.h>
#include <string.h>

#include "sandbox/host/host_facts.h"
#include "sandbox/plan/plan.h"
#include "sandbox/plan/plan_parts.h"
#include "sandbox/spec/spec.h"

#define SYSTEM "/sys/devices/system"

enum { NUMBER_BYTES = 6 };

/* The first ones, as many as --cpus allows at a time. */
static struct box_processors usable(const struct box_spec *spec, const struct host_facts *facts)
{
    struct box_processors all = facts->processors;
    unsigned most = spec->limits.cpu_milli ? (spec->limits.cpu_milli + 999) / 1000 : BOX_PROCESSORS;
    for (unsigned i = 0; i < BOX_PROCESSORS; i++) {
        if (box_processors_has(&all, i) && most-- == 0) {
            all.bits[i / 64] &= (1ULL << i % 64) - 1;
            memset(all.bits + i / 64 + 1, 0, sizeof all.bits - (i / 64 + 1) * sizeof *all.bits);
            break;
        }
    }
    return all;
}

/* "0-3,8", as in cpuset(7). */
static void write_list(const struct box_processors *processors, char *text, size_t size)
{
    size_t length = 0;
    for (unsigned i = 0; i < BOX_PROCESSORS; i++) {
        unsigned first = i;
        while (box_processors_has(processors, i)) {
            i++;
        }
        if (i > first) {
            int more = snprintf(text + length, size - length, i > first + 1 ? "%s%u-%u" : "%s%u",
                                length ? "," : "", first, i - 1);
            length += (size_t)more;
        }
    }
}

/* Words of 32 bits, the highest first, as in cpuset(7). */
static void write_map(const struct box_processors *processors, char *text, size_t size)
{
    size_t length = 0;
    for (unsigned i = BOX_PROCESSORS / 32; i-- > 0;) {
        unsigned word = (unsigned)(processors->bits[i / 2] >> 32 * (i % 2));
        if (word || length || i == 0) {
            length +=
                (size_t)snprintf(text + length, size - length, "%s%08x", length ? "," : "", word);
        }
    }
}

static void add_text(struct plan *plan, const char *path, const char *text)
{
    (void)plan_add_file(plan, path, text, text ? strlen(text) : 0);
}

void plan_add_machine(struct plan *plan, const struct box_spec *spec,
                      const struct host_facts *facts)
{
    static const char *const lists[] = {SYSTEM "/cpu/possible", SYSTEM "/cpu/present",
                                        SYSTEM "/cpu/online", SYSTEM "/node/node0/cpulist"};
    static const struct {
        const char *path;
        const char *text;
    } fixed[] = {
        {SYSTEM "/node/possible", "0\n"},
        {SYSTEM "/node/online", "0\n"},
        {SYSTEM "/node/node0/distance", "10\n"},
        {"/sys/class/net/lo/address", "00:00:00:00:00:00\n"},
        {"/sys/class/net/lo/addr_len", "6\n"},
        {"/sys/class/net/lo/flags", "0x9\n"}, /* IFF_UP, IFF_LOOPBACK */
        {"/sys/class/net/lo/ifindex", "1\n"},
        {"/sys/class/net/lo/mtu", "65536\n"},
        {"/sys/class/net/lo/operstate", "unknown\n"},
        {"/sys/class/net/lo/type", "772\n"}, /* ARPHRD_LOOPBACK */
    };
    char text[BOX_PROCESSORS * NUMBER_BYTES];
    plan->processors = usable(spec, facts);
    write_list(&plan->processors, text, sizeof text);
    const char *list = plan_keep(plan, "%s\n", text);
    for (unsigned i = 0; i < sizeof lists / sizeof *lists; i++) {
        add_text(plan, lists[i], list);
    }
    write_map(&plan->processors, text, sizeof text);
    add_text(plan, SYSTEM "/node/node0/cpumap", plan_keep(plan, "%s\n", text));
    for (unsigned i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        add_text(plan, fixed[i].path, fixed[i].text);
    }
    /* Of version 2 of control groups, whichever the host has. */
    add_text(plan, "/sys/fs/cgroup/memory.max",
             plan_keep(plan, "%llu\n", (unsigned long long)spec->limits.memory_bytes));
    add_text(plan, "/sys/fs/cgroup/cpu.max",
             spec->limits.cpu_milli
                 ? plan_keep(plan, "%llu 100000\n", spec->limits.cpu_milli * 100ULL)
                 : "max 100000\n");
    plan_add(plan, PLAN_PROCESSORS, NULL, SYSTEM "/cpu");
}
