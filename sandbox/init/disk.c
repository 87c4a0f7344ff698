/* Watches what a box writes to folders of the host's disk, which has no quota: an errand's stage, and the
 * folders of a room (../room.c). Soft, as the watchdog of the memory is: it looks now and then, and rests
 * ten times as long as a look takes.
 *
 * An errand that has written too much ends. In a room the session ends that has written most, and takes up
 * its last state; its files stay, so that code can remove some, and from then on only growth counts. Who
 * fills a room far beyond the limit loses it: all of the box ends, and the next one has an empty room. */
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "sandbox/init/init.h"
#include "sandbox/init/usage.h"

enum {
    REST = 10,
    DEPTH = LIMIT_PACKAGE_DEPTH + 8,
    ROOM_LOOK_MS = 500, /* when the file system itself says nothing */
    WHOLE = 1000,       /* the limit, in thousandths of it */
    TOLERANCE = 60,     /* growth after a kill */
    FAR_BEYOND = 1250,
};

static uint64_t now_ms(void)
{
    return clock_now_ns() / CLOCK_NS_PER_MS;
}

static int open_folder(const char *path)
{
    return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* --- the stage --- */

static bool is_disk_nearly_full(const char *path)
{
    struct statvfs fs;
    /* A tmpfs without a bound says 0 of 0 blocks. */
    return statvfs(path, &fs) == 0 && fs.f_blocks > 0 &&
           (uint64_t)fs.f_bavail * fs.f_frsize < LIMIT_DISK_SPARE_BYTES;
}

void watch_disk(const struct init *init)
{
    static uint64_t next_ms;
    const struct usage most = {.bytes = init->config->stage_bytes,
                               .entries = 2ULL * LIMIT_PACKAGE_FILES};
    struct usage usage = {};
    uint64_t began_ms = now_ms();
    if (!init->guest_runs || began_ms < next_ms) {
        return;
    }
    usage_add_folder(&usage, open_folder(init->view.stage), DEPTH, &most);
    next_ms = now_ms() + INIT_DISK_MS + REST * (now_ms() - began_ms);
    if (usage.bytes > most.bytes || usage.entries > most.entries || usage.hides ||
        is_disk_nearly_full(init->view.stage)) {
        init_send(&(struct wire_reply){.event = WIRE_DISK, .disk_bytes = usage.bytes}, -1);
        (void)family_signal(init->root, SIGKILL);
        next_ms = UINT64_MAX;
    }
}

/* --- the room --- */

static struct {
    uint64_t next_ms;    /* of a look at all files, */
    uint64_t least_ms;   /* and not before then */
    uint64_t asked_ms;   /* when the file system was asked */
    uint64_t most_bytes; /* the limit, or less where the disk has not as much */
    uint64_t least_free; /* of the disk: a look is due when less than that is free */
    uint64_t first_free;
    uint64_t used_bytes;
    bool is_memory;     /* the disk is a tmpfs */
    unsigned tolerated; /* thousandths of the limit; 0: as much as the next look finds */
} room = {.tolerated = WHOLE};

static uint64_t free_bytes(const char *path)
{
    struct statvfs fs;
    return statvfs(path, &fs) == 0 ? (uint64_t)fs.f_bfree * fs.f_frsize : 0;
}

/* What /dev/shm holds more than at the first look, where code may write there. */
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

uint64_t watch_room_memory(const struct init *init)
{
    return shared_memory_bytes(init) + (room.is_memory ? room.used_bytes : 0);
}

/* All that code holds in the room. free: of the disk. */
static struct usage look_at_room(const struct init *init, uint64_t free)
{
    const struct usage most = {.bytes = UINT64_MAX, .entries = 4 * init->config->disk_inodes};
    const pid_t *pids = NULL;
    struct usage usage = {};
    for (unsigned i = 0; i < INIT_ROOM_FOLDERS; i++) {
        usage_add_folder(&usage, open_folder(init->view.room[i]), DEPTH, &most);
    }
    unsigned count = family_list(init->root, &pids);
    usage_begin();
    for (unsigned i = 0; i < count; i++) {
        usage_add_deleted(&usage, pids[i]);
    }
    /* What cannot be seen is at most what the disk has less; others write there too. */
    uint64_t gone = room.first_free > free ? room.first_free - free : 0;
    bool matters = gone > room.most_bytes && gone > usage.bytes;
    for (unsigned i = 0; matters && !usage.hides && i < count; i++) {
        usage.hides = usage_hides(pids[i]);
    }
    if (matters && usage.hides) {
        usage.bytes = gone;
    }
    return usage;
}

/* In thousandths of the limit. */
static unsigned part_of(const struct init *init, const struct usage *usage)
{
    uint64_t bytes = usage->bytes * WHOLE / room.most_bytes;
    uint64_t entries = usage->entries * WHOLE / init->config->disk_inodes;
    uint64_t most = bytes > entries ? bytes : entries;
    return most > FAR_BEYOND ? FAR_BEYOND + 1 : (unsigned)most;
}

/* most_bytes: the limit that was passed. */
static void tell_room(const struct init *init, const struct usage *usage, uint64_t most_bytes,
                      pid_t pid)
{
    bool files = usage->entries > init->config->disk_inodes;
    init_send(&(struct wire_reply){.event = WIRE_DISK,
                                   .pid = pid,
                                   .disk_bytes = usage->bytes,
                                   .disk_most_bytes = most_bytes,
                                   .disk_files = files ? usage->entries : 0},
              -1);
}

/* The session of who has written most; without one it is who has. */
static void end_writer(struct init *init, const struct usage *usage)
{
    const pid_t *pids = NULL;
    unsigned count = family_list(init->root, &pids);
    uint64_t most = 0;
    pid_t writer = 0;
    for (unsigned i = 0; i < count; i++) {
        uint64_t written = watch_spares(init, pids[i]) ? 0 : usage_written(pids[i]);
        if (written > most) {
            most = written;
            writer = pids[i];
        }
    }
    const struct watched *session = watch_owner(init, writer);
    if (session) {
        tell_room(init, usage, room.most_bytes, session->pid);
        watch_kill(init, session->pid);
    }
    if (writer > 0 && (!session || session->pid != writer)) {
        watch_kill(init, writer);
    }
}

static void begin_room(const struct init *init, uint64_t free)
{
    struct statfs fs;
    uint64_t most = init->config->disk_bytes;
    uint64_t memory =
        init->config->watch_memory_bytes / 4 * 3; /* as box_spec_disk_bytes() has it */
    room.is_memory = statfs(init->view.room[0], &fs) == 0 && fs.f_type == TMPFS_MAGIC;
    most = most < free / 4 * 3 ? most : free / 4 * 3 + 1;
    room.most_bytes = room.is_memory && memory > 0 && memory < most ? memory : most;
    room.first_free = free;
}

/* Of all of the box, whose files go with it. */
static void end_room(const struct init *init, const struct usage *usage, uint64_t most_bytes)
{
    tell_room(init, usage, most_bytes, 0);
    (void)family_signal(init->root, SIGKILL);
    room.least_ms = UINT64_MAX;
}

static void judge_room(struct init *init, const struct usage *usage)
{
    unsigned part = part_of(init, usage);
    if (part <= WHOLE) {
        room.tolerated = WHOLE;
    } else if (room.tolerated == 0) {
        room.tolerated = part + TOLERANCE;
    }
    if (part > FAR_BEYOND) {
        end_room(init, usage, room.most_bytes);
    } else if (part > room.tolerated) {
        end_writer(init, usage);
        room.tolerated = 0;
        room.next_ms = 0;
    }
}

void watch_room(struct init *init)
{
    uint64_t began_ms = now_ms();
    if (!init->guest_runs || began_ms < room.least_ms || began_ms == room.asked_ms) {
        return;
    }
    room.asked_ms = began_ms; /* not with each question of the guest's */
    uint64_t free = free_bytes(init->view.room[0]);
    if (began_ms < room.next_ms && free >= room.least_free) {
        return;
    }
    if (room.most_bytes == 0) {
        begin_room(init, free);
    }
    struct usage usage = look_at_room(init, free);
    uint64_t left = usage.bytes < room.most_bytes ? room.most_bytes - usage.bytes : 0;
    uint64_t pause_ms = REST * (now_ms() - began_ms);
    room.used_bytes = usage.bytes;
    room.least_ms = now_ms() + (pause_ms < INIT_GUARD_MS ? INIT_GUARD_MS : pause_ms);
    room.next_ms = now_ms() + ROOM_LOOK_MS + pause_ms;
    room.least_free = free > left / 2 ? free - left / 2 : 0;
    judge_room(init, &usage);
    /* Those files are in memory, and no kill of a session frees them. */
    usage.bytes = shared_memory_bytes(init);
    uint64_t memory = init->config->watch_memory_bytes / 4 * 3;
    if (memory > 0 && room.least_ms < UINT64_MAX && usage.bytes > memory) {
        end_room(init, &usage, memory);
    }
}
