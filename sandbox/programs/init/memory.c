/* The watchdog: where no control group counts memory, pid 1 does, every INIT_WATCH_MS.
 *
 * What code can fill, and how it is seen:
 *
 *   its own pages, page tables     /proc/PID/status. Forks share pages, so this is too much; only
 *                                  when it passes the limit the exact share is asked for, which makes
 *                                  the kernel walk all pages
 *   files in /work, /tmp, /dev/shm statvfs(3) of their tmpfs, whoever holds or has deleted them, and
 *                                  INODE_BYTES for each inode. A room's (../room.c) are in memory only
 *                                  where it lies on a tmpfs, and are counted by disk.c then
 *   queues of sockets and pipes    in no process's figures: each costs what it could hold. Their number
 *                                  is looked at closely only when the sizes of the descriptor tables
 *                                  would let it matter
 *   sockets that no process holds  on their way in a message, or connected and not accepted, with what was sent
 *                                  already: the network namespace knows how many sockets there are. What has no
 *                                  namespace bounds them otherwise (notify_sockets.c). Pipes on their way: at most
 *                                  RLIMIT_NOFILE, unix(7)
 *   objects of the kernel          objects.c
 *   shared memory without a name   mmap(2) with MAP_SHARED of /dev/zero or of nothing. Its pages stay
 *                                  when nobody maps them, and nothing tells its size: but all such
 *                                  memory of the machine together has grown by no more than sysinfo(2)
 *                                  says. If that matters, whoever has such a mapping has it all
 *   memfds                         refused by a filter (filter_build_uncounted)
 *
 * It stays soft: what is allocated between two looks is there. Where the container around us has a limit
 * of its own, the kernel may end all of it when that is reached: far beyond ours everybody goes at once. */
#include "sandbox/init/init.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum {
    SEEN = 16384,             /* distinct queues; what does not fit is counted each time */
    SOCKET_BYTES = 256 << 10, /* SO_SNDBUF is 208 KiB and cannot be raised; a message may pass it */
    PIPE_BYTES = 64 << 10,    /* pipe(7) */
    PIPES_WHOLE = 1024, /* of a user, then they get two pages: pipe-user-pages-soft, pipe(7) */
    PIPE_LEAST_BYTES = 8 << 10,
    INODE_BYTES = 1 << 10,  /* of kernel memory, with its name */
    FAR_BEYOND_PART = 8,    /* more than the limit by this part of it */
    TRACE_NS = 5000000,     /* for the one that is killed to write down where it is */
    THOROUGH_EVERY = 8,     /* looks */
    RUN_TICKS = 2,          /* of 10 ms, proc(5) */
    OBJECTS_NS = 400000000, /* between two looks at objects */
    OBJECTS_REST =
        10, /* that they rest for as many times as long as they took, but not more than */
    OBJECTS_REST_NS = 1000000000,
    SESSION_SOCKETS = 4, /* that server and pid 1 hold, for each session */
    OTHER_SOCKETS = 16,  /* and besides */
};

/* How closely a look counts; each level is dearer and never finds more than the one before. */
enum closeness { CLOSE_STATUS, CLOSE_QUEUES, CLOSE_PAGES, CLOSE_COUNT };

struct look {
    enum closeness closeness;
    uint64_t unnamed; /* shared memory that could be the box's */
    uint64_t all;
    uint64_t largest;
    pid_t largest_pid;
    unsigned pipes;
    unsigned sockets;
    uint64_t unheld;     /* of sockets that no process holds */
    uint64_t seen[SEEN]; /* a table of inode numbers, by their value */
};

/* The number behind name in a file of /proc. */
static uint64_t field(const char *text, const char *name)
{
    const char *found = strstr(text, name);
    return found ? strtoul(found + strlen(name), NULL, 10) : 0;
}

static uint64_t pages_of(pid_t pid, const char *status, enum closeness closeness)
{
    char text[2048];
    uint64_t tables = field(status, "\nVmPTE:") * 1024;
    if (closeness == CLOSE_PAGES && read_proc(pid, "smaps_rollup", text, sizeof text) > 0 &&
        strstr(text, "Pss_Anon:")) {
        return tables + field(text, "Pss_Anon:") * 1024;
    }
    return tables + field(status, "RssAnon:") * 1024;
}

/* Whether this inode is met for the first time in this look. */
static bool is_new(struct look *look, uint64_t inode)
{
    for (uint64_t i = 0; i < 64; i++) {
        uint64_t *slot = &look->seen[(inode + i) % SEEN];
        if (*slot == inode) {
            return false;
        }
        if (*slot == 0) {
            *slot = inode;
            return true;
        }
    }
    return true;
}

static uint64_t pipe_bytes(struct look *look)
{
    return look->pipes++ < PIPES_WHOLE ? PIPE_BYTES : PIPE_LEAST_BYTES;
}

/* A FIFO's link is a path, fifo(7). AT_STATX_DONT_SYNC: no server of a file system is waited for, statx(2). */
static uint64_t fifo_bytes(struct look *look, int dir_fd, const char *name)
{
    struct statx st;
    if (statx(dir_fd, name, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_TYPE | STATX_INO, &st) <
            0 ||
        !S_ISFIFO(st.stx_mode)) {
        return 0;
    }
    uint64_t device = (uint64_t)st.stx_dev_major << 20 | st.stx_dev_minor;
    return is_new(look, st.stx_ino ^ device << 32) ? pipe_bytes(look) : 0;
}

static uint64_t queue_bytes(struct look *look, int dir_fd, const char *name)
{
    char target[32] = "";
    if (readlinkat(dir_fd, name, target, sizeof target - 1) <= 0) {
        return 0;
    }
    if (target[0] == '/' && strncmp(target, "/proc/", 6) != 0) {
        return fifo_bytes(look, dir_fd, name);
    }
    bool is_socket = strncmp(target, "socket:[", 8) == 0;
    bool is_pipe = strncmp(target, "pipe:[", 6) == 0;
    if ((!is_socket && !is_pipe) || !is_new(look, field(target, ":["))) {
        return 0;
    }
    if (is_socket) {
        look->sockets++;
        return SOCKET_BYTES;
    }
    return pipe_bytes(look);
}

/* What waits in the sockets and pipes that pid holds. One that hides its descriptors may hold as many
 * as fit in its table. */
static uint64_t queues_of(struct look *look, pid_t pid, const char *status)
{
    char path[48];
    uint64_t most = field(status, "FDSize:") * SOCKET_BYTES;
    uint64_t sum = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *dir = look->closeness == CLOSE_STATUS ? NULL : opendir(path);
    if (!dir) {
        return most;
    }
    const struct dirent *entry = NULL;
    while ((entry = readdir(dir))) {
        sum += queue_bytes(look, dirfd(dir), entry->d_name);
    }
    (void)closedir(dir);
    return sum;
}

/* Who hides (an unreadable program, execve(2)) may have it. */
static bool has_unnamed_memory(pid_t pid)
{
    char path[48];
    char line[512];
    bool found = false;
    (void)snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file) {
        return errno == EACCES || errno == EPERM;
    }
    while (!found && fgets(line, sizeof line, file)) {
        found = strstr(line, "/dev/zero") != NULL;
    }
    (void)fclose(file);
    return found;
}

static uint64_t files_bytes(const struct init *init, uint64_t *ret_blocks)
{
    struct statvfs fs;
    if (init->config->disk_bytes) {
        *ret_blocks = watch_room_memory(init);
        return *ret_blocks;
    }
    if (init->config->guards || statvfs(init->view.tmp, &fs) < 0) {
        return 0;
    }
    *ret_blocks = (uint64_t)(fs.f_blocks - fs.f_bfree) * fs.f_frsize;
    return *ret_blocks + (uint64_t)(fs.f_files - fs.f_ffree) * INODE_BYTES;
}

/* How much more shared memory the whole machine has than when the box began, or than the least since,
 * besides the box's own files. */
static uint64_t unnamed_bytes(uint64_t blocks)
{
    static uint64_t least = UINT64_MAX;
    struct sysinfo info;
    if (sysinfo(&info) < 0) {
        return 0;
    }
    uint64_t others = (uint64_t)info.sharedram * info.mem_unit;
    others = others > blocks ? others - blocks : 0;
    if (others < least) {
        least = others;
    }
    return others - least;
}

/* free_bytes: of its own pages that do not count */
static void add_process(struct look *look, pid_t pid, uint64_t free_bytes)
{
    static char status[INIT_STATUS_BYTES];
    pid_t thread = pid;
    if (read_proc(pid, "status", status, sizeof status) == 0) {
        return;
    }
    if (!strstr(status, "\nVmPTE:")) {
        thread = proc_thread(pid);
        (void)read_proc(thread, "status", status, sizeof status);
    }
    uint64_t pages = pages_of(thread, status, look->closeness);
    uint64_t used = queues_of(look, thread, status) + objects_bytes(pid) +
                    (pages > free_bytes ? pages - free_bytes : 0);
    if (look->closeness == CLOSE_PAGES && look->unnamed > 0 && has_unnamed_memory(thread)) {
        used += look->unnamed;
        look->unnamed = 0; /* once: forks have it in common */
    }
    look->all += used;
    if (used > look->largest) {
        look->largest = used;
        look->largest_pid = pid;
    }
}

/* Sockets beyond those that were seen and ours. */
static uint64_t unheld_bytes(const struct init *init, const struct look *look)
{
    uint64_t ours = OTHER_SOCKETS;
    uint64_t all = objects_sockets(init);
    for (unsigned i = 0; i < INIT_WATCHED; i++) {
        ours += init->watched[i].pid > 0 ? SESSION_SOCKETS : 0;
    }
    return all > look->sockets + ours ? (all - look->sockets - ours) * SOCKET_BYTES : 0;
}

/* Adds up what the guest's processes use; the zygote is not to be killed for it. Nor is a checkpoint,
 * which has half of the limit at most (guest/checkpoint.py), for what it may have in common with its
 * session. What has more is none, but code that passes for one. They come last: what they share with
 * others is counted there. */
static void look_around(struct init *init, struct look *look, enum closeness closeness)
{
    static unsigned looks;
    uint64_t blocks = 0;
    *look = (struct look){.closeness = closeness};
    look->all = files_bytes(init, &blocks);
    look->unnamed = unnamed_bytes(blocks);
    if (closeness != CLOSE_PAGES) {
        look->all += look->unnamed;
    }
    const pid_t *pids = NULL;
    bool thorough = closeness != CLOSE_STATUS || looks++ % THOROUGH_EVERY == 0;
    unsigned count = (thorough ? family_list : family_glance)(init->root, &pids);
    for (unsigned i = 0; i < count; i++) {
        if (!watch_spares(init, pids[i])) {
            add_process(look, pids[i], 0);
        }
    }
    for (unsigned i = 0; i < INIT_WATCHED; i++) {
        if (init->watched[i].pid > 0 && init->watched[i].role == WIRE_ROLE_CHECKPOINT) {
            add_process(look, init->watched[i].pid, init->config->watch_memory_bytes / 2);
        }
    }
    look->unheld = unheld_bytes(init, look);
    look->all += look->unheld;
}

static void end_process(struct init *init, const struct look *look, pid_t pid)
{
    init_send(&(struct wire_reply){.event = WIRE_MEMORY,
                                   .pid = init_number(init, pid),
                                   .memory_bytes = look->all},
              -1);
    watch_kill(init, pid);
    objects_forget(pid);
}

/* All but the zygote and the checkpoints. */
static void end_sessions(struct init *init, const struct look *look)
{
    const pid_t *pids = NULL;
    unsigned count = family_list(init->root, &pids);
    for (unsigned i = 0; i < count; i++) {
        if (!watch_spares(init, pids[i])) {
            end_process(init, look, pids[i]);
        }
    }
}

/* Whether anybody has run since the last look at objects, for longer than it takes to make some mebibytes. */
static bool has_run(const struct init *init)
{
    static uint64_t seen;
    uint64_t ticks = objects_ticks(init);
    if (ticks >= seen && ticks - seen < RUN_TICKS) {
        return false;
    }
    seen = ticks;
    return true;
}

/* Looks at objects when that is due, or now: then only where the last look was longer ago than it took. Goes on with
 * a look that is under way. */
static void look_at_objects(struct init *init, bool now)
{
    static uint64_t next_ns;
    static uint64_t fresh_ns;
    uint64_t began_ns = clock_now_ns();
    if (!objects_looking() && began_ns < (now ? fresh_ns : next_ns)) {
        return;
    }
    if (!now && !objects_looking() && !has_run(init)) {
        next_ns = began_ns + OBJECTS_NS;
        return;
    }
    if (!objects_look(init, /* locks_only= */ false, init->config->watch_memory_bytes)) {
        return;
    }
    uint64_t ended_ns = clock_now_ns();
    uint64_t rest_ns = (ended_ns - began_ns) * OBJECTS_REST;
    rest_ns = rest_ns < OBJECTS_REST_NS ? rest_ns : OBJECTS_REST_NS;
    fresh_ns = ended_ns + (ended_ns - began_ns);
    next_ns = ended_ns + (rest_ns > OBJECTS_NS ? rest_ns : OBJECTS_NS);
}

void watch_memory(struct init *init)
{
    static struct look look;
    uint64_t limit = init->config->watch_memory_bytes;
    look_at_objects(init, /* now= */ false);
    for (enum closeness closeness = CLOSE_STATUS; closeness < CLOSE_COUNT; closeness++) {
        look_around(init, &look, closeness);
        if (look.all <= limit) {
            return;
        }
    }
    if (look.all <= limit + objects_all_bytes()) { /* they decide, and may be gone since */
        look_at_objects(init, /* now= */ true);
        look_around(init, &look, CLOSE_PAGES);
        if (look.all <= limit) {
            return;
        }
    }
    if (look.unheld > look.largest) { /* of somebody's who is not known */
        end_sessions(init, &look);
    } else if (look.largest_pid > 1) {
        if (watch_trace(init, look.largest_pid) == 0) {
            (void)nanosleep(&(struct timespec){.tv_nsec = TRACE_NS}, NULL);
        }
        /* In a namespace its parent sees the signal. Here more is at stake, and the session's end is
         * what an answer names the limit by. */
        const struct watched *session =
            init->config->guards ? watch_owner(init, look.largest_pid) : NULL;
        pid_t session_pid = session ? session->pid : look.largest_pid;
        end_process(init, &look, look.largest_pid);
        if (session_pid != look.largest_pid) {
            end_process(init, &look, session_pid);
        }
        if (init->config->disk_bytes && look.all > limit + limit / FAR_BEYOND_PART) {
            end_sessions(init, &look);
        }
    }
}

/* Ends who has most of what the last look at objects has found. Returns false when nobody has any. */
static bool end_holder(struct init *init, struct look *look)
{
    const pid_t *pids = NULL;
    unsigned count = family_list(init->root, &pids);
    look->largest = 0;
    for (unsigned i = 0; i < count; i++) {
        if (!watch_spares(init, pids[i]) && objects_bytes(pids[i]) > look->largest) {
            look->largest = objects_bytes(pids[i]);
            look->largest_pid = pids[i];
        }
    }
    if (look->largest > 0) {
        end_process(init, look, look->largest_pid);
    }
    return look->largest > 0;
}

void watch_uncounted(struct init *init)
{
    uint64_t limit = init->config->uncounted_bytes;
    uint64_t inet_bytes = init->config->inet_bytes;
    static struct look look;
    if (objects_looking() || has_run(init)) {
        (void)objects_look(init, /* locks_only= */ true, limit);
    }
    look.unheld = inet_bytes > 0 ? objects_inet_sockets(init) * inet_bytes : 0;
    look.all = objects_all_bytes() + look.unheld;
    if (look.unheld > limit) {
        end_sessions(init, &look);
        return;
    }
    while (objects_all_bytes() + look.unheld > limit && end_holder(init, &look)) {
    }
}
