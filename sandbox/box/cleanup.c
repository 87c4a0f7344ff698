#include "sandbox/box/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/own.h"
#include "sandbox/programs/program.h"
#include "sandbox/protocol/packet.h"

enum { WAIT_MS = 250 };

/* One helper for the whole process. When its socket ends, the process is gone. */
static struct {
    pid_t pid;
    int fd; /* -1: not running */
    unsigned items;
} helper = {.fd = -1};

static int start_helper(void)
{
    static const char *const argv[] = {"sandpiper-cleanup", NULL};
    int ends[2];
    int r = fd_socketpair(SOCK_SEQPACKET, ends);
    if (r < 0) {
        return r;
    }
    defer_close int theirs = ends[1];
    helper.fd = ends[0];
    helper.pid = program_spawn(argv, theirs);
    if (helper.pid < 0) {
        drop_fd(&helper.fd);
    }
    return helper.pid < 0 ? helper.pid : 0;
}

static int send_request(const struct cleanup *item, bool is_due)
{
    struct cleanup_request request = {.is_due = is_due, .kind = item->kind};
    (void)snprintf(request.name, sizeof request.name, "%s", item->name);
    for (;;) {
        bool is_new = helper.fd < 0;
        ssize_t r = is_new ? start_helper() : 0;
        r = r ? r
              : packet_send(helper.fd, &request, sizeof request, item->parents, item->parent_count,
                            MSG_DONTWAIT);
        if (r >= 0 || is_new || r == -EAGAIN) {
            return r < 0 ? (int)r : 0;
        }
        drop_fd(&helper.fd); /* somebody has killed the helper */
        (void)waitpid(helper.pid, NULL, WNOHANG);
    }
}

int cleanup_add(struct cleanup *item)
{
    int r = send_request(item, /* is_due= */ false);
    item->known = r == 0;
    helper.items += item->known;
    return r;
}

/* Lets the helper exit. Returns false when somebody has killed it. */
static bool finish_helper(void)
{
    int status = 0;
    drop_fd(&helper.fd);
    return !program_has_ended(helper.pid, WAIT_MS) ||
           waitpid(helper.pid, &status, 0) != helper.pid || !WIFSIGNALED(status);
}

void cleanup_remove(struct cleanup *item, bool wait)
{
    if (!item->known) {
        return;
    }
    item->known = false;
    helper.items--;
    (void)send_request(item, /* is_due= */ true);
    if (wait && helper.items == 0 && helper.fd >= 0 && !finish_helper() &&
        send_request(item, /* is_due= */ true) == 0) {
        (void)finish_helper();
    }
}

int cleanup_lock(int directory_fd, const char *name)
{
    struct stat st;
    defer_close int fd =
        openat(directory_fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &st) < 0) {
        return -errno;
    }
    return st.st_nlink > 0 ? take_fd(&fd) : -ENOENT;
}

int cleanup_discard(int parent_fd, const char *name)
{
    static unsigned last;
    char rubbish[32];
    struct cleanup item = {CLEANUP_TREE, rubbish, &parent_fd, 1};
    (void)snprintf(rubbish, sizeof rubbish, "rubbish-%u", last + 1);
    if (renameat(parent_fd, name, parent_fd, rubbish) < 0) {
        return -errno;
    }
    last++;
    /* If the request is lost, the helper removes it with its parent. */
    (void)send_request(&item, /* is_due= */ true);
    return 0;
}
