/* How much memory only checkpoints hold. A checkpoint shares its pages with the live process until
 * that writes to them, and no file of the kernel says with whom a page is shared. But the control
 * group knows all pages, and every process its own: what no live process has belongs to checkpoints
 * alone. Pages that live processes share count twice, so the result is rather too small. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/parse.h"
#include "sandbox/interpreter/process.h"

enum { STATUS_BYTES = 4096, PROCS_BYTES = 65536 };

/* The number in the sandbox: the last one of "NSpid:\t812\t7", proc(5). */
static pid_t inner_pid(const char *status)
{
    const char *line = strstr(status, "\nNSpid:");
    const char *end = line ? strchr(line + 1, '\n') : NULL;
    uint64_t pid = 0;
    const char *rest = NULL;
    while (end && end[-1] >= '0' && end[-1] <= '9') {
        end--;
    }
    return end && parse_digits(end, &pid, &rest) == 0 && pid <= INT32_MAX ? (pid_t)pid : 0;
}

struct live {
    uint64_t bytes;
    unsigned interpreters;
    bool dies; /* a process is giving back its memory, which the group still counts */
};

static bool is_interpreter(const struct box *box, pid_t pid)
{
    const struct box_session *session = box->sessions.list;
    while (session && (session->state != PROCESS_READY || session->pid != pid)) {
        session = session->next;
    }
    return session != NULL;
}

static unsigned count_interpreters(const struct box *box)
{
    unsigned count = 0;
    for (const struct box_session *session = box->sessions.list; session; session = session->next) {
        count += session->state == PROCESS_READY;
    }
    return count;
}

/* Adds the pages of a process, pid in digits, unless it is a checkpoint. */
static void add_live(const struct box *box, const char *pid, struct live *live)
{
    char path[48];
    char status[STATUS_BYTES];
    (void)snprintf(path, sizeof path, "/proc/%s/status", pid);
    if (fd_read_text_at(AT_FDCWD, path, status, sizeof status) <= 0) {
        live->dies = true;
        return;
    }
    pid_t inner = inner_pid(status);
    if (session_checkpoint_is(box, inner)) {
        return;
    }
    uint64_t kib = parse_field(status, "RssAnon:", 0);
    live->bytes += kib * 1024;
    live->dies |= kib == 0 && !strstr(status, "\nState:\tZ");
    live->interpreters += kib > 0 && is_interpreter(box, inner);
}

bool box_memory_of_checkpoints(const struct box *box, uint64_t *ret_bytes)
{
    struct live live = {};
    uint64_t before = cgroup_memory_pages(&box->cgroup);
    char pids[PROCS_BYTES];
    *ret_bytes = 0;
    if (before == 0 || cgroup_oom_is_new(&box->cgroup)) {
        return true;
    }
    if (box->sessions.leaving > 0) {
        return false;
    }
    if (cgroup_processes(&box->cgroup, pids, sizeof pids) < 0) {
        return true;
    }
    char *at = NULL;
    for (const char *pid = strtok_r(pids, "\n", &at); pid; pid = strtok_r(NULL, "\n", &at)) {
        add_live(box, pid, &live);
    }
    /* What was freed meanwhile is no checkpoint's. */
    uint64_t after = cgroup_memory_pages(&box->cgroup);
    uint64_t all = after < before ? after : before;
    if (live.dies || live.interpreters != count_interpreters(box)) {
        return false;
    }
    *ret_bytes = all > live.bytes ? all - live.bytes : 0;
    return true;
}
