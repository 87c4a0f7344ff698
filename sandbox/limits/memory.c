#include "sandbox/limits/memory.h"

#include <stdlib.h>
#include <sys/sysinfo.h>

#include "base/limits.h"
#include "base/own.h"
#include "sandbox/limits/cgroup_place.h"

uint64_t box_memory_default(uint64_t machine_bytes, uint64_t enclosing_bytes)
{
    bool is_enclosed = enclosing_bytes > 0 && enclosing_bytes < machine_bytes;
    uint64_t quarter = (is_enclosed ? enclosing_bytes : machine_bytes) / 4;
    quarter -= quarter % DEFAULT_MEMORY_STEP_BYTES;
    return quarter < DEFAULT_MEMORY_BYTES        ? DEFAULT_MEMORY_BYTES
           : quarter > DEFAULT_MEMORY_MOST_BYTES ? DEFAULT_MEMORY_MOST_BYTES
                                                 : quarter;
}

void box_memory_fit(struct box_spec *spec, bool is_given)
{
    struct sysinfo machine = {};
    defer_free struct cgroup_place *place = malloc(sizeof *place);
    if (place) {
        cgroup_place_read(place);
        spec->memory_enclosing = cgroup_place_memory(place);
    }
    (void)sysinfo(&machine); /* sysinfo(2) */
    if (!is_given) {
        spec->limits.memory_bytes = box_memory_default(
            (uint64_t)machine.totalram * machine.mem_unit, spec->memory_enclosing);
    }
    uint64_t most = spec->memory_enclosing / 4 * 3;
    if (most > 0 && most < spec->limits.memory_bytes) {
        spec->limits.memory_bytes = most;
    }
}
