#include "sandbox/cgroup_place.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* "36 35 98:0 / /mnt rw - TYPE SOURCE SUPER_OPTIONS", proc(5). Only mounts of a hierarchy's root
 * count, or the own paths of /proc/self/cgroup would not lie below them. */
static void take_mount(struct cgroup_place *place, char *line)
{
    enum { FIELD_MOUNT = 4, FIELDS = 5 };
    char *rest = strstr(line, " - ");
    char *fields[FIELDS];
    char *state = NULL;
    if (!rest) {
        return;
    }
    *rest = '\0';
    for (unsigned i = 0; i < FIELDS; i++) {
        fields[i] = strtok_r(i ? NULL : line, " ", &state);
        if (!fields[i]) {
            return;
        }
    }
    const char *type = strtok_r(rest + strlen(" - "), " ", &state);
    const char *source = strtok_r(NULL, " ", &state);
    const char *options = strtok_r(NULL, " \n", &state);
    if (!type || !source || !options) {
        return;
    }
    if (strcmp(type, "cgroup2") == 0 && !place->v2_mount[0]) {
        (void)snprintf(place->v2_mount, PATH_MAX, "%s", fields[FIELD_MOUNT]);
    }
    for (unsigned i = 0; strcmp(type, "cgroup") == 0 && i < CGROUP_CONTROLLERS; i++) {
        if (has_word(options, cgroup_controller_names[i])) {
            (void)snprintf(place->v1_mount[i], PATH_MAX, "%s", fields[FIELD_MOUNT]);
        }
    }
}

static void read_mounts(struct cgroup_place *place)
{
    FILE *file = fopen("/proc/self/mountinfo", "re");
    char *line = NULL;
    size_t capacity = 0;
    while (file && getline(&line, &capacity, file) > 0) {
        take_mount(place, line);
    }
    free(line);
    if (file) {
        (void)fclose(file);
    }
}

/* "4:memory:/path" for version 1, "0::/path" for version 2. */
static void read_own_groups(struct cgroup_place *place, const char *source)
{
    FILE *file = fopen(source, "re");
    char *line = NULL;
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
    free(line);
    if (file) {
        (void)fclose(file);
    }
}

void cgroup_place_read(struct cgroup_place *place)
{
    *place = (struct cgroup_place){};
    read_mounts(place);
    read_own_groups(place, "/proc/self/cgroup");
}

bool cgroup_place_join(char path[PATH_MAX], const char *mount, const char *group)
{
    int size = snprintf(path, PATH_MAX, "%s%s", mount, group);
    return size > 0 && size < PATH_MAX;
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
