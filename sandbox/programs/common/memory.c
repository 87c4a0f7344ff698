#include "sandbox/programs/common/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/parse.h"
#include "sandbox/checkpoint_policy.h"
#include "sandbox/programs/common/processes.h"

/* --- who has to go --- */

enum { PART = 8 }; /* who has grown by this part of the greatest growth has grown, too */

static struct owner *find(const struct owners *owners, uint32_t tag)
{
    for (unsigned i = 0; i < owners->count; i++) {
        if (owners->list[i].tag == tag) {
            return (struct owner *)(uintptr_t)&owners->list[i];
        }
    }
    return NULL;
}

void owners_add(struct owners *owners, uint32_t tag, pid_t pid, uint64_t bytes)
{
    struct owner *owner = find(owners, tag);
    if (!owner && owners->count < OWNERS) {
        owner = &owners->list[owners->count++];
        *owner = (struct owner){.tag = tag};
    }
    owner = owner ? owner : &owners->list[OWNERS - 1];
    owner->bytes += bytes;
    if (bytes >= owner->largest) {
        owner->largest = bytes;
        owner->largest_pid = pid;
    }
}

void owners_grow(struct owners *owners, const struct owners *before, uint64_t matters)
{
    uint64_t most = 0;
    for (unsigned i = 0; i < owners->count; i++) {
        struct owner *owner = &owners->list[i];
        const struct owner *old = find(before, owner->tag);
        uint64_t base = old ? old->base : before->count > 0 ? 0 : owner->bytes;
        owner->base = owner->bytes < base ? owner->bytes : base;
        most = owner->bytes - owner->base > most ? owner->bytes - owner->base : most;
    }
    for (unsigned i = 0; i < owners->count; i++) {
        struct owner *owner = &owners->list[i];
        const struct owner *old = find(before, owner->tag);
        owner->growth = old ? old->growth : 0;
        if (most > matters) {
            bool idles = old && owner->bytes == old->base;
            owner->growth = idles ? 0 : owner->growth / 2 + owner->bytes - owner->base;
            owner->base = owner->bytes;
        }
    }
}

const struct owner *owners_culprit(const struct owners *owners, const struct owners *grown)
{
    const struct owner *culprit = NULL;
    uint64_t most = 0;
    for (unsigned i = 0; i < grown->count; i++) {
        most = grown->list[i].growth > most ? grown->list[i].growth : most;
    }
    for (unsigned i = 0; i < owners->count; i++) {
        const struct owner *owner = &owners->list[i];
        const struct owner *known = find(grown, owner->tag);
        if ((known ? known->growth : 0) >= most / PART &&
            (!culprit || owner->bytes > culprit->bytes)) {
            culprit = owner;
        }
    }
    return culprit;
}

/* --- what the machine has only so much of --- */

/* The kernel limits the buffers of all connections of the machine together, tcp(7): from a
 * sixteenth of its memory on it takes from each. While they have half of that, a quarter of it is
 * too much for one sandbox. */
static bool has_too_many_buffers(const struct processes *processes, uint64_t bytes)
{
    enum { SHARE = 16 * 4 };
    struct sysinfo info;
    uint64_t share = sysinfo(&info) < 0 ? UINT64_MAX : info.totalram / SHARE * info.mem_unit;
    return bytes > share && objects_network_pages(processes) > share * 2 / (uint64_t)getpagesize();
}

/* The machine may have only so many files open, fs.file-max in proc(5). While half of them are, a
 * quarter is too much for one sandbox. */
static bool has_too_many_files(const struct processes *processes)
{
    char text[96] = "";
    if (pread(processes->files_fd, text, sizeof text - 1, 0) <= 0) {
        return false;
    }
    char *at = text;
    uint64_t opened = strtoull(at, &at, 10);
    (void)strtoull(at, &at, 10);
    uint64_t most = strtoull(at, &at, 10);
    return opened > most / 2 && objects_has_files(processes, most / 4);
}

/* What counts for the sandbox because it takes too much of what the machine has only so much of:
 * more than limit, in bytes, or 0. sockets: the sandbox's. */
static uint64_t crowd_bytes(const struct processes *processes, uint64_t sockets, uint64_t limit)
{
    uint64_t bytes = sockets * OBJECTS_SOCKET_BYTES;
    return has_too_many_buffers(processes, bytes) || has_too_many_files(processes)
               ? limit + bytes + 1
               : 0;
}

/* --- the watchdog --- */

/* The watchdog: where no control group counts memory, init does, every MEMORY_WATCH_MS.
 *
 * What code can fill, and how the watchdog sees it:
 *
 * - Its own pages and page tables: /proc/PID/status. Forks share pages, so this is too much; only
 *   above the limit it reads the exact share, for which the kernel walks all pages.
 * - Files in /work, /tmp and /dev/shm: statvfs(3) of their tmpfs, whoever holds or has deleted
 *   them, and INODE_BYTES for each inode. Files of a scratch directory (unprivileged/scratch.c)
 *   are in memory only where it lies on a tmpfs; then disk.c counts them.
 * - Queues of sockets and pipes: no process's figures contain them, so each counts as what it
 *   could hold. Their number is checked closely only when the descriptor tables are large enough
 *   to matter.
 * - Sockets that no process holds, in transit in a message or connected and not accepted, with
 *   the data that was sent: the network namespace knows the number of sockets. Without a
 *   namespace supervisor.c bounds those that are not accepted.
 * - Objects of the kernel, and what is in transit to a socket that a process holds: objects.c.
 * - Shared memory without a name: mmap(2) with MAP_SHARED of /dev/zero or of nothing. Its pages
 *   stay when no process maps them, and nothing reports its size. But all such memory of the
 *   machine has grown by no more than sysinfo(2) says; if that matters, a process with such a
 *   mapping has it all.
 * - Memfds: a filter refuses them (filter_build_uncounted).
 *
 * The limit is soft: memory allocated between two scans exists. If an enclosing container has a
 * limit of its own, the kernel may kill all of the container there: so far above our limit all
 * sessions are killed at once. */

enum {
    PIPE_BYTES = 64 << 10, /* pipe(7) */
    PIPES_WHOLE = 1024, /* per user; further pipes get two pages: pipe-user-pages-soft, pipe(7) */
    PIPE_LEAST_BYTES = 8 << 10,
    INODE_BYTES = 1 << 10,  /* of kernel memory, with its name */
    FAR_BEYOND_PART = 8,    /* above the limit by this part of it */
    NOISE_PART = 1024,      /* growth below this part of the limit says nothing */
    TRACE_NS = 5000000,     /* for the process to write its trace before it is killed */
    THOROUGH_EVERY = 8,     /* scans */
    RUN_TICKS = 2,          /* of 10 ms, proc(5) */
    OBJECTS_NS = 400000000, /* between two scans of objects */
    OBJECTS_REST =
        10, /* pause after a scan of objects, in multiples of its duration, but at most */
    OBJECTS_REST_NS = 1000000000,
    SESSION_SOCKETS = 4, /* that server and init hold, for each session */
    OTHER_SOCKETS = 16,  /* and in addition */
};

/* How closely a scan counts. Each level costs more and never finds more than the one before. */
enum closeness { CLOSE_STATUS, CLOSE_QUEUES, CLOSE_PAGES, CLOSE_COUNT };

struct look {
    enum closeness closeness;
    uint64_t unnamed; /* shared memory that could be the sandbox's */
    uint64_t all;
    uint64_t tables; /* page tables: a walk through them finds no less, and takes long */
    uint64_t states; /* pages of checkpoints, */
    uint64_t beyond; /* and what of all is theirs */
    uint64_t largest;
    pid_t largest_pid;
    unsigned pipes;
    unsigned sockets;
    uint64_t unheld; /* of sockets that no process holds */
    bool shared;     /* by several sessions, which are distinguished */
    struct owners owners;
    struct inode_set seen; /* queues; further ones are counted each time */
};

/* Whether pid is exiting and has lost its memory, maybe since its status was read. Then neither its
 * pages nor its descriptors can be read any more, ptrace(2), and it has no pages. The exit of one
 * of its threads is not its own. */
static bool has_lost_memory(pid_t pid)
{
    static char status[PROC_STATUS_BYTES];
    pid_t thread = proc_thread(pid);
    return read_proc(thread, "status", status, sizeof status) > 0 ? !strstr(status, "\nVmPTE:")
                                                                  : thread == pid;
}

/* thread: one of pid that has its memory. status: of thread. */
static uint64_t pages_of(pid_t pid, pid_t thread, const char *status, enum closeness closeness)
{
    char text[2048];
    uint64_t pages_kib = parse_field(status, "RssAnon:", 0);
    if (closeness == CLOSE_PAGES && read_proc(thread, "smaps_rollup", text, sizeof text) > 0) {
        pages_kib = parse_field(text, "Pss_Anon:", pages_kib);
    } else if (closeness == CLOSE_PAGES && has_lost_memory(pid)) {
        return 0;
    }
    return (parse_field(status, "VmPTE:", 0) + pages_kib) * 1024;
}

static uint64_t pipe_bytes(struct look *look)
{
    return look->pipes++ < PIPES_WHOLE ? PIPE_BYTES : PIPE_LEAST_BYTES;
}

/* A FIFO's link in /proc is a path, fifo(7). AT_STATX_DONT_SYNC: does not wait for a file system's
 * server, statx(2). */
static uint64_t fifo_bytes(struct look *look, int dir_fd, const char *name)
{
    struct statx st;
    if (statx(dir_fd, name, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_TYPE | STATX_INO, &st) <
            0 ||
        !S_ISFIFO(st.stx_mode)) {
        return 0;
    }
    uint64_t device = (uint64_t)st.stx_dev_major << 20 | st.stx_dev_minor;
    return inode_set_add(&look->seen, device, st.stx_ino) ? pipe_bytes(look) : 0;
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
    const char *inode = target + (is_socket ? 8 : 6);
    if ((!is_socket && !is_pipe) || !inode_set_add(&look->seen, 0, parse_field(inode, "", 0))) {
        return 0;
    }
    if (is_socket) {
        look->sockets++;
        return OBJECTS_SOCKET_BYTES;
    }
    return pipe_bytes(look);
}

/* What the sockets and pipes of pid may hold in their queues. A process that hides its descriptors
 * may hold as many as fit in its table. Of one that is exiting those count that others share,
 * there. */
static uint64_t queues_of(struct look *look, pid_t pid, pid_t thread, const char *status)
{
    uint64_t sum = 0;
    defer_closedir DIR *dir = look->closeness == CLOSE_STATUS ? NULL : open_proc(thread, "fd");
    if (!dir) {
        bool exits = look->closeness != CLOSE_STATUS && has_lost_memory(pid);
        return exits ? 0 : parse_field(status, "FDSize:", 0) * OBJECTS_SOCKET_BYTES;
    }
    for (const char *name = NULL; (name = fd_next_name(dir));) {
        sum += queue_bytes(look, dirfd(dir), name);
    }
    return sum;
}

/* A process that hides its mappings (an unreadable program, execve(2)) may have it. */
static bool has_unnamed_memory(pid_t pid)
{
    char path[48];
    char line[512];
    bool found = false;
    (void)snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    defer_fclose FILE *file = fopen(path, "re");
    if (!file) {
        return errno == EACCES || errno == EPERM;
    }
    while (!found && fgets(line, sizeof line, file)) {
        found = strstr(line, "/dev/zero") != NULL;
    }
    return found;
}

static uint64_t files_bytes(const struct memory_watch *watch, uint64_t *ret_blocks)
{
    struct statvfs fs;
    if (watch->scratch) {
        *ret_blocks = watch->scratch_bytes;
        return *ret_blocks;
    }
    if (!watch->tmp || statvfs(watch->tmp, &fs) < 0) {
        return 0;
    }
    *ret_blocks = (uint64_t)(fs.f_blocks - fs.f_bfree) * fs.f_frsize;
    return *ret_blocks + (uint64_t)(fs.f_files - fs.f_ffree) * INODE_BYTES;
}

/* How much more shared memory the whole machine has than when the sandbox started, or than the
 * least since, except for the sandbox's own files. */
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

/* free_bytes: of its own pages that do not count. Returns how many bytes its pages are. */
static uint64_t add_process(struct look *look, pid_t pid, uint64_t free_bytes)
{
    static char status[PROC_STATUS_BYTES];
    pid_t thread = pid;
    if (read_proc(pid, "status", status, sizeof status) == 0) {
        return 0;
    }
    if (!strstr(status, "\nVmPTE:")) {
        thread = proc_thread(pid);
        (void)read_proc(thread, "status", status, sizeof status);
    }
    uint64_t pages = pages_of(pid, thread, status, look->closeness);
    uint64_t used = queues_of(look, pid, thread, status) + objects_bytes(pid) +
                    (pages > free_bytes ? pages - free_bytes : 0);
    if (look->closeness == CLOSE_PAGES && look->unnamed > 0 && has_unnamed_memory(thread)) {
        used += look->unnamed;
        look->unnamed = 0; /* only once: forks share it */
    }
    look->tables += parse_field(status, "VmPTE:", 0) * 1024;
    look->all += used;
    if (look->shared) {
        owners_add(&look->owners, tags_id_of(pid), pid, used);
    }
    if (used > look->largest) {
        look->largest = used;
        look->largest_pid = pid;
    }
    return pages;
}

/* Sockets beyond those that the scan has seen and our own. */
static uint64_t unheld_bytes(const struct processes *processes, const struct look *look,
                             uint64_t limit)
{
    uint64_t ours = OTHER_SOCKETS;
    uint64_t all = objects_sockets(processes);
    for (unsigned i = 0; i < PROCESSES_WATCHED; i++) {
        ours += processes->watched[i].pid > 0 ? SESSION_SOCKETS : 0;
    }
    uint64_t hidden = all > look->sockets + ours ? all - look->sockets - ours : 0;
    return hidden * OBJECTS_SOCKET_BYTES + crowd_bytes(processes, all, limit);
}

/* Adds up what the guest's processes use, except for the zygote, which must not be killed for it,
 * nor must a checkpoint, see checkpoint_policy.h. Checkpoints come last: what they share with
 * others is counted there. */
static void look_around(const struct memory_watch *watch, struct look *look,
                        enum closeness closeness)
{
    static unsigned looks;
    uint64_t blocks = 0;
    /* Far from the limit nobody has to go. */
    bool shared = look->all > watch->limit_bytes / 4 && watch_shared(watch->processes);
    *look = (struct look){.closeness = closeness, .shared = shared};
    look->all = files_bytes(watch, &blocks);
    look->unnamed = unnamed_bytes(blocks);
    if (closeness != CLOSE_PAGES) {
        look->all += look->unnamed;
    }
    bool thorough = closeness != CLOSE_STATUS || looks++ % THOROUGH_EVERY == 0;
    const pid_t *pid = (thorough ? process_tree_list : process_tree_glance)(watch->processes->root);
    for (; *pid; pid++) {
        if (!watch_spares(watch->processes, *pid)) {
            (void)add_process(look, *pid, 0);
        }
    }
    look->beyond = look->all;
    for (unsigned i = 0; i < PROCESSES_WATCHED; i++) {
        if (watch->processes->watched[i].pid > 0 &&
            watch->processes->watched[i].role == WIRE_ROLE_CHECKPOINT) {
            look->states +=
                add_process(look, watch->processes->watched[i].pid,
                            checkpoint_bytes(watch->limit_bytes, CHECKPOINT_STATE_PERCENT));
        }
    }
    look->beyond = look->all - look->beyond;
    look->unheld = unheld_bytes(watch->processes, look, watch->limit_bytes);
    look->all += look->unheld;
}

static void end_process(struct processes *processes, const struct look *look, pid_t pid,
                        enum wire_blame blame)
{
    const struct wire_reply reply = {.event = WIRE_MEMORY,
                                     .pid = processes->outside ? proc_inner_number(pid) : pid,
                                     .memory_bytes = look->all,
                                     .blame = blame};
    /* Code can have any number of other processes killed, also while the server is stopped. */
    if (watch_find(processes, pid)) {
        reply_send(&reply, -1);
    } else {
        reply_note(&reply);
    }
    watch_kill(processes, pid);
    objects_forget(pid);
}

/* Kills all processes but the zygote and the checkpoints; only those of the culprit, if that is
 * enough. culprit: the session that has filled the memory; NULL: nobody knows. */
static void end_sessions(struct processes *processes, const struct look *look,
                         const struct owner *culprit, uint64_t limit)
{
    bool enough = culprit && look->all - culprit->bytes <= limit;
    bool shared = watch_shared(processes);
    for (const pid_t *pid = process_tree_list(processes->root); *pid; pid++) {
        bool is_its = !shared || (culprit && tags_id_of(*pid) == culprit->tag);
        if (!watch_spares(processes, *pid) && (is_its || !enough)) {
            end_process(processes, look, *pid,
                        is_its    ? WIRE_BLAME_ITS_OWN
                        : culprit ? WIRE_BLAME_ANOTHER
                                  : WIRE_BLAME_UNKNOWN);
        }
    }
}

/* Whether processes have run since the last scan of objects, long enough to make some mebibytes. */
static bool has_run(const struct processes *processes)
{
    static uint64_t seen;
    uint64_t ticks = objects_ticks(processes, NULL);
    if (ticks >= seen && ticks - seen < RUN_TICKS) {
        return false;
    }
    seen = ticks;
    return true;
}

/* The oldest checkpoint of which its session has a later one; NULL: there is none. */
static const struct watched *oldest_state(const struct processes *processes)
{
    const struct watched *oldest = NULL;
    for (unsigned i = 0; i < PROCESSES_WATCHED; i++) {
        const struct watched *one = &processes->watched[i];
        bool is_older = false;
        for (unsigned k = 0; k < PROCESSES_WATCHED && !is_older; k++) {
            const struct watched *other = &processes->watched[k];
            is_older = other->pid > 0 && other->role == WIRE_ROLE_CHECKPOINT &&
                       other->tag == one->tag && other->order > one->order;
        }
        if (one->pid > 0 && one->role == WIRE_ROLE_CHECKPOINT && is_older &&
            (!oldest || one->order < oldest->order)) {
            oldest = one;
        }
    }
    return oldest;
}

/* Whether all checkpoints together have more than their part, of which the limit has no space. */
static bool states_exceed(const struct memory_watch *watch, const struct look *look)
{
    uint64_t limit = watch->limit_bytes;
    uint64_t part = checkpoint_bytes(limit, CHECKPOINT_STATE_PERCENT);
    return look->states > part && look->all - look->beyond + look->states - part > limit;
}

/* Counts exactly, and lets a state make way. look: by queues. Returns whether there is still too
 * much; not, where no process has got a page since that was last found. */
static bool count_pages(const struct memory_watch *watch, struct look *look)
{
    static uint64_t calm_faults;
    static uint64_t calm_bytes;
    uint64_t limit = watch->limit_bytes;
    uint64_t faults = objects_faults(watch->processes);
    uint64_t before = look->all;
    if (before <= calm_bytes && faults == calm_faults) {
        return false;
    }
    look_around(watch, look, CLOSE_PAGES);
    const struct watched *state = states_exceed(watch, look) && look->all - look->beyond <= limit
                                      ? oldest_state(watch->processes)
                                      : NULL;
    if (state) {
        watch_kill(watch->processes, state->pid); /* its exit is reported */
        return false;
    }
    calm_faults = faults;
    calm_bytes = look->all <= limit ? before : 0;
    return look->all > limit;
}

/* Scans objects when that is due, or at once; then only if the last scan was longer ago than it
 * took. Continues a scan that is in progress. */
static void check_objects(const struct memory_watch *watch, bool now)
{
    static uint64_t next_ns;
    static uint64_t fresh_ns;
    uint64_t began_ns = clock_now_ns();
    if (!objects_looking() && began_ns < (now ? fresh_ns : next_ns)) {
        return;
    }
    if (!now && !objects_looking() && !has_run(watch->processes)) {
        next_ns = began_ns + OBJECTS_NS;
        return;
    }
    if (!objects_look(watch->processes, /* locks_only= */ false, watch->limit_bytes)) {
        return;
    }
    uint64_t ended_ns = clock_now_ns();
    uint64_t rest_ns = (ended_ns - began_ns) * OBJECTS_REST;
    rest_ns = rest_ns < OBJECTS_REST_NS ? rest_ns : OBJECTS_REST_NS;
    fresh_ns = ended_ns + (ended_ns - began_ns);
    next_ns = ended_ns + (rest_ns > OBJECTS_NS ? rest_ns : OBJECTS_NS);
}

/* Kills the largest process of the session that has to go, or the largest of all. */
static void end_largest(const struct memory_watch *watch, struct look *look,
                        const struct owners *grown)
{
    const struct owner *culprit = look->shared ? owners_culprit(&look->owners, grown) : NULL;
    pid_t largest = culprit ? culprit->largest_pid : look->largest_pid;
    if (largest <= 1) {
        return;
    }
    if (watch_trace(watch->processes, largest) == 0) {
        (void)nanosleep(&(struct timespec){.tv_nsec = TRACE_NS}, NULL);
    }
    /* In a pid namespace the parent process sees the signal. Without one the session is killed as
     * well, because the result names the limit as the reason of the session's end. */
    const struct watched *session =
        watch->processes->guards ? watch_owner(watch->processes, largest) : NULL;
    pid_t session_pid = session ? session->pid : largest;
    end_process(watch->processes, look, largest, WIRE_BLAME_ITS_OWN);
    if (session_pid != largest) {
        end_process(watch->processes, look, session_pid, WIRE_BLAME_ITS_OWN);
    }
    if (watch->scratch && look->all > watch->limit_bytes + watch->limit_bytes / FAR_BEYOND_PART) {
        end_sessions(watch->processes, look, culprit, watch->limit_bytes);
    }
}

/* Returns false, where nothing is too much. */
static bool enforce(const struct memory_watch *watch, struct look *look)
{
    static struct owners grown;
    uint64_t limit = watch->limit_bytes;
    check_objects(watch, /* now= */ false);
    for (enum closeness closeness = CLOSE_STATUS; closeness < CLOSE_PAGES; closeness++) {
        look_around(watch, look, closeness);
        if (closeness == CLOSE_STATUS) {
            owners_grow(&look->owners, &grown, limit / NOISE_PART);
            grown = look->owners;
        }
        if (look->all <= limit && !states_exceed(watch, look)) {
            return false;
        }
    }
    if (look->tables <= limit && !count_pages(watch, look)) {
        return false;
    }
    /* The objects decide, and may be gone by this time. */
    if (look->all <= limit + objects_all_bytes()) {
        check_objects(watch, /* now= */ true);
        look_around(watch, look, CLOSE_PAGES);
        if (look->all <= limit) {
            return false;
        }
    }
    if (look->unheld > look->largest) { /* the owner is unknown */
        end_sessions(watch->processes, look, /* culprit= */ NULL, limit);
    } else {
        end_largest(watch, look, &grown);
    }
    return true;
}

static uint64_t last_seen;

uint64_t memory_seen(void)
{
    return last_seen;
}

bool watch_memory(const struct memory_watch *watch)
{
    static struct look look;
    bool killed = enforce(watch, &look);
    bool grows = look.all > last_seen && look.all > watch->limit_bytes / 2;
    last_seen = look.all;
    return killed || grows;
}

/* Kills the process with most objects in the last scan, of the session that has most. Returns false
 * when no process has any. */
static bool end_holder(struct processes *processes, struct look *look)
{
    look->owners.count = 0;
    for (const pid_t *pid = process_tree_list(processes->root); *pid; pid++) {
        if (!watch_spares(processes, *pid) && objects_bytes(*pid) > 0) {
            owners_add(&look->owners, tags_id_of(*pid), *pid, objects_bytes(*pid));
        }
    }
    const struct owner *culprit = owners_culprit(&look->owners, &(struct owners){});
    if (culprit) {
        end_process(processes, look, culprit->largest_pid, WIRE_BLAME_ITS_OWN);
    }
    return culprit != NULL;
}

void watch_rank(struct processes *processes, const struct wire_request *request, pid_t)
{
    static struct look look;
    static struct owners grown;
    bool is_short = request->tag != 0 && watch_shared(processes);
    const pid_t *pids = process_tree_list(processes->root);
    look = (struct look){.closeness = CLOSE_QUEUES, .shared = true};
    for (const pid_t *pid = pids; is_short && *pid; pid++) {
        if (!watch_spares(processes, *pid)) {
            (void)add_process(&look, *pid, 0);
        }
    }
    owners_grow(&look.owners, &grown, look.all / NOISE_PART);
    grown = look.owners;
    const struct owner *culprit = owners_culprit(&look.owners, &grown);
    bool was_ranked = processes->fills != 0;
    processes->fills = culprit ? culprit->tag : 0;
    for (const pid_t *pid = pids; (processes->fills || was_ranked) && *pid; pid++) {
        if (!watch_spares(processes, *pid)) {
            watch_offer(processes, *pid, tags_id_of(*pid), /* is_live= */ true);
        }
    }
    reply_send(
        &(struct wire_reply){.event = WIRE_RESPONSE, .id = request->id, .tag = processes->fills},
        -1);
}

void watch_uncounted(struct processes *processes, uint64_t limit_bytes, uint64_t inet_bytes)
{
    static struct look look;
    if (objects_looking() || has_run(processes)) {
        (void)objects_look(processes, /* locks_only= */ true, limit_bytes);
    }
    look.unheld = inet_bytes > 0 ? objects_inet_sockets(processes) * inet_bytes : 0;
    if (!processes->guards) {
        objects_drop_segments();
    }
    uint64_t sockets = objects_sockets(processes);
    look.unheld += crowd_bytes(processes, sockets, limit_bytes);
    if (sockets * OBJECTS_SOCKET_BYTES > limit_bytes) { /* else they cannot have as much */
        look.unheld += objects_netlink_bytes(processes);
    }
    look.all = objects_all_bytes() + look.unheld;
    if (look.unheld > limit_bytes) {
        end_sessions(processes, &look, /* culprit= */ NULL, limit_bytes);
        return;
    }
    while (objects_all_bytes() + look.unheld > limit_bytes && end_holder(processes, &look)) {
    }
}
