/* Watches what a sandbox writes to directories of the host's disk, which has no quota: an
 * installer's staging directory and the scratch directory (unprivileged/scratch.c). Soft, like the
 * memory watchdog: it scans periodically, and pauses ten times as long as a scan takes.
 *
 * An installer that has written too much is killed. Of sessions that write now it kills the one
 * that has written most, which fails over to its last state; its files stay, so that code can
 * remove some, and until then only growth counts. Far above the limit it kills the whole sandbox,
 * and the next one gets an empty scratch directory. */
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include "base/clock.h"
#include "base/limits.h"
#include "sandbox/programs/common/memory.h"
#include "sandbox/programs/common/processes.h"
#include "sandbox/programs/init/init.h"

enum {
    REST = 10,
    DEPTH = LIMIT_PACKAGE_DEPTH + 8,
    SCRATCH_LOOK_MS = 500, /* when the file system's free space shows nothing */
    WHOLE = 1000,          /* the limit, in thousandths of itself */
    TOLERANCE = 60,        /* growth after a kill */
    FAR_BEYOND = 1250,
};

static uint64_t now_ms(void)
{
    return clock_now_ns() / CLOCK_NS_PER_MS;
}

static int open_directory(const char *path)
{
    return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* --- the staging directory --- */

static bool is_disk_nearly_full(const char *path)
{
    struct statvfs fs;
    /* A tmpfs without a limit reports 0 of 0 blocks. */
    return statvfs(path, &fs) == 0 && fs.f_blocks > 0 &&
           (uint64_t)fs.f_bavail * fs.f_frsize < LIMIT_DISK_SPARE_BYTES;
}

void watch_disk(const struct init *init)
{
    static uint64_t next_ms;
    const struct usage most = {.bytes = init->config->staging_bytes,
                               .entries = 2ULL * LIMIT_PACKAGE_FILES};
    struct usage usage = {};
    uint64_t began_ms = now_ms();
    if (!init->guest_runs || began_ms < next_ms) {
        return;
    }
    usage_add_directory(&usage, open_directory(init->paths.staging), DEPTH, &most);
    next_ms = now_ms() + INIT_DISK_MS + REST * (now_ms() - began_ms);
    if (usage.bytes > most.bytes || usage.entries > most.entries || usage.hides ||
        is_disk_nearly_full(init->paths.staging)) {
        reply_send(&(struct wire_reply){.event = WIRE_DISK, .disk_bytes = usage.bytes}, -1);
        (void)process_tree_signal(init->processes.root, SIGKILL);
        next_ms = UINT64_MAX;
    }
}

/* --- the scratch directory --- */

static struct {
    uint64_t next_ms;    /* when all files are counted next, */
    uint64_t least_ms;   /* but not before this */
    uint64_t asked_ms;   /* when the file system's free space was last read */
    uint64_t most_bytes; /* the limit, or less where the disk has less space */
    uint64_t least_free; /* of the disk: a scan is due when less is free */
    uint64_t first_free;
    uint64_t used_bytes;
    bool is_memory;     /* the disk is a tmpfs */
    bool hid;           /* the last scan met files that it could not count */
    unsigned tolerated; /* thousandths of the limit; 0: as much as the next scan finds */
} scratch = {.tolerated = WHOLE};

static uint64_t free_bytes(const char *path)
{
    struct statvfs fs;
    return statvfs(path, &fs) == 0 ? (uint64_t)fs.f_bfree * fs.f_frsize : 0;
}

/* How much more /dev/shm holds than at the first scan, where code may write there. */
static uint64_t shared_memory_bytes(const struct init *init)
{
    static bool looked;
    static uint64_t first_free;
    bool granted = false;
    for (unsigned i = 0; i < init->rule_count; i++) {
        granted = granted || strcmp(init->rules[i].path, "/dev/shm") == 0;
    }
    uint64_t free = granted ? free_bytes("/dev/shm") : 0;
    if (!looked) {
        looked = true;
        first_free = free;
    }
    return first_free > free ? first_free - free : 0;
}

uint64_t watch_scratch_memory(const struct init *init)
{
    return shared_memory_bytes(init) + (scratch.is_memory ? scratch.used_bytes : 0);
}

/* All that code holds in the scratch directory. free: of the disk. */
static struct usage measure_scratch(const struct init *init, uint64_t free)
{
    const struct usage most = {.bytes = UINT64_MAX, .entries = 4 * init->config->disk_inodes};
    struct usage usage = {};
    for (unsigned i = 0; i < INIT_SCRATCH_DIRECTORIES; i++) {
        usage_add_directory(&usage, open_directory(init->paths.scratch[i]), DEPTH, &most);
    }
    const pid_t *pids = process_tree_list(init->processes.root);
    usage_begin();
    for (const pid_t *pid = pids; *pid; pid++) {
        usage_add_deleted(&usage, *pid);
    }
    /* Hidden files use at most what the disk has lost since the start; other programs write there
     * too. */
    uint64_t gone = scratch.first_free > free ? scratch.first_free - free : 0;
    bool matters = gone > scratch.most_bytes && gone > usage.bytes;
    for (const pid_t *pid = pids; matters && !usage.hides && *pid; pid++) {
        usage.hides = usage_hides(*pid);
    }
    /* Once alone it may be a session that is being opened: the zygote passes it descriptors. */
    if (matters && usage.hides && scratch.hid) {
        usage.bytes = gone;
    }
    scratch.hid = matters && usage.hides;
    return usage;
}

/* In thousandths of the limit. */
static unsigned part_of(const struct init *init, const struct usage *usage)
{
    uint64_t bytes = usage->bytes * WHOLE / scratch.most_bytes;
    uint64_t entries = usage->entries * WHOLE / init->config->disk_inodes;
    uint64_t most = bytes > entries ? bytes : entries;
    return most > FAR_BEYOND ? FAR_BEYOND + 1 : (unsigned)most;
}

/* most_bytes: the exceeded limit. */
static void tell_scratch(const struct init *init, const struct usage *usage, uint64_t most_bytes,
                         pid_t pid)
{
    bool files = usage->entries > init->config->disk_inodes;
    reply_send(&(struct wire_reply){.event = WIRE_DISK,
                                    .pid = pid,
                                    .disk_bytes = usage->bytes,
                                    .disk_most_bytes = most_bytes,
                                    .disk_files = files ? usage->entries : 0},
               -1);
}

static struct owners written; /* by each session's processes that live */

static void count_written(const struct init *init)
{
    const struct owners before = written;
    written.count = 0;
    for (const pid_t *pid = process_tree_list(init->processes.root); *pid; pid++) {
        if (!watch_spares(&init->processes, *pid)) {
            owners_add(&written, tags_id_of(*pid), *pid, usage_written(*pid));
        }
    }
    owners_grow(&written, &before, /* matters= */ 0);
}

/* Kills the session that has written most, of those that write now; without a session, the process
 * that has. */
static void end_writer(struct init *init, const struct usage *usage)
{
    const struct owner *culprit = owners_culprit(&written, &written);
    pid_t writer = culprit && culprit->bytes > 0 ? culprit->largest_pid : 0;
    const struct watched *session = watch_owner(&init->processes, writer);
    if (session) {
        tell_scratch(init, usage, scratch.most_bytes, session->pid);
        watch_kill(&init->processes, session->pid);
    }
    if (writer > 0 && (!session || session->pid != writer)) {
        watch_kill(&init->processes, writer);
    }
}

static void begin_scratch(const struct init *init, uint64_t free)
{
    struct statfs fs;
    uint64_t most = init->config->disk_bytes;
    uint64_t memory = init->config->watch_memory_bytes / 4 * 3; /* as in box_spec_disk_bytes() */
    scratch.is_memory = statfs(init->paths.scratch[0], &fs) == 0 && fs.f_type == TMPFS_MAGIC;
    most = most < free / 4 * 3 ? most : free / 4 * 3 + 1;
    scratch.most_bytes = scratch.is_memory && memory > 0 && memory < most ? memory : most;
    scratch.first_free = free;
}

/* Kills the whole sandbox, whose files are removed with it. */
static void end_scratch(const struct init *init, const struct usage *usage, uint64_t most_bytes)
{
    tell_scratch(init, usage, most_bytes, 0);
    (void)process_tree_signal(init->processes.root, SIGKILL);
    scratch.least_ms = UINT64_MAX;
}

static void check_scratch(struct init *init, const struct usage *usage)
{
    unsigned part = part_of(init, usage);
    count_written(init);
    if (part <= WHOLE) {
        scratch.tolerated = WHOLE;
    } else if (scratch.tolerated == 0) {
        scratch.tolerated = part + TOLERANCE;
    }
    if (part > FAR_BEYOND) {
        end_scratch(init, usage, scratch.most_bytes);
    } else if (part > scratch.tolerated) {
        end_writer(init, usage);
        scratch.tolerated = 0;
        scratch.next_ms = 0;
    }
}

void watch_scratch(struct init *init)
{
    uint64_t began_ms = now_ms();
    if (!init->guest_runs || began_ms < scratch.least_ms || began_ms == scratch.asked_ms) {
        return;
    }
    scratch.asked_ms = began_ms; /* not again for each notification of the guest */
    uint64_t free = free_bytes(init->paths.scratch[0]);
    if (began_ms < scratch.next_ms && free >= scratch.least_free) {
        return;
    }
    if (scratch.most_bytes == 0) {
        begin_scratch(init, free);
    }
    struct usage usage = measure_scratch(init, free);
    uint64_t left = usage.bytes < scratch.most_bytes ? scratch.most_bytes - usage.bytes : 0;
    uint64_t pause_ms = REST * (now_ms() - began_ms);
    scratch.used_bytes = usage.bytes;
    scratch.least_ms = now_ms() + (pause_ms < INIT_SUPERVISOR_MS ? INIT_SUPERVISOR_MS : pause_ms);
    scratch.next_ms = now_ms() + SCRATCH_LOOK_MS + pause_ms;
    scratch.least_free = free > left / 2 ? free - left / 2 : 0;
    check_scratch(init, &usage);
    /* Those files are in memory, and killing a session frees none of them. */
    usage.bytes = shared_memory_bytes(init);
    uint64_t memory = init->config->watch_memory_bytes / 4 * 3;
    if (memory > 0 && scratch.least_ms < UINT64_MAX && usage.bytes > memory) {
        end_scratch(init, &usage, memory);
    }
}
