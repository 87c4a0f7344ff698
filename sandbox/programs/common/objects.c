/* Kernel memory behind what a process holds, which neither /proc/PID/status nor every control
 * group counts:
 *
 * - Mappings: vm_area_struct with its place in the tree, and for each living ancestor one
 *   anon_vma_chain, because forks share their pages' reverse mappings (mm/rmap.c).
 * - Descriptors: struct file with its object; a file of /proc keeps the buffer of its last read.
 * - Epoll: an item for each descriptor in each instance; /proc/PID/fdinfo lists them, proc(5).
 * - File locks: POSIX locks of ranges, any number. No control group counts them (CVE-2022-0480,
 *   whose fix was reverted); fdinfo lists them. Locks of open file descriptions could be hidden
 *   in a message, and are refused (policy/filter.c).
 * - Tasks: kernel stack and task_struct.
 *
 * A scan reads a line for each of them, so it runs only periodically, and its result holds until
 * the next. Code can make a scan arbitrarily long, with many duplicates of few descriptors: so a
 * scan is done in turns, and messages are handled between them. */
#include "sandbox/programs/common/memory.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/own.h"
#include "base/parse.h"
#include "sandbox/programs/common/processes.h"

enum {
    PROCESSES = 4096,
    PART = 64 << 10, /* of a file that is read in parts */
    MAPPING_BYTES = 256,
    CHAIN_BYTES = 64,
    FILE_BYTES = 512,
    PROC_FILE_BYTES = 8 << 10,
    FDINFO_BYTES = 1 << 20, /* at least: its descriptor may be gone, while the text stays */
    LOCK_BYTES = 192,
    TASK_BYTES = 24 << 10,
    LOCKS_A_TICK = 10000,    /* of 10 ms, proc(5): no call takes less than a microsecond */
    UNSEEN_MAPPINGS = 65530, /* Linux's default of vm.max_map_count */
    PAGE = 4096,
    TURN_NS = 50000000,
};

#define EPOLL "anon_inode:[eventpoll]" /* proc(5) */

enum { LOCKS, ITEMS, WORDS }; /* prefixes of lines in fdinfo */

struct entry {
    pid_t pid;
    pid_t parent;
    uint64_t bytes;
};

struct list {
    struct entry entries[PROCESSES]; /* sorted by pid */
    unsigned count;
};

static struct list lists[2];
static struct list *whole = &lists[0]; /* result of the last complete scan */
static struct list *fresh = &lists[1]; /* of the current scan; else empty */

/* The current scan. */
static struct {
    unsigned at;     /* current entry */
    long descriptor; /* the last one read of this entry; -1: none yet */
    unsigned orphans;
    uint64_t found; /* bytes, of living processes */
    uint64_t limit;
    uint64_t epoll_item_bytes;
    uint64_t turn_ends_ns;
} look;

static int compare(const void *a, const void *b)
{
    pid_t x = ((const struct entry *)a)->pid;
    pid_t y = ((const struct entry *)b)->pid;
    return (x > y) - (x < y);
}

static struct entry *find(struct list *list, pid_t pid)
{
    const struct entry key = {.pid = pid};
    return bsearch(&key, list->entries, list->count, sizeof *list->entries, compare);
}

bool objects_looking(void)
{
    return fresh->count > 0;
}

uint64_t objects_bytes(pid_t pid)
{
    const struct entry *old = find(whole, pid);
    const struct entry *new = find(fresh, pid);
    uint64_t before = old ? old->bytes : 0;
    uint64_t now = new ? new->bytes : 0;
    bool done = new &&new < fresh->entries + look.at;
    return done || now > before ? now : before;
}

void objects_forget(pid_t pid)
{
    for (unsigned i = 0; i < sizeof lists / sizeof *lists; i++) {
        struct entry *entry = find(&lists[i], pid);
        if (entry) {
            entry->bytes = 0;
        }
    }
}

uint64_t objects_all_bytes(void)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < fresh->count; i++) {
        sum += objects_bytes(fresh->entries[i].pid);
    }
    for (unsigned i = 0; i < whole->count; i++) {
        sum += find(fresh, whole->entries[i].pid) ? 0 : whole->entries[i].bytes;
    }
    return sum;
}

struct lines {
    const char *const *words;
    uint64_t counts[WORDS];
    size_t size; /* of all */
};

/* The largest that any scan has seen: nothing else is known of one that is gone or in transit in a
 * message. */
static size_t largest_fdinfo;
static uint64_t most_items;

static bool begins(const char *text, const char *word)
{
    return strncmp(text, word, strlen(word)) == 0;
}

/* Counts lines of a file of /proc/PID by their prefixes. False: it cannot be read. */
static bool count_lines(pid_t pid, const char *name, struct lines *lines)
{
    static char buffer[PART];
    char path[64];
    defer_free char *line = NULL;
    size_t space = 0;
    ssize_t size = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    defer_fclose FILE *file = fopen(path, "re");
    if (!file) {
        return false;
    }
    (void)setvbuf(file, buffer, _IOFBF, sizeof buffer);
    while ((size = getline(&line, &space, file)) > 0) {
        lines->size += (size_t)size;
        for (unsigned w = 0; w < WORDS; w++) {
            lines->counts[w] += begins(line, lines->words[w]);
        }
    }
    return true;
}

/* Fields of /proc/PID/stat, proc(5); times in ticks. */
enum {
    MINOR_FAULTS = 10,
    MAJOR_FAULTS = 12,
    USER = 14,
    SYSTEM,
    CHILDREN_USER,
    CHILDREN_SYSTEM,
};

/* The sum of the fields from first to last. Adds to *system those of the kernel's time, unless it
 * is NULL. */
static uint64_t sum_of_fields(pid_t pid, unsigned first, unsigned last, uint64_t *system)
{
    char text[PROC_STAT_BYTES];
    uint64_t sum = 0;
    const char *stat = proc_stat(pid, "stat", text);
    for (unsigned field = first; field <= last; field++) {
        uint64_t value = proc_stat_number(stat, field);
        sum += value;
        if (system && (field == SYSTEM || field == CHILDREN_SYSTEM)) {
            *system += value;
        }
    }
    return sum;
}

uint64_t objects_ticks(const struct processes *processes, uint64_t *ret_system)
{
    /* An exited process counts in the process that reaped it. */
    uint64_t sum = sum_of_fields(processes->outside ? processes->root : getpid(), CHILDREN_USER,
                                 CHILDREN_SYSTEM, ret_system);
    for (const pid_t *pid = process_tree_list(processes->root); *pid; pid++) {
        sum += sum_of_fields(*pid, USER, CHILDREN_SYSTEM, ret_system);
    }
    return sum;
}

uint64_t objects_faults(const struct processes *processes)
{
    static const uint64_t key[2] = {1, 2};
    struct siphash hash;
    siphash_init(&hash, key);
    uint64_t all = 0;
    for (const pid_t *pid = process_tree_list(processes->root); *pid; pid++) {
        const uint64_t one[2] = {(uint64_t)*pid,
                                 sum_of_fields(*pid, MINOR_FAULTS, MAJOR_FAULTS, NULL)};
        siphash_add(&hash, one, sizeof one);
        all += one[1];
    }
    static uint64_t uncounted;
    return all > 0 ? siphash_sum(&hash) : ++uncounted; /* gVisor counts none */
}

/* For a file of /proc: the buffer of its last read. fdinfo is one record, in a buffer that doubles
 * until all of it fits (seq_read_iter(), fs/seq_file.c). */
static uint64_t proc_file_bytes(const char *target)
{
    uint64_t bytes = FDINFO_BYTES;
    if (!strstr(target, "/fdinfo/")) {
        return PROC_FILE_BYTES;
    }
    while (bytes <= largest_fdinfo) {
        bytes *= 2;
    }
    return bytes;
}

/* Number of descriptors in transit to this socket of pid; also 0 when the kernel does not report
 * it. */
static uint64_t usage_flights(pid_t pid, const char *descriptor)
{
    char path[32];
    char text[1024];
    (void)snprintf(path, sizeof path, "fdinfo/%.16s", descriptor);
    size_t size = read_proc(pid, path, text, sizeof text);
    /* unix_show_fdinfo(), net/unix/af_unix.c */
    return size > 0 ? parse_field(text, "scm_fds:", 0) : 0;
}

/* locks_only: a control group counts the memory of the rest; but of epoll items there can be too
 * many for the user. */
static uint64_t descriptor_bytes(pid_t pid, const char *number, const char *target, bool locks_only)
{
    static const char *const words[WORDS] = {[LOCKS] = "lock:", [ITEMS] = "tfd:"};
    struct lines lines = {.words = words};
    char info[32];
    bool proc_file = begins(target, "/proc/");
    if (begins(target, "socket:")) { /* it may have full sockets or epoll instances in transit */
        uint64_t flights = locks_only && most_items == 0 ? 0 : usage_flights(pid, number);
        uint64_t items = flights * most_items * look.epoll_item_bytes;
        return locks_only ? items
                          : items + FILE_BYTES + flights * (FILE_BYTES + OBJECTS_SOCKET_BYTES);
    }
    /* Only a file with a path can be locked; a deleted file has one, too. */
    if (locks_only && (target[0] != '/' || proc_file) && strcmp(target, EPOLL) != 0) {
        return 0;
    }
    (void)snprintf(info, sizeof info, "fdinfo/%.16s", number);
    (void)count_lines(pid, info, &lines);
    largest_fdinfo = lines.size > largest_fdinfo ? lines.size : largest_fdinfo;
    most_items = lines.counts[ITEMS] > most_items ? lines.counts[ITEMS] : most_items;
    uint64_t counted =
        lines.counts[LOCKS] * LOCK_BYTES + lines.counts[ITEMS] * look.epoll_item_bytes;
    return locks_only ? counted : counted + (proc_file ? proc_file_bytes(target) : FILE_BYTES);
}

static void add(struct entry *entry, uint64_t bytes)
{
    entry->bytes += bytes;
    look.found += bytes;
}

/* A total above the limit gets a process killed, so the turn can stop there. */
static bool turn_is_over(void)
{
    return look.found > look.limit || clock_now_ns() >= look.turn_ends_ns;
}

/* Continues an entry's descriptors. Returns false when the turn was over before the last one. */
static bool add_descriptors(struct entry *entry, pid_t pid, bool locks_only)
{
    const char *name = NULL;
    bool over = false;
    defer_closedir DIR *dir = open_proc(pid, "fd");
    if (!dir) { /* hidden: nothing else bounds its locks */
        add(entry, sum_of_fields(pid, SYSTEM, SYSTEM, NULL) * LOCKS_A_TICK * LOCK_BYTES);
        return true;
    }
    while (!over && (name = fd_next_name(dir))) { /* in numerical order */
        char target[64] = "";
        long number = strtol(name, NULL, 10);
        if (number <= look.descriptor) {
            continue;
        }
        if (readlinkat(dirfd(dir), name, target, sizeof target - 1) > 0) {
            add(entry, descriptor_bytes(pid, name, target, locks_only));
        }
        look.descriptor = number;
        over = turn_is_over();
    }
    return !over;
}

/* Processes that may share pages with this one: its ancestors. One of them may have exited; then
 * orphans could be among them as well. */
static unsigned ancestors_of(const struct processes *processes, const struct entry *entry)
{
    unsigned above = 0;
    for (const struct entry *at = entry; at && above < fresh->count; at = find(fresh, at->parent)) {
        above++;
        if (!find(fresh, at->parent) && !watch_find(processes, at->pid)) {
            above += look.orphans;
        }
    }
    return above;
}

static uint64_t count_mappings(pid_t pid, const char *status)
{
    static const char *const all[WORDS] = {"", ""};
    struct lines lines = {.words = all};
    uint64_t count = count_lines(pid, "maps", &lines) ? lines.counts[0] : 0;
    if (count == 0) {
        uint64_t most = parse_field(status, "VmSize:", 0) * 1024 / PAGE;
        count = most < UNSEEN_MAPPINGS ? most : UNSEEN_MAPPINGS;
    }
    return count;
}

bool objects_has_files(const struct processes *processes, uint64_t most)
{
    static char status[PROC_STATUS_BYTES];
    const pid_t *pid = process_tree_list(processes->root);
    uint64_t files = 0;
    for (; *pid && files <= most; pid++) { /* a line for each takes long */
        pid_t thread = proc_thread(*pid);
        if (read_proc(thread, "status", status, sizeof status) > 0) {
            files += count_mappings(thread, status) + parse_field(status, "FDSize:", 0);
        }
    }
    return files > most;
}

static void begin_look(const struct processes *processes)
{
    static char status[PROC_STATUS_BYTES];
    const pid_t *pid = process_tree_list(processes->root);
    for (; *pid && fresh->count < PROCESSES; pid++) {
        if (*pid == processes->zygote || read_proc(*pid, "status", status, sizeof status) == 0) {
            continue;
        }
        pid_t parent = (pid_t)parse_field(status, "PPid:", 0);
        fresh->entries[fresh->count++] = (struct entry){.pid = *pid, .parent = parent};
    }
    qsort(fresh->entries, fresh->count, sizeof *fresh->entries, compare);
    look.at = 0;
    look.epoll_item_bytes = processes->epoll_item_bytes;
    look.descriptor = -1;
    look.orphans = 0;
    for (unsigned i = 0; i < fresh->count; i++) {
        const struct entry *entry = &fresh->entries[i];
        look.orphans += !find(fresh, entry->parent) && !watch_find(processes, entry->pid);
    }
}

/* Sums up what this scan has found for living processes: exited ones would cut every further turn
 * short. */
static void begin_turn(const struct processes *processes, uint64_t limit)
{
    look.found = 0;
    for (const pid_t *pid = process_tree_list(processes->root); *pid; pid++) {
        const struct entry *entry = find(fresh, *pid);
        look.found += entry ? entry->bytes : 0;
    }
    look.limit = limit;
    look.turn_ends_ns = clock_now_ns() + TURN_NS;
}

static void end_look(void)
{
    struct list *old = whole;
    whole = fresh;
    fresh = old;
    fresh->count = 0;
}

bool objects_look(const struct processes *processes, bool locks_only, uint64_t limit)
{
    static char status[PROC_STATUS_BYTES];
    if (!objects_looking()) {
        begin_look(processes);
    }
    begin_turn(processes, limit);
    while (look.at < fresh->count) {
        struct entry *entry = &fresh->entries[look.at];
        pid_t thread = proc_thread(entry->pid);
        if (!add_descriptors(entry, thread, locks_only)) {
            return false;
        }
        if (!locks_only && read_proc(thread, "status", status, sizeof status) > 0) {
            uint64_t mapping_bytes = MAPPING_BYTES + ancestors_of(processes, entry) * CHAIN_BYTES;
            add(entry, count_mappings(thread, status) * mapping_bytes +
                           parse_field(status, "Threads:", 0) * TASK_BYTES);
        }
        look.at++;
        look.descriptor = -1;
        if (look.at < fresh->count && turn_is_over()) {
            return false;
        }
    }
    end_look();
    return true;
}

void objects_drop_segments(void)
{
    enum { SEGMENTS = 16 };
    struct shm_info info = {};
    int last = shmctl(0, SHM_INFO, (struct shmid_ds *)&info);
    for (int i = 0; info.used_ids > SEGMENTS && i <= last; i++) {
        struct shmid_ds segment;
        int id = shmctl(i, SHM_STAT_ANY, &segment); /* shmctl(2): whatever its mode */
        if (id >= 0 && segment.shm_nattch == 0) {
            (void)shmctl(id, IPC_RMID, NULL);
        }
    }
}

/* --- sockets --- */

enum { NET_BYTES = 1024, NETLINK_BYTES = 4 << 10 };

/* A file of /proc/net of the sandbox. */
static void read_net(const struct processes *processes, const char *file, char text[NET_BYTES])
{
    char path[32];
    (void)snprintf(path, sizeof path, "net/%s", file);
    text[0] = '\0';
    (void)read_proc(processes->outside ? processes->root : getpid(), path, text, NET_BYTES);
}

static uint64_t net_number(const struct processes *processes, const char *file, const char *name)
{
    char text[NET_BYTES];
    read_net(processes, file, text);
    return parse_field(text, name, 0);
}

uint64_t objects_sockets(const struct processes *processes)
{
    return processes->guards ? 0 : net_number(processes, "sockstat", "sockets: used ");
}

uint64_t objects_inet_sockets(const struct processes *processes)
{
    return net_number(processes, "sockstat", "TCP: inuse ") +
           net_number(processes, "sockstat", "UDP: inuse ") +
           net_number(processes, "sockstat6", "TCP6: inuse ") +
           net_number(processes, "sockstat6", "UDP6: inuse ");
}

uint64_t objects_netlink_bytes(const struct processes *processes)
{
    char path[48];
    char line[256];
    uint64_t bytes = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/net/netlink",
                   (int)(processes->outside ? processes->root : getpid()));
    defer_fclose FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        unsigned long queue = 0;
        if (sscanf(line, "%*s %*s %*s %*s %lu", &queue) == 1) {
            bytes += queue + NETLINK_BYTES;
        }
    }
    return bytes;
}

uint64_t objects_network_pages(const struct processes *processes)
{
    static const char word[] = " mem "; /* of TCP and UDP, in all namespaces together */
    char text[NET_BYTES];
    uint64_t pages = 0;
    read_net(processes, "sockstat", text);
    for (const char *at = text; (at = strstr(at, word));) {
        at += strlen(word);
        pages += strtoul(at, NULL, 10);
    }
    return pages;
}

/* --- what code holds of a disk --- */

enum {
    BLOCK = 512,
    PROBES = 64,
    LINK_BYTES = 4096,
    PROC_BYTES = 1 << 20,
};

static struct inode_set seen; /* files; further ones are counted each time */

bool inode_set_add(struct inode_set *set, uint64_t device, uint64_t inode)
{
    const uint64_t key = (inode ^ device << 32) + 1; /* 0: a free slot */
    for (unsigned i = 0; i < PROBES; i++) {
        uint64_t *slot = &set->keys[(key + i) % INODE_SET_SIZE];
        if (*slot == key) {
            return false;
        }
        if (*slot == 0) {
            *slot = key;
            return true;
        }
    }
    return true;
}

void usage_add_directory(struct usage *usage, int fd, unsigned depth, const struct usage *most)
{
    defer_closedir DIR *dir = fd_directory(fd);
    const char *name = NULL;
    struct stat st;
    while (usage->bytes <= most->bytes && usage->entries <= most->entries &&
           (name = fd_next_name(dir))) {
        if (fstatat(dirfd(dir), name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            continue;
        }
        usage->bytes += (uint64_t)st.st_blocks * BLOCK;
        usage->entries++;
        if (S_ISDIR(st.st_mode) && depth == 0) {
            usage->hides = true;
        } else if (S_ISDIR(st.st_mode)) {
            int below = openat(dirfd(dir), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            usage->hides = usage->hides || (below < 0 && errno == EACCES);
            usage_add_directory(usage, below, depth - 1, most);
        }
    }
}

void usage_begin(void)
{
    seen = (struct inode_set){};
}

void usage_add_deleted(struct usage *usage, pid_t pid)
{
    static const char deleted[] = " (deleted)"; /* proc(5) */
    defer_closedir DIR *dir = open_proc(proc_thread(pid), "fd");
    struct stat st;
    for (const char *name = NULL; (name = fd_next_name(dir));) {
        char target[LINK_BYTES];
        ssize_t size = readlinkat(dirfd(dir), name, target, sizeof target - 1);
        if (size <= 0 || target[0] != '/') {
            continue;
        }
        target[size] = '\0';
        /* A target of this length is truncated; the number of links decides all the same. */
        if ((size < LINK_BYTES - 1 && !strstr(target, deleted)) ||
            fstatat(dirfd(dir), name, &st, 0) < 0) {
            continue;
        }
        if (S_ISREG(st.st_mode) && st.st_nlink == 0 && inode_set_add(&seen, st.st_dev, st.st_ino)) {
            usage->bytes += (uint64_t)st.st_blocks * BLOCK;
            usage->entries++;
        }
    }
}

/* Whether a socket of pid has descriptors in transit to it. */
static bool has_flights(pid_t pid)
{
    defer_closedir DIR *dir = open_proc(proc_thread(pid), "fd");
    bool found = false;
    for (const char *name = NULL; !found && (name = fd_next_name(dir));) {
        char target[32] = "";
        found = readlinkat(dirfd(dir), name, target, sizeof target - 1) > 0 &&
                strncmp(target, "socket:", strlen("socket:")) == 0 && usage_flights(pid, name) > 0;
    }
    return found;
}

bool usage_hides(pid_t pid)
{
    static char maps[PROC_BYTES];
    size_t size = read_proc(proc_thread(pid), "maps", maps, sizeof maps);
    /* Shared memory without a name looks the same, but is not on a disk. */
    for (const char *at = maps; size > 0 && (at = strstr(at, " (deleted)\n"));) {
        const char *line = at;
        while (line > maps && line[-1] != '\n') {
            line--;
        }
        const char *path = memchr(line, '/', (size_t)(at - line));
        if (path && strncmp(path, "/dev/zero", strlen("/dev/zero")) != 0) {
            return true;
        }
        at++;
    }
    return size + 1 >= sizeof maps || has_flights(pid);
}

uint64_t usage_written(pid_t pid)
{
    char text[1024];
    size_t size = read_proc(pid, "io", text, sizeof text);
    return size > 0 ? parse_field(text, "wchar:", 0) + parse_field(text, "write_bytes:", 0) : 0;
}
