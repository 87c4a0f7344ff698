/* Memory by control groups: of the sandbox's own, and of the one that encloses the server, a
 * container's or a service's. At the enclosing limit the kernel may kill for memory too. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/parse.h"
#include "sandbox/limits/cgroup.h"
#include "sandbox/limits/cgroup_place.h"

/* The number behind name in a file of the directory; 0: there is none. */
static uint64_t read_number(int directory_fd, const char *file, const char *name)
{
    char text[8192];
    int size = fd_read_text_at(directory_fd, file, text, sizeof text);
    return size > 0 ? parse_field(text, name, 0) : 0;
}

/* How many processes of this cgroup the kernel has killed for memory. Version 1 has the number
 * since Linux 4.13. */
static uint64_t count_kills(int directory_fd, bool unified)
{
    return read_number(directory_fd, unified ? "memory.events" : "memory.oom_control", "oom_kill ");
}

void cgroup_watch_enclosing(struct cgroup *cgroup, const struct cgroup_place *place)
{
    char path[PATH_MAX];
    cgroup->enclosing_unified = place->v1_mount[CGROUP_MEMORY][0] == '\0';
    const char *mount =
        cgroup->enclosing_unified ? place->v2_mount : place->v1_mount[CGROUP_MEMORY];
    const char *group = cgroup->enclosing_unified ? place->v2_path : place->v1_path[CGROUP_MEMORY];
    /* In a container without a cgroup namespace, the container's cgroup is at the top of the
     * mount. */
    bool joined = mount[0] && cgroup_place_join(path, mount, group);
    int fd = joined ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    fd = fd < 0 && mount[0] ? open(mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : fd;
    cgroup->enclosing_fd = fd;
    cgroup->enclosing_watched = fd >= 0;
    cgroup->enclosing_kills = fd < 0 ? 0 : count_kills(fd, cgroup->enclosing_unified);
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
    return cgroup->enclosing_watched &&
           has_grown(&cgroup->enclosing_kills,
                     count_kills(cgroup->enclosing_fd, cgroup->enclosing_unified));
}

bool cgroup_oom_is_new(const struct cgroup *cgroup)
{
    return cgroup_has(cgroup, CGROUP_MEMORY) &&
           count_kills(cgroup->controller_fd[CGROUP_MEMORY], cgroup->unified) > cgroup->oom_kills;
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

static uint64_t read_memory(const struct cgroup *cgroup, const char *file, const char *name)
{
    return cgroup_has(cgroup, CGROUP_MEMORY)
               ? read_number(cgroup->controller_fd[CGROUP_MEMORY], file, name)
               : 0;
}

uint64_t cgroup_memory_peak(const struct cgroup *cgroup)
{
    return read_memory(cgroup, cgroup->unified ? "memory.peak" : "memory.max_usage_in_bytes", "");
}

/* Each call asks for it: the file stays open. */
static uint64_t read_used(struct cgroup *cgroup)
{
    char text[64];
    if (cgroup->used_fd <= 0 && cgroup_has(cgroup, CGROUP_MEMORY)) {
        const char *file = cgroup->unified ? "memory.current" : "memory.usage_in_bytes";
        cgroup->used_fd = openat(cgroup->controller_fd[CGROUP_MEMORY], file, O_RDONLY | O_CLOEXEC);
    }
    ssize_t size = pread(cgroup->used_fd, text, sizeof text - 1, 0);
    text[size > 0 ? size : 0] = '\0';
    return parse_field(text, "", 0);
}

uint64_t cgroup_memory_used(struct cgroup *cgroup, uint64_t matters_bytes)
{
    char text[8192];
    uint64_t used = read_used(cgroup);
    cgroup->cached = 0;
    if (used < matters_bytes || used == 0 ||
        fd_read_text_at(cgroup->controller_fd[CGROUP_MEMORY], "memory.stat", text, sizeof text) <
            0) {
        return used;
    }
    uint64_t cached = parse_field(text, "inactive_file ", 0) + parse_field(text, "active_file ", 0);
    cgroup->cached = cached < used ? cached : 0;
    return used - cgroup->cached;
}

void cgroup_memory_slow(struct cgroup *cgroup, uint64_t from_bytes)
{
    char text[32] = "max";
    from_bytes += from_bytes > 0 ? cgroup->cached : 0; /* the kernel counts that too */
    if (from_bytes == cgroup->slow_from || !cgroup->unified || !cgroup_has(cgroup, CGROUP_MEMORY)) {
        return;
    }
    if (from_bytes > 0) {
        (void)snprintf(text, sizeof text, "%llu", (unsigned long long)from_bytes);
    }
    cgroup->slow_from = from_bytes;
    (void)fd_write_text_at(cgroup->controller_fd[CGROUP_MEMORY], "memory.high", text);
}

uint64_t cgroup_memory_pages(const struct cgroup *cgroup)
{
    return read_memory(cgroup, "memory.stat", cgroup->unified ? "anon " : "rss ");
}

uint64_t cgroup_memory_files(const struct cgroup *cgroup)
{
    return read_memory(cgroup, "memory.stat", "shmem ");
}

int cgroup_open_memory(const struct cgroup *cgroup)
{
    return cgroup_has(cgroup, CGROUP_MEMORY)
               ? openat(cgroup->controller_fd[CGROUP_MEMORY], "memory.stat", O_RDONLY | O_CLOEXEC)
               : -1;
}

int cgroup_processes(const struct cgroup *cgroup, char *text, size_t size)
{
    return cgroup_has(cgroup, CGROUP_MEMORY)
               ? fd_read_text_at(cgroup->controller_fd[CGROUP_MEMORY], "cgroup.procs", text, size)
               : -ENOENT;
}

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
