#include "sandbox/helpers.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/own.h"
#include "base/path.h"
#include "sandbox/host/host_facts.h"
#include "sandbox/policy/filter.h"
#include "sandbox/programs/program.h"
#include "sandbox/protocol/apply_journal.h"
#include "sandbox/protocol/helper_protocol.h"
#include "sandbox/protocol/packet.h"
#include "sandbox/trust/trust.h"

enum { END_MS = 250 /* sandpiper-tools needs 100 where the program ignores SIGTERM */ };

struct box_program {
    pid_t pid; /* of sandpiper-tools */
    int fd;
    struct loop_io io;
    void (*on_end)(void *arg, const char *why);
    void *arg;
};

/* --- what may be executed --- */

void box_program_search_path(const struct box_spec *spec, char *out, size_t size)
{
    trust_path(spec, out, size);
}

int box_program_find(const struct box_spec *spec, const char *command, const char *directory,
                     char path[PATH_MAX], struct fail *ret_fail)
{
    const char *base = command[0] == '/' ? "" : directory;
    char places[PATH_MAX];
    trust_path(spec, places, sizeof places);
    bool found = strchr(command, '/') ? snprintf(path, PATH_MAX, "%s%s%s", base, *base ? "/" : "",
                                                 command) < PATH_MAX &&
                                            helper_is_program(path)
                                      : helper_find(places, command, path);
    if (!found) {
        return fail_refuse(ret_fail, ENOENT, "cannot find the program %.300s%s", command,
                           strchr(command, '/') ? "" : " in PATH; name it by its path");
    }
    return trust_check(spec, "the program", path, "install it elsewhere", ret_fail);
}

/* Whether the command executes a package in the directory that is its first argument but for
 * options. Directories that others get are what they work on, and may be code's. */
static bool runs_directories(const char *command)
{
    static const char *const starts[] = {"python", "pypy", "node", "deno",
                                         "bun",    "npx",  "npm",  "uv"};
    const char *name = path_last(command);
    bool runs = false;
    for (unsigned i = 0; i < sizeof starts / sizeof *starts; i++) {
        runs = runs || strncmp(name, starts[i], strlen(starts[i])) == 0;
    }
    return runs;
}

int box_program_check(const struct box_spec *spec, const char *directory, const char *const *argv,
                      struct fail *ret_fail)
{
    int r = trust_check(spec, "the directory", directory, "name another one with cwd", ret_fail);
    bool may_run = runs_directories(argv[0]);
    for (unsigned i = 1; r == 0 && argv[i]; i++) {
        char path[PATH_MAX];
        struct stat st;
        const char *base = argv[i][0] == '/' ? "" : directory;
        if (snprintf(path, sizeof path, "%s%s%s", base, *base ? "/" : "", argv[i]) < PATH_MAX &&
            stat(path, &st) == 0 && (S_ISREG(st.st_mode) || may_run)) {
            r = trust_check(spec, "the argument", path,
                            S_ISREG(st.st_mode) ? "move that file elsewhere"
                                                : "move that directory elsewhere",
                            ret_fail);
        }
        may_run = may_run && argv[i][0] == '-';
    }
    return r;
}

int box_check_hidden(const struct box_spec *spec, const char *what, const char *path,
                     const char *fix, struct fail *ret_fail)
{
    for (unsigned i = 0; i < spec->mount_count; i++) {
        if (overlap_enters(path, spec->mounts[i].path)) {
            return fail_refuse(ret_fail, EPERM, "%s %.300s is in %.300s, where code can see it: %s",
                               what, path, spec->mounts[i].path, fix);
        }
    }
    return trust_check(spec, what, path, fix, ret_fail);
}

/* --- its life --- */

void box_program_stop(struct box_program *program)
{
    if (program) {
        loop_io_remove(&program->io);
        drop_fd(&program->fd);
    }
}

static void reap(struct box_program *program)
{
    box_program_stop(program);
    if (program->pid > 0 && program_has_ended(program->pid, END_MS)) {
        (void)waitpid(program->pid, NULL, 0);
    }
    program->pid = 0;
}

static void on_socket(void *arg, uint32_t)
{
    struct box_program *program = arg;
    struct tools_reply reply = {};
    char why[120];
    ssize_t size = packet_receive(program->fd, &reply, sizeof reply, NULL, 0);
    if (size == -EAGAIN || size == -EINTR) {
        return;
    }
    if (size != sizeof reply) {
        (void)snprintf(why, sizeof why, "was killed");
    } else if (reply.error) {
        (void)snprintf(why, sizeof why, "cannot be executed: %s", strerror(reply.error));
    } else if (WIFSIGNALED(reply.status)) {
        (void)snprintf(why, sizeof why, "was ended by signal %d", WTERMSIG(reply.status));
    } else {
        (void)snprintf(why, sizeof why, "exited with status %d", WEXITSTATUS(reply.status));
    }
    loop_io_remove(&program->io);
    program->on_end(program->arg, why);
}

static int add_words(struct tools_request *request, const char *const *words, uint32_t *count)
{
    for (; words && *words; words++) {
        size_t size = strlen(*words) + 1;
        if (size > sizeof request->text - request->text_size || *count == TOOLS_WORDS - 2) {
            return -E2BIG;
        }
        memcpy(request->text + request->text_size, *words, size);
        request->text_size += (uint32_t)size;
        (*count)++;
    }
    return 0;
}

/* Pipes for the program's streams: ours, non-blocking, and its own. */
static int make_streams(int ours[TOOLS_STREAMS], int theirs[TOOLS_STREAMS])
{
    int r = fd_pipe(&theirs[0], &ours[0]);
    for (int i = 1; r == 0 && i < TOOLS_STREAMS; i++) {
        r = fd_pipe(&ours[i], &theirs[i]);
    }
    for (int i = 0; r == 0 && i < TOOLS_STREAMS; i++) {
        r = fd_set_nonblock(ours[i], true);
    }
    return r;
}

static int spawn_program(struct box_program *program, struct loop *loop,
                         const struct box_program_request *asked, const int theirs[TOOLS_STREAMS])
{
    static const char *const argv[] = {"sandpiper-tools", NULL};
    static struct tools_request request;
    const char *const places[] = {asked->directory, asked->path, NULL};
    const struct program_request sent = {&request, sizeof request, theirs, TOOLS_STREAMS};
    uint32_t place_count = 0;
    request = (struct tools_request){};
    int r = add_words(&request, places, &place_count);
    r = r ? r : add_words(&request, asked->argv, &request.argument_count);
    r = r ? r : add_words(&request, asked->envp, &request.variable_count);
    program->pid = r ? r : program_spawn(argv, &sent, &program->fd);
    return program->pid < 0
               ? program->pid
               : loop_io_add(loop, &program->io, program->fd, EPOLLIN, on_socket, program);
}

int box_program_start(struct loop *loop, const struct box_program_request *request,
                      struct box_program **ret_program, int ret_fds[3], struct fail *ret_fail)
{
    int theirs[TOOLS_STREAMS] = {-1, -1, -1};
    int ours[TOOLS_STREAMS] = {-1, -1, -1};
    struct box_program *program = calloc(1, sizeof *program);
    if (!program) {
        return fail_set(ret_fail, ENOMEM, "cannot start %.300s", request->path);
    }
    *program = (struct box_program){.fd = -1, .on_end = request->on_end, .arg = request->arg};
    int r = make_streams(ours, theirs);
    r = r ? r : spawn_program(program, loop, request, theirs);
    for (int i = 0; i < TOOLS_STREAMS; i++) {
        drop_fd(&theirs[i]);
        if (r < 0) {
            drop_fd(&ours[i]);
        }
    }
    if (r < 0) {
        box_program_end(program);
        return fail_set(ret_fail, -r, "cannot start %.300s", request->path);
    }
    memcpy(ret_fds, ours, sizeof ours);
    *ret_program = program;
    return 0;
}

void box_program_end(struct box_program *program)
{
    if (program) {
        reap(program);
        free(program);
    }
}

struct apply {
    pid_t pid; /* 0: reaped; < 0: not started */
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
    enum { APPLY_END_MS = 2000 };
    loop_io_remove(&apply->io);
    drop_fd(&apply->fd);
    if (apply->pid > 0) {
        (void)program_has_ended(apply->pid, APPLY_END_MS);
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

static int spawn_apply(struct apply *apply, const struct apply_setup *setup, struct fail *ret_fail)
{
    static const char *const argv[] = {"sandpiper-apply", NULL};
    const int fds[] = {setup->dir_fd, setup->upper_fd, setup->journal_fd};
    struct apply_request request = {};
    const struct program_request sent = {&request, sizeof request, fds, sizeof fds / sizeof *fds};
    struct filter_program filter = {};
    int r = filter_build_apply(&filter, ret_fail);
    if (r < 0) {
        return r;
    }
    apply->pid = -E2BIG;
    if (filter.count <= APPLY_FILTER_STEPS) {
        request.filter_count = filter.count;
        memcpy(request.filter, filter.program, filter.count * sizeof *filter.program);
        apply->pid = program_spawn(argv, &sent, &apply->fd);
    }
    free(filter.program);
    return apply->pid < 0 ? fail_set(ret_fail, -apply->pid, "cannot start the applying process")
                          : 0;
}

static int start_apply(struct apply *apply, struct loop *loop, const struct apply_setup *setup,
                       struct fail *ret_fail)
{
    apply->journal_fd = fcntl(setup->journal_fd, F_DUPFD_CLOEXEC, 0);
    if (apply->journal_fd < 0) {
        return fail_set(ret_fail, errno, "journal of the applying process");
    }
    int r = spawn_apply(apply, setup, ret_fail);
    if (r < 0) {
        return r;
    }
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
    int r = start_apply(apply, loop, setup, ret_fail);
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
