#include "sandbox/host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "sandbox/landlock.h"

/* Whether a file of /proc or /sys holds just this word. */
static bool file_says(const char *path, const char *word)
{
    char text[64];
    int size = fd_read_text_at(AT_FDCWD, path, text, sizeof text);
    if (size <= 0) {
        return false;
    }
    text[strcspn(text, "\n")] = '\0';
    return strcmp(text, word) == 0;
}

static enum host_container find_container(void)
{
    if (getenv("KUBERNETES_SERVICE_HOST")) {
        return HOST_KUBERNETES;
    }
    if (access("/run/.containerenv", F_OK) == 0) {
        return HOST_PODMAN;
    }
    if (access("/.dockerenv", F_OK) == 0) {
        return HOST_DOCKER;
    }
    const char *mark = getenv("container"); /* systemd's Container Interface; lxc, nspawn, … */
    return mark && *mark ? HOST_CONTAINER : HOST_BARE;
}

/* Whether something lies on a path below /proc that engines hide: then the kernel refuses a new proc
 * to user namespaces, mount_too_revealing() in fs/namespace.c. */
static bool proc_is_masked(void)
{
    FILE *file = fopen("/proc/self/mountinfo", "re");
    char *line = NULL;
    size_t capacity = 0;
    bool masked = false;
    while (file && !masked && getline(&line, &capacity, file) > 0) {
        masked = strstr(line, " /proc/") && !strstr(line, " /proc/sys/fs/binfmt_misc ");
    }
    free(line);
    if (file) {
        (void)fclose(file);
    }
    return masked;
}

void host_look(struct host *ret_host)
{
    struct host *host = ret_host;
    char status[8192];
    *host = (struct host){
        .container = find_container(),
        .apparmor_restricts_userns =
            file_says("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"),
        .userns_clone_off = file_says("/proc/sys/kernel/unprivileged_userns_clone", "0"),
        .userns_none = file_says("/proc/sys/user/max_user_namespaces", "0"),
        .proc_masked = proc_is_masked(),
    };
    errno = 0;
    host->landlock_error = landlock_abi() > 0 ? 0 : errno;
    if (fd_read_text_at(AT_FDCWD, "/proc/self/status", status, sizeof status) > 0) {
        host->filtered = strstr(status, "\nSeccomp:\t2") != NULL;
    }
    if (fd_read_text_at(AT_FDCWD, "/sys/kernel/security/lsm", host->lsm, sizeof host->lsm) < 0) {
        host->lsm[0] = '\0';
    }
    ssize_t size = readlink("/proc/self/exe", host->program, sizeof host->program - 1);
    host->program[size > 0 ? size : 0] = '\0';
}
