#include "sandbox/apply_process.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/own.h"
#include "sandbox/policy/filter.h"
#include "sandbox/programs/program.h"
#include "sandbox/protocol/apply_journal.h"
#include "sandbox/protocol/packet.h"

struct apply {
    pid_t pid; /* 0: reaped */
    int fd;
    int journal_fd;
    struct loop_io io;
    void (*done)(void *arg, bool completed);
    void *arg;
};

/* Ends the process unless it has exited, and reaps it. With the socket it loses its purpose, and
 * exits when it has taken back what is in the making; only one that hangs is killed. */
static void apply_reap(struct apply *apply)
{
    enum { END_MS = 2000 };
    loop_io_remove(&apply->io);
    drop_fd(&apply->fd);
    if (apply->pid > 0) {
        (void)program_has_ended(apply->pid, END_MS);
        program_kill(&apply->pid);
    }
}

/* The journal decides, and not the reply: the process may be killed between the two. */
static bool is_complete(int journal_fd)
{
    uint32_t complete = 0;
    return fd_pread_all(journal_fd, &complete, sizeof complete,
                        offsetof(struct apply_journal, complete)) == sizeof complete &&
           complete == 1;
}

static void apply_on_end(void *arg, uint32_t)
{
    struct apply *apply = arg;
    struct apply_reply reply = {};
    ssize_t size = packet_receive(apply->fd, &reply, sizeof reply, NULL, 0);
    if (size == -EAGAIN || size == -EINTR) {
        return;
    }
    if (size == sizeof reply && reply.error) {
        log_warn("apply", "the applying process has not begun: %s", strerror(reply.error));
    } else if (size != sizeof reply) {
        log_warn("apply", "the applying process was killed");
    }
    apply_reap(apply);
    apply->done(apply->arg, is_complete(apply->journal_fd));
}

static int send_request(const struct apply *apply, const struct apply_setup *setup,
                        struct fail *ret_fail)
{
    const int fds[] = {setup->dir_fd, setup->upper_fd, setup->journal_fd};
    struct apply_request request = {};
    struct filter_program filter = {};
    int r = filter_build_apply(&filter, ret_fail);
    if (r < 0) {
        return r;
    }
    if (filter.count <= APPLY_FILTER_STEPS) {
        request.filter_count = filter.count;
        memcpy(request.filter, filter.program, filter.count * sizeof *filter.program);
        r = (int)packet_send(apply->fd, &request, sizeof request, fds, sizeof fds / sizeof *fds,
                             MSG_DONTWAIT);
    } else {
        r = -E2BIG;
    }
    free(filter.program);
    return r < 0 ? fail_set(ret_fail, -r, "cannot send to the applying process") : 0;
}

static int start(struct apply *apply, struct loop *loop, const struct apply_setup *setup,
                 struct fail *ret_fail)
{
    static const char *const argv[] = {"sandpiper-apply", NULL};
    int ends[2];
    int r = fd_socketpair(SOCK_SEQPACKET, ends);
    if (r < 0) {
        return fail_set(ret_fail, -r, "socket of the applying process");
    }
    defer_close int theirs = ends[1];
    apply->fd = ends[0];
    apply->journal_fd = fcntl(setup->journal_fd, F_DUPFD_CLOEXEC, 0);
    if (apply->journal_fd < 0) {
        return fail_set(ret_fail, errno, "journal of the applying process");
    }
    /* Before it starts, so that it need not wait. */
    r = send_request(apply, setup, ret_fail);
    if (r < 0) {
        return r;
    }
    pid_t pid = program_spawn(argv, theirs);
    if (pid < 0) {
        return fail_set(ret_fail, -pid, "cannot start the applying process");
    }
    apply->pid = pid;
    r = loop_io_add(loop, &apply->io, apply->fd, EPOLLIN, apply_on_end, apply);
    return r < 0 ? fail_set(ret_fail, -r, "event loop") : 0;
}

int apply_start(struct loop *loop, const struct apply_setup *setup, struct apply **ret_apply,
                struct fail *ret_fail)
{
    struct apply *apply = calloc(1, sizeof *apply);
    if (!apply) {
        return fail_set(ret_fail, ENOMEM, "the applying process");
    }
    *apply = (struct apply){.fd = -1, .journal_fd = -1, .done = setup->done, .arg = setup->arg};
    int r = start(apply, loop, setup, ret_fail);
    if (r < 0) {
        apply_free(apply);
        return r;
    }
    *ret_apply = apply;
    return 0;
}

void apply_free(struct apply *apply)
{
    if (apply) {
        apply_reap(apply);
        drop_fd(&apply->journal_fd);
        free(apply);
    }
}
