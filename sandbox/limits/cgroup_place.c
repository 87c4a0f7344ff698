#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/parse.h"
#include "sandbox/host/host_facts.h"
#include "sandbox/limits/cgroup.h"

/* How a sandbox gets a control group from systemd.
 *
 * On a desktop the server is in a cgroup of its client (app-….scope, session-N.scope) that it may
 * not divide: after a kill for memory in a child of it, systemd would stop the whole cgroup with
 * the client (OOMPolicy=, systemd.scope(5)). So the server requests a scope with the sandbox's
 * limits from the manager (StartTransientUnit, org.freedesktop.systemd1(5)) with the sandbox's init
 * as its member. The server itself stays in its cgroup. It finds the manager's bus by the user's
 * id, because clients pass on neither XDG_RUNTIME_DIR nor DBUS_SESSION_BUS_ADDRESS.
 *
 * The request names a process by number. In another pid namespace than the manager's, as in a
 * container with the host's bus, that number would be another process's: the server makes no
 * request there.
 *
 * The limits are properties of the scope, so the process moves once and the server makes no
 * directory in the scope. Delegate=yes keeps systemd from acting on a kill for memory. The scope
 * lives as long as it has a process: when the server is killed, so is the sandbox's init, and
 * systemd removes the scope. CollectMode= makes systemd forget a failed one too.
 *
 * busctl, systemd's own client, talks to the bus in its own process: a bus that hangs cannot block
 * the loop, and the server needs no bus library. Only the system's own busctl is used, whatever
 * PATH says. Meanwhile the sandbox's child builds its root. Only the effect counts as success: the
 * process is in the scope in time, or it is not. */

enum { LOOK_MS = 1, WORDS = 64 };

/* A command: no word of it has a blank. */
struct words {
    char text[1024];
    char *argv[WORDS + 1];
};

static void bus_path(char out[64])
{
    if (geteuid() == 0) {
        (void)snprintf(out, 64, "/run/dbus/system_bus_socket");
    } else {
        (void)snprintf(out, 64, "/run/user/%u/bus", (unsigned)geteuid());
    }
}

bool scope_is_elsewhere(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct ucred peer = {};
    socklen_t size = sizeof peer;
    defer_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    return fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) == 0 &&
           getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid == 0;
}

static void make_words(struct words *words, const struct scope *scope,
                       const struct box_limits *limits)
{
    char path[64];
    char *state = NULL;
    unsigned count = 0;
    bus_path(path);
    /* At log-out the manager waits for TimeoutStopUSec after SIGTERM. */
    (void)snprintf(words->text, sizeof words->text,
                   "busctl --address=unix:path=%s call org.freedesktop.systemd1 "
                   "/org/freedesktop/systemd1 org.freedesktop.systemd1.Manager "
                   "StartTransientUnit ssa(sv)a(sa(sv)) %s fail %d PIDs au 1 %d "
                   "CollectMode s inactive-or-failed Delegate b true MemoryMax t %" PRIu64
                   " MemorySwapMax t 0 TasksMax t %u TimeoutStopUSec t 500000",
                   path, scope->unit, limits->cpu_milli ? 8 : 7, (int)scope->pid,
                   limits->memory_bytes, limits->pids + LIMIT_PIDS_SPARE);
    if (limits->cpu_milli) {
        buf_extend(words->text, sizeof words->text, " CPUQuotaPerSecUSec t %" PRIu64,
                   (uint64_t)limits->cpu_milli * 1000);
    }
    buf_extend(words->text, sizeof words->text, " 0");
    for (char *at = words->text; count < WORDS && (at = strtok_r(at, " ", &state)); at = NULL) {
        words->argv[count++] = at;
    }
    words->argv[count] = NULL;
}

static void scope_finish(struct scope *scope, const char *error)
{
    char text[256] = "";
    if (error) {
        scope->said[strcspn(scope->said, "\n")] = '\0'; /* the first line has the reason */
        (void)snprintf(text, sizeof text, "systemd creates no scope for the sandbox: %s",
                       scope->said[0] ? scope->said : error);
    }
    scope_cancel(scope);
    scope->fn(scope->arg, error ? text : NULL);
}

static bool scope_has_member(const struct scope *scope)
{
    char path[PATH_MAX];
    if (!cgroup_place_of(scope->pid, path)) {
        return false;
    }
    const char *name = strrchr(path, '/');
    return name && strcmp(name + 1, scope->unit) == 0;
}

static void scope_look(void *arg)
{
    struct scope *scope = arg;
    uint64_t now_ns = clock_now_ns();
    int status = 0;
    if (scope->helper_pid > 0 && waitpid(scope->helper_pid, &status, WNOHANG) > 0) {
        scope->helper_pid = 0;
    }
    if (scope_has_member(scope)) {
        scope_finish(scope, NULL);
    } else if (status != 0) {
        scope_finish(scope, "its bus refused the request");
    } else if (now_ns >= scope->deadline_ns) {
        scope_finish(scope, "its bus did not respond in time");
    } else {
        uint64_t next_ns = now_ns + LOOK_MS * CLOCK_NS_PER_MS;
        loop_timer_arm(scope->loop, &scope->timer,
                       scope->said_fd < 0 ? next_ns : scope->deadline_ns, scope_look, scope);
    }
}

/* busctl prints an error or exits. After its exit systemd's job runs; a check every millisecond
 * shows when the process has moved. */
static void scope_on_said(void *arg, uint32_t)
{
    struct scope *scope = arg;
    char text[sizeof scope->said];
    ssize_t size = read(scope->said_fd, text, sizeof text - 1);
    if (size > 0) {
        text[size] = '\0';
        buf_extend(scope->said, sizeof scope->said, "%s", text);
        return;
    }
    if (size < 0 && errno == EAGAIN) {
        return;
    }
    loop_io_remove(&scope->said_io);
    drop_fd(&scope->said_fd);
    scope_look(scope);
}

int scope_ask(struct scope *scope, struct loop *loop, const struct scope_request *request,
              scope_fn fn, void *arg)
{
    static struct words words;
    static char plain[] = "LC_ALL=C";
    char *const envp[] = {plain, NULL};
    char path[64];
    *scope = (struct scope){.said_fd = -1, .pid = request->pid, .fn = fn, .arg = arg};
    bus_path(path);
    if (scope_is_elsewhere(path)) {
        return -EXDEV;
    }
    (void)snprintf(scope->unit, sizeof scope->unit, "%s.scope", request->name);
    make_words(&words, scope, request->limits);
    int r = helper_start(request->program, words.argv, envp, STDERR_FILENO, &scope->helper_pid,
                         &scope->said_fd);
    if (r < 0) {
        return r;
    }
    scope->loop = loop;
    scope->deadline_ns = clock_now_ns() + request->within_ms * CLOCK_NS_PER_MS;
    loop_timer_arm(loop, &scope->timer, scope->deadline_ns, scope_look, scope);
    r = loop_io_add(loop, &scope->said_io, scope->said_fd, EPOLLIN, scope_on_said, scope);
    if (r < 0) {
        scope_cancel(scope);
    }
    return r;
}

void scope_cancel(struct scope *scope)
{
    if (!scope->loop) {
        return;
    }
    scope->loop = NULL;
    loop_io_remove(&scope->said_io);
    loop_timer_disarm(&scope->timer);
    drop_fd(&scope->said_fd);
    helper_end(scope->helper_pid);
    scope->helper_pid = 0;
}

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
    struct cgroup_place *place = malloc(sizeof *place);
    if (place) {
        cgroup_place_read(place);
        spec->memory_enclosing = cgroup_place_memory(place);
        free(place);
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
