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

const char *const cgroup_controller_names[CGROUP_CONTROLLERS] = {"memory", "pids", "cpu"};

/* Whether word is one of list's comma-separated words. */
static bool has_word(const char *list, const char *word)
{
    size_t size = strlen(word);
    while (*list) {
        size_t n = strcspn(list, ",\n");
        if (n == size && strncmp(list, word, n) == 0) {
            return true;
        }
        list += n;
        list += *list != '\0';
    }
    return false;
}

/* Takes only mounts of a hierarchy's root: the paths of /proc/self/cgroup would not lie below
 * others. */
static void take_mount(struct cgroup_place *place, const struct parsed_mount *mount)
{
    if (strcmp(mount->type, "cgroup2") == 0 && !place->v2_mount[0]) {
        (void)snprintf(place->v2_mount, PATH_MAX, "%s", mount->point);
    }
    for (unsigned i = 0; strcmp(mount->type, "cgroup") == 0 && i < CGROUP_CONTROLLERS; i++) {
        if (has_word(mount->options, cgroup_controller_names[i])) {
            (void)snprintf(place->v1_mount[i], PATH_MAX, "%s", mount->point);
        }
    }
}

/* The hierarchies stay where they are mounted while this process runs; the kernel takes its time to
 * list all mounts. */
static void read_mounts(struct cgroup_place *place)
{
    static struct cgroup_place kept;
    static bool known;
    defer_fclose FILE *file = known ? NULL : fopen("/proc/self/mountinfo", "re");
    defer_free char *line = NULL;
    size_t capacity = 0;
    while (file && getline(&line, &capacity, file) > 0) {
        struct parsed_mount mount;
        char *at = line;
        if (parse_mount(&at, &mount)) {
            take_mount(&kept, &mount);
        }
    }
    known = known || file;
    *place = kept;
}

/* "4:memory:/path" for version 1, "0::/path" for version 2. */
static void read_own_groups(struct cgroup_place *place, const char *source)
{
    defer_fclose FILE *file = fopen(source, "re");
    defer_free char *line = NULL;
    size_t capacity = 0;
    while (file && getline(&line, &capacity, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        char *list = strchr(line, ':');
        char *path = list ? strchr(list + 1, ':') : NULL;
        if (!path) {
            continue;
        }
        *path++ = '\0';
        list++;
        if (!*list) {
            (void)snprintf(place->v2_path, PATH_MAX, "%s", path);
        }
        for (unsigned i = 0; i < CGROUP_CONTROLLERS; i++) {
            if (has_word(list, cgroup_controller_names[i])) {
                (void)snprintf(place->v1_path[i], PATH_MAX, "%s", path);
            }
        }
    }
}

void cgroup_place_read(struct cgroup_place *place)
{
    read_mounts(place);
    read_own_groups(place, "/proc/self/cgroup");
}

bool cgroup_place_join(char path[PATH_MAX], const char *mount, const char *group)
{
    int size = snprintf(path, PATH_MAX, "%s%s", mount, group);
    return size > 0 && size < PATH_MAX;
}

/* The least number in files of this name from mount + group up to mount. Where only a part of the
 * hierarchy is mounted, the group's path does not exist below it, but the mount's root does. */
static uint64_t least_limit(const char *mount, const char *group, const char *file)
{
    enum { NO_LIMIT_BITS = 60 }; /* version 1 writes a large number for "no limit" */
    char path[PATH_MAX];
    uint64_t least = 0;
    if (!mount[0] || !cgroup_place_join(path, mount, group)) {
        return 0;
    }
    for (size_t size = strlen(path); size >= strlen(mount); path[size] = '\0') {
        char name[PATH_MAX + 32];
        char text[32];
        uint64_t value = 0;
        (void)snprintf(name, sizeof name, "%s/%s", path, file);
        int length = fd_read_text_at(AT_FDCWD, name, text, sizeof text);
        text[length > 0 ? strcspn(text, "\n") : 0] = '\0';
        if (parse_u64(text, &value) == 0 && value >> NO_LIMIT_BITS == 0 &&
            (least == 0 || value < least)) {
            least = value;
        }
        const char *slash = strrchr(path, '/');
        if (!slash || slash == path) {
            break;
        }
        size = (size_t)(slash - path);
    }
    return least;
}

uint64_t cgroup_place_memory(const struct cgroup_place *place)
{
    uint64_t v2 = least_limit(place->v2_mount, place->v2_path, "memory.max");
    uint64_t v1 = least_limit(place->v1_mount[CGROUP_MEMORY], place->v1_path[CGROUP_MEMORY],
                              "memory.limit_in_bytes");
    return v2 == 0 || (v1 > 0 && v1 < v2) ? v1 : v2;
}

bool cgroup_place_of(pid_t pid, char path[PATH_MAX])
{
    char file[32];
    struct cgroup_place *place = calloc(1, sizeof *place);
    if (!place) {
        return false;
    }
    (void)snprintf(file, sizeof file, "/proc/%d/cgroup", (int)pid);
    read_mounts(place);
    read_own_groups(place, file);
    bool found = place->v2_mount[0] && place->v2_path[0] &&
                 cgroup_place_join(path, place->v2_mount, place->v2_path);
    free(place);
    return found;
}

/* Memory by control groups: of the sandbox's own, and of the one that encloses the server, a
 * container's or a service's. At the enclosing limit the kernel may kill for memory too. */

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
