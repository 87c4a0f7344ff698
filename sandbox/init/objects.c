/* Kernel memory behind what a process holds, of which neither /proc/PID/status nor every control group knows:
 *
 *   mappings      vm_area_struct with its place in the tree, and for each living ancestor one anon_vma_chain: forks
 *                 have their pages' reverse mappings in common (mm/rmap.c)
 *   descriptors   struct file with what is behind it; a file of /proc keeps the buffer of its last read
 *   epoll         an item for each descriptor in each instance; /proc/PID/fdinfo lists them, proc(5)
 *   file locks    POSIX locks of ranges, as many as somebody makes. No control group counts them (CVE-2022-0480, whose
 *                 fix was taken back). fdinfo lists them as well. Locks of open file descriptions could be hidden in a
 *                 message, and are refused (filter_lists.c)
 *   tasks         kernel stack and task_struct
 *
 * A look reads a line for each of them, so it is taken now and then, and what it found stands until the next. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox/init/init.h"

enum {
    PROCESSES = 4096,
    PART = 64 << 10, /* of a file that is read in parts */
    MAPPING_BYTES = 256,
    CHAIN_BYTES = 64,
    FILE_BYTES = 512,
    PROC_FILE_BYTES = 8 << 10,
    EPOLL_BYTES = 256,
    LOCK_BYTES = 192,
    TASK_BYTES = 24 << 10,
    LOCKS_A_TICK = 10000,    /* of 10 ms, proc(5): no call takes less than a microsecond */
    UNSEEN_MAPPINGS = 65530, /* vm.max_map_count as Linux has it by default */
    PAGE = 4096,
};

enum { WORD = 8, LOCKS = 0, ITEMS, WORDS }; /* that lines of fdinfo begin with */

struct entry {
    pid_t pid;
    pid_t parent;
    uint64_t bytes;
};

static struct entry entries[PROCESSES];
static unsigned entry_count;

static int compare(const void *a, const void *b)
{
    pid_t x = ((const struct entry *)a)->pid;
    pid_t y = ((const struct entry *)b)->pid;
    return (x > y) - (x < y);
}

static const struct entry *find(pid_t pid)
{
    const struct entry key = {.pid = pid};
    return bsearch(&key, entries, entry_count, sizeof *entries, compare);
}

uint64_t objects_bytes(pid_t pid)
{
    const struct entry *entry = find(pid);
    return entry ? entry->bytes : 0;
}

void objects_forget(pid_t pid)
{
    for (unsigned i = 0; i < entry_count; i++) {
        if (entries[i].pid == pid) {
            entries[i].bytes = 0;
        }
    }
}

uint64_t objects_all_bytes(void)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < entry_count; i++) {
        sum += entries[i].bytes;
    }
    return sum;
}

/* Lines of a file of /proc/PID that begin with each of these words; false: it cannot be read. */
static bool count_lines(pid_t pid, const char *name, const char *const words[WORDS],
                        uint64_t ret_counts[WORDS])
{
    static char text[PART];
    char path[64];
    char begin[WORD + 1] = ""; /* of a line, which may have begun in the part before */
    size_t length = 0;
    ssize_t size = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    while ((size = read(fd, text, sizeof text)) > 0) {
        for (ssize_t i = 0; i < size; i++) {
            if (text[i] != '\n') {
                if (length < WORD) {
                    begin[length++] = text[i];
                }
                continue;
            }
            begin[length] = '\0';
            for (unsigned w = 0; w < WORDS; w++) {
                ret_counts[w] += strncmp(begin, words[w], strlen(words[w])) == 0;
            }
            length = 0;
        }
    }
    (void)close(fd);
    return true;
}

static uint64_t number_behind(const char *text, const char *name)
{
    const char *found = strstr(text, name);
    return found ? strtoul(found + strlen(name), NULL, 10) : 0;
}

enum {
    USER = 14,
    SYSTEM,
    CHILDREN_USER,
    CHILDREN_SYSTEM
}; /* fields of /proc/PID/stat, in ticks, proc(5) */

/* The sum of the fields from first to last. */
static uint64_t ticks_of(pid_t pid, unsigned first, unsigned last)
{
    enum { STATE = 3 };
    char text[512];
    uint64_t sum = 0;
    const char *at = read_proc(pid, "stat", text, sizeof text) > 0 ? strrchr(text, ')') : NULL;
    at = at ? strchr(at, ' ') : NULL;
    for (unsigned field = STATE; at && field <= last; field++) {
        sum += field < first ? 0 : strtoul(at, NULL, 10);
        at = strchr(at + 1, ' ');
    }
    return sum;
}

uint64_t objects_ticks(const struct init *init)
{
    const pid_t *pids = NULL;
    unsigned count = family_list(init->root, &pids);
    /* Who has ended counts on with whoever reaped it. */
    uint64_t sum = ticks_of(init->outside ? init->root : getpid(), CHILDREN_USER, CHILDREN_SYSTEM);
    for (unsigned i = 0; i < count; i++) {
        sum += ticks_of(pids[i], USER, CHILDREN_SYSTEM);
    }
    return sum;
}

/* locks_only: a control group counts the rest. */
static uint64_t descriptors_of(pid_t pid, bool locks_only)
{
    static const char *const words[WORDS] = {[LOCKS] = "lock:", [ITEMS] = "tfd:"};
    char path[48];
    uint64_t sum = 0;
    const struct dirent *entry = NULL;
    (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    if (!dir) { /* hidden: nothing else bounds its locks */
        return ticks_of(pid, SYSTEM, SYSTEM) * LOCKS_A_TICK * LOCK_BYTES;
    }
    while ((entry = readdir(dir))) {
        char target[32] = "";
        char info[32];
        ssize_t size = readlinkat(dirfd(dir), entry->d_name, target, sizeof target - 1);
        if (size <= 0) {
            continue;
        }
        (void)snprintf(info, sizeof info, "fdinfo/%.16s", entry->d_name);
        uint64_t counts[WORDS] = {};
        (void)count_lines(pid, info, words, counts);
        sum += counts[LOCKS] * LOCK_BYTES;
        if (!locks_only) {
            sum += counts[ITEMS] * EPOLL_BYTES +
                   (strncmp(target, "/proc/", 6) == 0 ? PROC_FILE_BYTES : FILE_BYTES);
        }
    }
    (void)closedir(dir);
    return sum;
}

/* Processes that may have pages in common with this one: its ancestors. Between it and one of them somebody may have
 * ended; then those with nobody above them could be among them as well. */
static unsigned ancestors_of(struct init *init, const struct entry *entry, unsigned orphans)
{
    unsigned above = 0;
    for (const struct entry *at = entry; at && above < entry_count; at = find(at->parent)) {
        above++;
        if (!find(at->parent) && !watch_find(init, at->pid)) {
            above += orphans;
        }
    }
    return above;
}

static uint64_t mappings_of(pid_t pid, const char *status, unsigned above)
{
    static const char *const all[WORDS] = {"", ""};
    uint64_t counts[WORDS] = {};
    if (!count_lines(pid, "maps", all, counts) || counts[0] == 0) {
        uint64_t most = number_behind(status, "\nVmSize:") * 1024 / PAGE;
        counts[0] = most < UNSEEN_MAPPINGS ? most : UNSEEN_MAPPINGS;
    }
    return counts[0] * (MAPPING_BYTES + (uint64_t)above * CHAIN_BYTES);
}

void objects_look(struct init *init, bool locks_only)
{
    static char status[INIT_STATUS_BYTES];
    const pid_t *pids = NULL;
    unsigned orphans = 0;
    unsigned count = family_list(init->root, &pids);
    entry_count = 0;
    for (unsigned i = 0; i < count && entry_count < PROCESSES; i++) {
        if (pids[i] == init->zygote || read_proc(pids[i], "status", status, sizeof status) == 0) {
            continue;
        }
        pid_t parent = (pid_t)number_behind(status, "\nPPid:\t");
        entries[entry_count++] = (struct entry){.pid = pids[i], .parent = parent};
    }
    qsort(entries, entry_count, sizeof *entries, compare);
    for (unsigned i = 0; i < entry_count; i++) {
        orphans += !find(entries[i].parent) && !watch_find(init, entries[i].pid);
    }
    for (unsigned i = 0; i < entry_count; i++) {
        pid_t thread = proc_thread(entries[i].pid);
        entries[i].bytes = descriptors_of(thread, locks_only);
        if (!locks_only && read_proc(thread, "status", status, sizeof status) > 0) {
            entries[i].bytes +=
                mappings_of(thread, status, ancestors_of(init, &entries[i], orphans)) +
                number_behind(status, "\nThreads:\t") * TASK_BYTES;
        }
    }
}

/* --- sockets --- */

/* The number behind name in a file of /proc/net of the sandbox. */
static uint64_t net_number(const struct init *init, const char *file, const char *name)
{
    char path[32];
    char text[1024];
    (void)snprintf(path, sizeof path, "net/%s", file);
    pid_t pid = init->outside ? init->root : getpid();
    return read_proc(pid, path, text, sizeof text) > 0 ? number_behind(text, name) : 0;
}

uint64_t objects_sockets(const struct init *init)
{
    return init->config->guards ? 0 : net_number(init, "sockstat", "sockets: used ");
}

uint64_t objects_inet_sockets(const struct init *init)
{
    return net_number(init, "sockstat", "TCP: inuse ") +
           net_number(init, "sockstat", "UDP: inuse ") +
           net_number(init, "sockstat6", "TCP6: inuse ") +
           net_number(init, "sockstat6", "UDP6: inuse ");
}
