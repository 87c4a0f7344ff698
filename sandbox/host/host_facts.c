#include "sandbox/host/host_facts.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "base/parse.h"
#include "sandbox/host/mounts.h"
#include "sandbox/policy/filter.h"
#include "sandbox/policy/landlock.h"
#include "sandbox/types.h"

/* Whether a file of /proc or /sys holds exactly this word. */
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
    const char *mark = getenv("container"); /* systemd's Container Interface; lxc, nspawn, … */
    if (mark && strcmp(mark, "firejail") == 0) {
        return HOST_FIREJAIL; /* it shows the marks of the container that it runs in */
    }
    if (getenv("KUBERNETES_SERVICE_HOST")) {
        return HOST_KUBERNETES;
    }
    if (access("/run/.containerenv", F_OK) == 0) {
        return HOST_PODMAN;
    }
    if (access("/.dockerenv", F_OK) == 0) {
        return HOST_DOCKER;
    }
    return mark && *mark ? HOST_CONTAINER : HOST_BARE;
}

/* Whether something is mounted on a path below /proc that engines hide: then the kernel refuses a
 * new proc to user namespaces, mount_too_revealing() in fs/namespace.c. */
static bool proc_is_masked(void)
{
    defer_fclose FILE *file = fopen("/proc/self/mountinfo", "re");
    defer_free char *line = NULL;
    size_t capacity = 0;
    bool masked = false;
    while (file && !masked && getline(&line, &capacity, file) > 0) {
        masked = strstr(line, " /proc/") && !strstr(line, " /proc/sys/fs/binfmt_misc ");
    }
    return masked;
}

/* "docker-default (enforce)": apparmor(7). Empty where nothing confines the server. */
static void find_apparmor(char *label, size_t size)
{
    static const char mode[] = " (enforce)";
    if (fd_read_text_at(AT_FDCWD, "/proc/self/attr/current", label, size) < 0) {
        label[0] = '\0';
    }
    char *end = strstr(label, mode);
    *(end ? end : label) = '\0';
}

/* The first user namespace maps all numbers onto themselves, user_namespaces(7). */
static bool is_inside_userns(void)
{
    char text[128];
    return fd_read_text_at(AT_FDCWD, "/proc/self/uid_map", text, sizeof text) > 0 &&
           !strstr(text, " 4294967295\n");
}

/* Pid 1 has another root directory in the same mount namespace. */
static bool is_chrooted(void)
{
    struct stat own;
    struct stat first;
    struct stat own_mounts;
    struct stat first_mounts;
    return stat("/", &own) == 0 && stat("/proc/1/root", &first) == 0 &&
           stat("/proc/self/ns/mnt", &own_mounts) == 0 &&
           stat("/proc/1/ns/mnt", &first_mounts) == 0 && own_mounts.st_ino == first_mounts.st_ino &&
           (own.st_ino != first.st_ino || own.st_dev != first.st_dev);
}

bool host_counts_outside(void)
{
    struct utsname kernel = {};
    uint64_t number[2] = {};
    (void)uname(&kernel);
    const char *release = kernel.release; /* "6.18.44-cloud" */
    for (unsigned i = 0; i < 2 && parse_digits(release, &number[i], &release) == 0; i++) {
        release += *release == '.';
    }
    return number[0] > 0 && (number[0] < 5 || (number[0] == 5 && number[1] < 14));
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
        .memfd_noexec = file_says("/proc/sys/vm/memfd_noexec", "2"),
        .inside_userns = is_inside_userns(),
        .chrooted = is_chrooted(),
        .counts_outside = host_counts_outside(),
        .proc_masked = proc_is_masked(),
    };
    find_apparmor(host->apparmor, sizeof host->apparmor);
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

enum { PYTHON_MINOR_FIRST = 9, PYTHON_MINOR_END = 20 };

const char *const host_system_directories[HOST_DIRECTORIES + 1] = {
    "/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin", NULL};

static void read_directory(const char *path, struct host_directory *directory)
{
    struct stat st;
    directory->exists = lstat(path, &st) == 0;
    ssize_t size = directory->exists && S_ISLNK(st.st_mode)
                       ? readlink(path, directory->target, sizeof directory->target - 1)
                       : 0;
    directory->target[size > 0 ? size : 0] = '\0';
}

static void read_workspace(const char *path, struct host_facts *facts)
{
    struct stat st;
    if (stat(path, &st) < 0) {
        facts->workspace_error = errno;
    } else if (!S_ISDIR(st.st_mode)) {
        facts->workspace_error = ENOTDIR;
    } else {
        facts->workspace_uid = st.st_uid;
        facts->workspace_gid = st.st_gid;
    }
}

/* A kernel that knows more processors refuses a smaller set, sched_getaffinity(2). */
static void read_processors(struct box_processors *processors)
{
    uint64_t all[8 * BOX_PROCESSORS / 64] = {1};
    (void)syscall(SYS_sched_getaffinity, 0, sizeof all, all);
    memcpy(processors->bits, all, sizeof processors->bits);
}

/* Init has to read the paths in the memory of the processes that it starts, ptrace(2). */
static const char *why_writes_are_unseen(void)
{
    char scope[8] = "0"; /* there is no Yama */
    (void)fd_read_text_at(AT_FDCWD, "/proc/sys/kernel/yama/ptrace_scope", scope, sizeof scope);
    return !filter_can_ask_of_writes()
               ? "this needs Linux 5.19, and a container engine that allows "
                 "seccomp notifications"
           : scope[0] > '1' ? "the setting kernel.yama.ptrace_scope forbids it"
                            : NULL;
}

/* Whether this process has the capabilities to map ids other than its own. */
static bool idmap_may_give(void)
{
    static const cap_value_t needed[] = {CAP_SETUID, CAP_SETGID};
    return idmap_has_capabilities(needed, sizeof needed / sizeof *needed);
}

void host_facts_read(const struct box_spec *spec, struct host_facts *ret_facts)
{
    *ret_facts = (struct host_facts){
        .uid = geteuid(),
        .gid = getegid(),
        .pid = getpid(),
        .landlock_abi = landlock_abi(),
        .writes_unseen = why_writes_are_unseen(),
        .has_nix_store = access("/nix/store", F_OK) == 0,
    };
    /* Root of a user namespace that maps only itself has no other id to give, nor has one without
     * the capabilities, user_namespaces(7). */
    ret_facts->gives_ids = ret_facts->uid == 0 && idmap_may_give() && idmap_covers(HOST_ID_FIRST);
    if (!spec) {
        return;
    }
    read_processors(&ret_facts->processors);
    ret_facts->leaves_out_mounts = spec->cow && box_cow_may_leave_out();
    for (unsigned i = 0; host_system_directories[i]; i++) {
        read_directory(host_system_directories[i], &ret_facts->system[i]);
    }
    for (unsigned minor = PYTHON_MINOR_FIRST; minor < PYTHON_MINOR_END; minor++) {
        char path[32];
        (void)snprintf(path, sizeof path, "/etc/python3.%u", minor);
        ret_facts->etc_python |= access(path, F_OK) == 0 ? 1U << minor : 0;
    }
    if (spec->workspace) {
        read_workspace(spec->workspace, ret_facts);
    }
}

bool idmap_covers(uid_t id)
{
    char text[4096];
    if (fd_read_text_at(AT_FDCWD, "/proc/self/uid_map", text, sizeof text) < 0) {
        return false;
    }
    /* Lines of three numbers: inside, outside, count. */
    uint64_t numbers[3];
    unsigned have = 0;
    for (const char *at = text; *at;) {
        const char *rest = at + 1;
        if (parse_digits(at, &numbers[have], &rest) == 0 && ++have == 3) {
            have = 0;
            if (id >= numbers[0] && id - numbers[0] < numbers[2]) {
                return true;
            }
        }
        at = rest;
    }
    return false;
}

bool idmap_has_capabilities(const cap_value_t *needed, size_t count)
{
    cap_t own = cap_get_proc();
    bool has = own != NULL;
    for (size_t i = 0; has && i < count; i++) {
        cap_flag_value_t value = CAP_CLEAR;
        has = cap_get_flag(own, needed[i], CAP_EFFECTIVE, &value) == 0 && value == CAP_SET;
    }
    (void)cap_free(own);
    return has;
}

int idmap_write(pid_t pid, const struct idmap *idmap)
{
    const struct {
        const char *file;
        unsigned inside;
        unsigned outside;
    } maps[] = {{"uid_map", idmap->disk_uid, idmap->outside_uid},
                {"gid_map", idmap->disk_gid, idmap->outside_gid}};
    int r = 0;
    for (unsigned i = 0; r == 0 && i < 2; i++) {
        char path[64];
        char text[64];
        (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, maps[i].file);
        (void)snprintf(text, sizeof text, "%u %u 1", maps[i].inside, maps[i].outside);
        r = fd_write_text_at(AT_FDCWD, path, text);
    }
    return r;
}

/* The kernel takes the mapping from a user namespace. Making one takes a process, which waits until
 * its map is written and its namespace opened. */
static int map_namespace(const struct idmap *idmap)
{
    pid_t server = getpid();
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0) {
        /* Must not outlive the server, which may already be dead. */
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != server) {
            _exit(1);
        }
        for (;;) {
            (void)pause();
        }
    }
    if (pid < 0) {
        return -errno;
    }
    char path[64];
    int r = idmap_write(pid, idmap);
    (void)snprintf(path, sizeof path, "/proc/%d/ns/user", (int)pid);
    if (r == 0) {
        r = open(path, O_RDONLY | O_CLOEXEC);
        r = r < 0 ? -errno : r;
    }
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    return r;
}

int idmap_tree(int fd, const struct idmap *idmap)
{
    defer_close int user_fd = map_namespace(idmap);
    if (user_fd < 0) {
        return user_fd;
    }
    defer_close int tree_fd = (int)syscall(SYS_open_tree, fd, "",
                                           OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH |
                                               (idmap->top_only ? 0 : AT_RECURSIVE));
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)user_fd};
    if (tree_fd < 0 || syscall(SYS_mount_setattr, tree_fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr,
                               sizeof attr) < 0) {
        return -errno;
    }
    return take_fd(&tree_fd);
}

bool helper_is_program(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

bool helper_find(const char *directories, const char *name, char path[PATH_MAX])
{
    for (const char *at = directories; *at; at += *at == ':') {
        int size = (int)strcspn(at, ":");
        if (*at == '/' && snprintf(path, PATH_MAX, "%.*s/%s", size, at, name) < PATH_MAX &&
            helper_is_program(path)) {
            return true;
        }
        at += size;
    }
    return false;
}

/* Runs in the child. */
static _Noreturn void become(const char *path, char *const argv[], char *const envp[], int stream,
                             int pipe_fd)
{
    sigset_t none;
    (void)sigemptyset(&none);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    bool ready = null >= 0 && setsid() >= 0 && chdir("/") == 0;
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        ready = ready && dup2(fd == stream ? pipe_fd : null, fd) == fd;
    }
    (void)signal(SIGPIPE, SIG_DFL); /* the server ignores it, and execve(2) would pass that on */
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (ready) {
        (void)execve(path, argv, envp);
    }
    _exit(127);
}

/* Uses fork(2): some containers refuse the clone3 of posix_spawn(3) with EPERM, and then the
 * library tries no other call. */
int helper_start(const char *path, char *const argv[], char *const envp[], int stream,
                 pid_t *ret_pid, int *ret_fd)
{
    defer_close int said_fd = -1;
    defer_close int program_fd = -1;
    int r = access(path, X_OK) < 0 ? -errno : fd_pipe(&said_fd, &program_fd);
    r = r ? r : fd_set_nonblock(said_fd, true);
    if (r < 0) {
        return r;
    }
    pid_t pid = fork();
    if (pid == 0) {
        become(path, argv, envp, stream, program_fd);
    }
    if (pid < 0) {
        return -errno;
    }
    *ret_pid = pid;
    *ret_fd = take_fd(&said_fd);
    return 0;
}

void helper_end(pid_t pid)
{
    if (pid > 0) {
        (void)kill(pid, SIGKILL); /* the child may not have called setsid(2) yet */
        (void)kill(-pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
    }
}
