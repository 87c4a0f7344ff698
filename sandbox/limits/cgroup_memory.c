/* Memory by control groups: of the box's own, and of the one that the server is in, a container's or a service's.
 * At that one's limit the kernel may kill for memory, too. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/parse.h"
#include "sandbox/limits/cgroup.h"
#include "sandbox/limits/cgroup_place.h"

/* --- around the server --- */

void cgroup_fit_memory(struct box_spec *spec)
{
    struct cgroup_place *place = malloc(sizeof *place);
    if (place) {
        cgroup_place_read(place);
        spec->memory_around = cgroup_place_memory(place);
    }
    uint64_t most = spec->memory_around / 4 * 3;
    if (most > 0 && most < spec->limits.memory_bytes) {
        spec->limits.memory_bytes = most;
    }
    free(place);
}

/* How many processes of this group the kernel has killed for memory. Version 1 tells since Linux 4.13. */
static uint64_t count_kills(int folder_fd, bool unified)
{
    char text[1024];
    const char *rest = NULL;
    uint64_t kills = 0;
    const char *file = unified ? "memory.events" : "memory.oom_control";
    if (fd_read_text_at(folder_fd, file, text, sizeof text) < 0) {
        return 0;
    }
    const char *found = strstr(text, "oom_kill ");
    return found && parse_digits(found + strlen("oom_kill "), &kills, &rest) == 0 ? kills : 0;
}

void cgroup_watch_around(struct cgroup *cgroup, const struct cgroup_place *place)
{
    char path[PATH_MAX];
    cgroup->around_unified = place->v1_mount[CGROUP_MEMORY][0] == '\0';
    const char *mount = cgroup->around_unified ? place->v2_mount : place->v1_mount[CGROUP_MEMORY];
    const char *group = cgroup->around_unified ? place->v2_path : place->v1_path[CGROUP_MEMORY];
    /* Where a container has no namespace of groups its own is at the top of what it sees. */
    bool joined = mount[0] && cgroup_place_join(path, mount, group);
    int fd = joined ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    fd = fd < 0 && mount[0] ? open(mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : fd;
    cgroup->around_fd = fd;
    cgroup->around_watched = fd >= 0;
    cgroup->around_kills = fd < 0 ? 0 : count_kills(fd, cgroup->around_unified);
}

/* --- kills --- */

static bool has_grown(uint64_t *seen, uint64_t kills)
{
    bool grown = kills > *seen;
    *seen = kills;
    return grown;
}

bool cgroup_oom_happened(struct cgroup *cgroup)
{
    if (cgroup_has(cgroup, CGROUP_MEMORY)) {
        return has_grown(&cgroup->oom_kills,
                         count_kills(cgroup->controller_fd[CGROUP_MEMORY], cgroup->unified));
    }
    return cgroup->around_watched &&
           has_grown(&cgroup->around_kills, count_kills(cgroup->around_fd, cgroup->around_unified));
}

/* --- use --- */

uint64_t cgroup_uncounted_inet(const struct cgroup *cgroup)
{
    enum { WHOLE_BYTES = 256 << 10, FORCED_BYTES = 16 << 10 };
    if (cgroup->unified || !cgroup_has(cgroup, CGROUP_MEMORY)) {
        return 0;
    }
    return cgroup->counts_inet ? FORCED_BYTES : WHOLE_BYTES;
}

static uint64_t read_memory(const struct cgroup *cgroup, const char *file)
{
    char text[64];
    const char *rest = NULL;
    uint64_t value = 0;
    if (!cgroup_has(cgroup, CGROUP_MEMORY) ||
        fd_read_text_at(cgroup->controller_fd[CGROUP_MEMORY], file, text, sizeof text) < 0) {
        return 0;
    }
    return parse_digits(text, &value, &rest) < 0 ? 0 : value;
}

uint64_t cgroup_memory_peak(const struct cgroup *cgroup)
{
    return read_memory(cgroup, cgroup->unified ? "memory.peak" : "memory.max_usage_in_bytes");
}

/* The number behind name in memory.stat. */
static uint64_t stat_field(const char *text, const char *name)
{
    const char *found = strstr(text, name);
    const char *rest = NULL;
    uint64_t value = 0;
    return found && parse_digits(found + strlen(name), &value, &rest) == 0 ? value : 0;
}

uint64_t cgroup_memory_used(const struct cgroup *cgroup, uint64_t matters_bytes)
{
    char text[8192];
    uint64_t used =
        read_memory(cgroup, cgroup->unified ? "memory.current" : "memory.usage_in_bytes");
    if (used < matters_bytes || used == 0 ||
        fd_read_text_at(cgroup->controller_fd[CGROUP_MEMORY], "memory.stat", text, sizeof text) <
            0) {
        return used;
    }
    uint64_t cached = stat_field(text, "\ninactive_file ") + stat_field(text, "\nactive_file ");
    return cached < used ? used - cached : used;
}
