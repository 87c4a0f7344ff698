/* The files of /proc that change: init writes them in place, so that each program reads what is
 * true for the sandbox. They have always the same length: who reads while init writes gets figures
 * of both times, and no broken line. Code sees them through a read-only mount. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/parse.h"
#include "sandbox/programs/common/memory.h"
#include "sandbox/programs/init/init.h"

enum { STAT_BYTES = 128 << 10, NS_PER_TICK = 10000000 };

static struct {
    int meminfo_fd;
    int stat_fd;
    int memory_fd; /* WIRE_MEMORY_FD, or -1 */
    uint64_t next_ns;
    uint64_t user;
    uint64_t system;
    uint64_t idle;
} machine = {.meminfo_fd = -1, .stat_fd = -1, .memory_fd = -1};

void machine_open(void)
{
    machine.meminfo_fd = openat(WIRE_MACHINE_FD, "meminfo", O_WRONLY | O_CLOEXEC);
    machine.stat_fd = openat(WIRE_MACHINE_FD, "stat", O_WRONLY | O_CLOEXEC);
    machine.memory_fd = fcntl(WIRE_MEMORY_FD, F_GETFD) < 0 ? -1 : WIRE_MEMORY_FD;
}

struct memory_figures {
    uint64_t used; /* in bytes */
    uint64_t files;
    uint64_t shared;
    uint64_t active; /* files that make way when memory is needed */
    uint64_t inactive;
};

/* Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst: of version 1, the names differ
 * and there is no sum of the kernel's part. Without a group, as much as the watchdog counts. */
static struct memory_figures memory_figures(void)
{
    char text[8192];
    ssize_t size = pread(machine.memory_fd, text, sizeof text - 1, 0);
    if (size <= 0) {
        return (struct memory_figures){.used = memory_seen()};
    }
    text[size] = '\0';
    struct memory_figures figures = {
        .files = parse_field(text, "file ", parse_field(text, "cache ", 0)),
        .shared = parse_field(text, "shmem ", 0),
        .active = parse_field(text, "active_file ", 0),
        .inactive = parse_field(text, "inactive_file ", 0),
    };
    figures.used = parse_field(text, "anon ", parse_field(text, "rss ", 0)) + figures.files +
                   parse_field(text, "kernel ", 0);
    return figures;
}

/* proc_meminfo(5) */
static void write_meminfo(const struct init *init)
{
    const struct memory_figures figures = memory_figures();
    uint64_t total = init->config->watch_memory_bytes + init->config->uncounted_bytes;
    uint64_t free = figures.used < total ? total - figures.used : 0;
    uint64_t available = free + figures.active + figures.inactive;
    const struct {
        const char *name;
        uint64_t bytes;
    } rows[] = {
        {"MemTotal:", total},
        {"MemFree:", free},
        {"MemAvailable:", available < total ? available : total},
        {"Buffers:", 0},
        {"Cached:", figures.files},
        {"SwapCached:", 0},
        {"Active:", figures.active},
        {"Inactive:", figures.inactive},
        {"SwapTotal:", 0},
        {"SwapFree:", 0},
        {"Shmem:", figures.shared},
        {"Slab:", 0},
        {"SReclaimable:", 0},
    };
    char text[sizeof rows / sizeof *rows * 32];
    size_t length = 0;
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        length += (size_t)snprintf(text + length, sizeof text - length, "%-15s %11llu kB\n",
                                   rows[i].name, (unsigned long long)rows[i].bytes / 1024);
    }
    (void)pwrite(machine.meminfo_fd, text, length, 0);
}

static int64_t boot_ns(void)
{
    struct timespec now = {};
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * (int64_t)CLOCK_NS_PER_S + now.tv_nsec;
}

/* When the machine started, by the wall clock. Programs tell processes apart by it: it changes only
 * with that clock. */
static int64_t started_s(int64_t up_ns)
{
    static int64_t started_ns;
    int64_t now_ns = clock_wall_ns() - up_ns;
    bool is_other = llabs(now_ns - started_ns) > (int64_t)CLOCK_NS_PER_S;
    started_ns = is_other ? now_ns : started_ns;
    return started_ns / (int64_t)CLOCK_NS_PER_S;
}

/* proc_stat(5): processor time of the sandbox only; what others use counts as idle. Evenly for all
 * processors, and none becomes less: what a process used that nobody waited for is not known. */
static void write_stat(const struct init *init)
{
    static char text[STAT_BYTES];
    const struct box_processors *processors = &init->config->processors;
    static const char form[] = "cpu%.4s %14llu 0 %14llu %14llu 0 0 0 0 0 0\n";
    uint64_t count = 0;
    for (unsigned i = 0; i < BOX_PROCESSORS; i++) {
        count += box_processors_has(processors, i);
    }
    int64_t up_ns = boot_ns();
    uint64_t boot = (uint64_t)up_ns / NS_PER_TICK;
    uint64_t busy = machine.user + machine.system;
    uint64_t idle = boot * count > busy ? boot * count - busy : 0;
    machine.idle = idle > machine.idle ? idle : machine.idle;
    size_t length =
        (size_t)snprintf(text, sizeof text, form, " ", (unsigned long long)machine.user,
                         (unsigned long long)machine.system, (unsigned long long)machine.idle);
    for (unsigned i = 0; i < BOX_PROCESSORS; i++) {
        char number[8];
        (void)snprintf(number, sizeof number, "%u", i);
        if (box_processors_has(processors, i)) {
            length += (size_t)snprintf(text + length, sizeof text - length, form, number,
                                       (unsigned long long)(machine.user / count),
                                       (unsigned long long)(machine.system / count),
                                       (unsigned long long)(machine.idle / count));
        }
    }
    length += (size_t)snprintf(text + length, sizeof text - length,
                               "intr 0\nctxt 0\nbtime %lld\nprocesses 0\nprocs_running 1\n"
                               "procs_blocked 0\nsoftirq 0\n",
                               (long long)started_s(up_ns));
    (void)pwrite(machine.stat_fd, text, length, 0);
}

int machine_refresh(const struct init *init)
{
    static bool runs;
    uint64_t now_ns = clock_now_ns();
    if (machine.stat_fd < 0 || machine.meminfo_fd < 0) {
        return -1;
    }
    if (now_ns >= machine.next_ns) {
        uint64_t system = 0;
        uint64_t user = objects_ticks(&init->processes, &system) - system;
        runs = user > machine.user || system > machine.system;
        machine.user = user > machine.user ? user : machine.user;
        machine.system = system > machine.system ? system : machine.system;
        write_meminfo(init);
        write_stat(init);
        machine.next_ns = now_ns + MACHINE_BUSY_MS * CLOCK_NS_PER_MS;
    }
    return runs ? MACHINE_BUSY_MS : MACHINE_CALM_MS;
}
