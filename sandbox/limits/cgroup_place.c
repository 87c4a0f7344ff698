#include "sandbox/limits/cgroup_place.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/own.h"
#include "base/parse.h"

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
