#include "sandbox/init/init.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    KILL_ROUNDS = 400, /* with a pause each: 400 ms, then the server gives up on the box */
    PID_SCAN = 32768,  /* where /proc is not there to be listed */
    MEMFDS_SEEN = 1024,
};

static struct watched *watch_find(struct init *init, pid_t pid)
{
    for (unsigned i = 0; pid > 0 && i < INIT_WATCHED; i++) {
        if (init->watched[i].pid == pid) {
            return &init->watched[i];
        }
    }
    return NULL;
}

void watch_add(struct init *init, const struct wire_request *request)
{
    pid_t pid = request->pid;
    if (pid <= 1 || pid == init->zygote || kill(pid, 0) < 0) {
        init_answer(request->id, ESRCH);
        return;
    }
    struct watched *entry = watch_find(init, pid);
    for (unsigned i = 0; !entry && i < INIT_WATCHED; i++) {
        if (init->watched[i].pid == 0) {
            entry = &init->watched[i];
        }
    }
    if (!entry) {
        init_answer(request->id, ENOSPC);
        return;
    }
    *entry = (struct watched){.pid = pid, .tag = request->tag, .role = request->role};
    init_answer(request->id, 0);
}

void watch_signal(struct init *init, const struct wire_request *request)
{
    /* A watched process that has ended stays a zombie until watch_reap: its number is not reused. */
    int error = 0;
    if (!watch_find(init, request->pid)) {
        error = ESRCH;
    } else if (kill(request->pid, request->signal) < 0) {
        error = errno;
    }
    init_answer(request->id, error);
}

void watch_reap(struct init *init)
{
    int status = 0;
    pid_t pid = 0;
    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED | __WALL)) > 0) {
        if (WIFSTOPPED(status)) {
            if (pid == init->zygote) {
                (void)kill(pid, SIGCONT); /* by the guest's hand: nobody else could go on */
            }
            continue;
        }
        struct watched *entry = watch_find(init, pid);
        if (!entry && pid != init->zygote) {
            continue; /* an orphan of some session */
        }
        if (entry) {
            *entry = (struct watched){};
        }
        init_send(&(struct wire_reply){.event = WIRE_EXITED, .pid = pid, .status = status}, -1);
    }
}

/* Whether the server gave tag after it had sent request: the session was opened while this sweep
 * waited or went on. */
static bool tag_is_younger(rlim_t tag, const struct wire_request *request)
{
    enum { TAGS = WIRE_TAG_ZYGOTE - WIRE_TAG_LEAST };
    if (tag < WIRE_TAG_LEAST || tag >= WIRE_TAG_ZYGOTE) {
        return false;
    }
    uint32_t behind = (request->last_tag + TAGS - (uint32_t)tag) % TAGS;
    return behind > 0 && behind < TAGS / 2;
}

/* Whether pid is to die with the session that has request's tag. A tag that no session has is that
 * of a process that changed its own: it dies too. */
static bool kill_belongs(const struct init *init, pid_t pid, const struct wire_request *request)
{
    struct rlimit limit;
    struct rlimit counterpart;
    const struct watched *entry = watch_find((struct init *)(uintptr_t)init, pid);
    if (pid <= 1 || pid == init->zygote) {
        return false;
    }
    if (entry) {
        return entry->tag == request->tag && entry->role == WIRE_ROLE_SESSION;
    }
    if (prlimit(pid, RLIMIT_MSGQUEUE, NULL, &limit) < 0 ||
        prlimit(pid, RLIMIT_LOCKS, NULL, &counterpart) < 0) {
        return errno == EPERM; /* set-uid is off here: only a stranger would refuse */
    }
    if (limit.rlim_cur == request->tag) {
        return true;
    }
    if (limit.rlim_max == WIRE_TAG_ZYGOTE) {
        return false; /* a session that is just being forked */
    }
    if (counterpart.rlim_max != RLIM_INFINITY &&
        counterpart.rlim_max + limit.rlim_max != WIRE_TAG_SUM) {
        return true;
    }
    for (uint32_t i = 0; i < request->tag_count && i < WIRE_TAGS; i++) {
        if (request->tags[i] == limit.rlim_max) {
            return false;
        }
    }
    return !tag_is_younger(limit.rlim_max, request);
}

/* Sends signal to all that belong to the tag. Returns how many there were. */
static unsigned kill_sweep(const struct init *init, const struct wire_request *request, int signal)
{
    unsigned count = 0;
    DIR *dir = opendir("/proc");
    bool listed = false;
    if (dir) {
        const struct dirent *entry = NULL;
        while ((entry = readdir(dir))) {
            char *end = NULL;
            pid_t pid = (pid_t)strtoul(entry->d_name, &end, 10);
            if (end == entry->d_name || *end) {
                continue;
            }
            listed = true;
            if (kill_belongs(init, pid, request) && kill(pid, signal) == 0) {
                count++;
            }
        }
        (void)closedir(dir);
    }
    for (pid_t pid = 2; !listed && pid < PID_SCAN; pid++) {
        if (kill(pid, 0) == 0 && kill_belongs(init, pid, request) && kill(pid, signal) == 0) {
            count++;
        }
    }
    return count;
}

/* Stops first, kills then: a stopped process forks no more, so a fork bomb runs dry. */
void watch_kill_tag(struct init *init, const struct wire_request *request)
{
    unsigned before = 0;
    for (unsigned round = 0; round < KILL_ROUNDS; round++) {
        unsigned now = kill_sweep(init, request, SIGSTOP);
        if (now == before) {
            break;
        }
        before = now;
    }
    int error = ETIMEDOUT;
    for (unsigned round = 0; round < KILL_ROUNDS; round++) {
        unsigned left = kill_sweep(init, request, SIGKILL);
        watch_reap(init);
        if (left == 0) {
            error = 0;
            break;
        }
        struct timespec pause = {.tv_nsec = round < 20 ? 100000 : 1000000};
        (void)nanosleep(&pause, NULL);
    }
    init_answer(request->id, error);
}

/* Reads a file of /proc/PID. Returns its length; 0 when it cannot be read. */
static size_t read_of(pid_t pid, const char *name, char *text, size_t size)
{
    char path[48];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    ssize_t length = read(fd, text, size - 1);
    (void)close(fd);
    text[length > 0 ? length : 0] = '\0';
    return length > 0 ? (size_t)length : 0;
}

struct memory_use {
    uint64_t private_bytes;
    uint64_t shared_bytes; /* of files in memory, mapped: shared mappings, memfds, /dev/shm */
};

/* The number of kibibytes behind name in a file of /proc, in bytes. */
static uint64_t memory_field(const char *text, const char *name)
{
    const char *found = strstr(text, name);
    return found ? strtoul(found + strlen(name), NULL, 10) * 1024 : 0;
}

/* Cheap, and too much where forks share their pages. */
static struct memory_use memory_of(pid_t pid)
{
    char text[4096];
    struct memory_use use = {};
    if (read_of(pid, "status", text, sizeof text) > 0) {
        use.private_bytes = memory_field(text, "RssAnon:");
        use.shared_bytes = memory_field(text, "RssShmem:");
    }
    return use;
}

/* Exact, and slow: the kernel walks all pages. */
static struct memory_use memory_share_of(pid_t pid)
{
    char text[2048];
    if (read_of(pid, "smaps_rollup", text, sizeof text) == 0 || !strstr(text, "Pss_Anon:")) {
        return memory_of(pid);
    }
    return (struct memory_use){.private_bytes = memory_field(text, "Pss_Anon:"),
                               .shared_bytes = memory_field(text, "Pss_Shmem:")};
}

/* The memfds that pid holds open; each counts once. A process that hides its descriptors is ended:
 * nothing else would count what it holds. */
static uint64_t memory_of_memfds(pid_t pid)
{
    static ino_t seen[MEMFDS_SEEN];
    static unsigned seen_count;
    if (pid == 0) {
        seen_count = 0;
        return 0;
    }
    char path[48];
    uint64_t sum = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    if (!dir && errno == EACCES) {
        (void)kill(pid, SIGKILL);
    }
    const struct dirent *entry = NULL;
    while (dir && (entry = readdir(dir))) {
        char target[16] = "";
        struct stat st;
        if (readlinkat(dirfd(dir), entry->d_name, target, sizeof target) < 7 ||
            memcmp(target, "/memfd:", 7) != 0 || fstatat(dirfd(dir), entry->d_name, &st, 0) < 0) {
            continue;
        }
        bool known = false;
        for (unsigned i = 0; i < seen_count && !known; i++) {
            known = seen[i] == st.st_ino;
        }
        if (!known) {
            sum += (uint64_t)st.st_blocks * 512;
            if (seen_count < MEMFDS_SEEN) {
                seen[seen_count++] = st.st_ino;
            }
        }
    }
    if (dir) {
        (void)closedir(dir);
    }
    return sum;
}

static uint64_t memory_of_files(const char *path)
{
    struct statvfs fs;
    if (statvfs(path, &fs) < 0) {
        return 0;
    }
    return (uint64_t)(fs.f_blocks - fs.f_bfree) * fs.f_frsize;
}

struct memory_sum {
    uint64_t all;
    uint64_t largest;
    pid_t largest_pid;
};

/* Adds up what the guest's processes use; checkpoints and the zygote are not to be killed for it. */
static struct memory_sum memory_add(struct init *init, struct memory_use (*used_by)(pid_t pid))
{
    struct memory_sum sum = {};
    uint64_t files = memory_of_files("/tmp");
    uint64_t mapped = 0;
    (void)memory_of_memfds(0);
    DIR *dir = opendir("/proc");
    const struct dirent *entry = NULL;
    while (dir && (entry = readdir(dir))) {
        char *end = NULL;
        pid_t pid = (pid_t)strtoul(entry->d_name, &end, 10);
        const struct watched *known = watch_find(init, pid);
        if (end == entry->d_name || *end || pid <= 1 || pid == init->zygote ||
            (known && known->role == WIRE_ROLE_CHECKPOINT)) {
            continue;
        }
        struct memory_use use = used_by(pid);
        uint64_t held = memory_of_memfds(pid);
        uint64_t used = use.private_bytes + (held > use.shared_bytes ? held : use.shared_bytes);
        sum.all += use.private_bytes;
        mapped += use.shared_bytes;
        files += held;
        if (used > sum.largest) {
            sum.largest = used;
            sum.largest_pid = pid;
        }
    }
    if (dir) {
        (void)closedir(dir);
    }
    /* What is mapped may be one of the files as well: the larger sum is the least that is used. */
    sum.all += files > mapped ? files : mapped;
    return sum;
}

void watch_memory(struct init *init)
{
    uint64_t limit = init->config->watch_memory_bytes;
    if (memory_add(init, memory_of).all <= limit) {
        return;
    }
    struct memory_sum sum = memory_add(init, memory_share_of);
    if (sum.all > limit && sum.largest_pid > 1) {
        init_send(&(struct wire_reply){.event = WIRE_MEMORY,
                                       .pid = sum.largest_pid,
                                       .memory_bytes = sum.all},
                  -1);
        (void)kill(sum.largest_pid, SIGKILL);
    }
}
