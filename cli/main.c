#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/terminal.h"

/* --- pid 1 of a container --- */

/* signals: all of them, blocked, so that none is lost. A blocked signal stays pending also for pid
 * 1, which ignores signals without a handler (sig_ignored() in the kernel's signal.c). */
static _Noreturn void look_after(pid_t server, const sigset_t *signals)
{
    const struct timespec rest = {.tv_sec = LIMIT_CONTAINER_INIT_REST_S};
    bool ended = false;
    int code = 0;
    (void)prctl(PR_SET_NAME, "container-init");
    /* Only the server may hold these: the client must see its output end when it exits. */
    (void)close(STDIN_FILENO);
    (void)close(STDOUT_FILENO);
    (void)close(STDERR_FILENO);
    for (;;) {
        siginfo_t info;
        int status = 0;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid == server) {
            ended = true;
            code =
                WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); /* as a shell */
        }
        if (pid < 0) { /* no process is left */
            _exit(code);
        }
        int number = pid > 0 ? 0 : sigtimedwait(signals, &info, ended ? &rest : NULL);
        if (number < 0 && errno == EAGAIN) {
            _exit(code);
        }
        /* A terminal's signals reach the whole process group, so the server gets them too. */
        if (number > 0 && number != SIGCHLD && !ended && info.si_code != SI_KERNEL) {
            (void)kill(server, number);
        }
    }
}

/* If this is pid 1 of a pid namespace, as in a container, continues in a child of it: pid 1 has two
 * duties that are no server's. It reaps orphans, of which `docker exec` and health checks make
 * some. And when it exits, the kernel kills all other processes at once (pid_namespaces(7)): so it
 * waits until the processes that the server left behind have cleaned up, or until none has exited
 * for LIMIT_CONTAINER_INIT_REST_S. It forwards signals to the child, and exits with the child's
 * status. Elsewhere, and where it cannot make a child, does nothing. Must be called before anything
 * is opened.
 *
 * tini does not suffice: it exits with the server, so that the kernel kills the cleanup helper in
 * the midst of a large directory, and the containers that users make themselves have none. */
static void container_init(void)
{
    if (getpid() != 1) {
        return;
    }
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    if (sigprocmask(SIG_BLOCK, &all, &before) < 0) {
        return;
    }
    pid_t server = fork();
    if (server > 0) {
        look_after(server, &all);
    }
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
}

/* --- every command --- */

/* Processes inherit dispositions through execve(2), signal(7). A parent that ignores SIGCHLD would
 * leave the server, and init, children without a status to wait for. Those that would end the
 * server stay as they are: nohup(1) sets them. */
static void set_signals(void)
{
    (void)signal(SIGCHLD, SIG_DFL);
    (void)signal(SIGPIPE, SIG_IGN);
    /* A file beyond RLIMIT_FSIZE is an error to report, setrlimit(2). */
    (void)signal(SIGXFSZ, SIG_IGN);
}

/* The server must be able to use the directories that it makes. */
static void set_umask(void)
{
    (void)umask(umask(0) & ~(mode_t)S_IRWXU);
}

/* A descriptor that the caller has closed would be the next file's, and get the output. */
static void open_standard(void)
{
    int fd = 0;
    while (fd >= 0 && fd <= STDERR_FILENO) {
        fd = open("/dev/null", O_RDWR);
    }
    (void)close(fd);
}

/* Takes as many descriptors as the hard limit allows, up to what systems usually give: select(2)
 * cannot use more, and programs close all below the limit before they start others. */
static void raise_descriptors(struct options *options)
{
    enum { USUAL = 1024, LEAST = 128 };
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= USUAL) {
        return;
    }
    limit.rlim_cur = limit.rlim_max < USUAL ? limit.rlim_max : USUAL;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < LEAST && !options->error[0]) {
        (void)snprintf(options->error, sizeof options->error,
                       "at most %llu files may be open at once, and Sandpiper needs %d; raise the "
                       "limit (ulimit -Hn)",
                       (unsigned long long)limit.rlim_cur, LEAST);
    }
}

static int print_help(const struct options *options)
{
    return options_print_help(options->help, options->is_help_short);
}

static int print_version(const struct options *)
{
    return printf("sandpiper %s\n", SANDPIPER_VERSION) < 0;
}

static int (*const commands[])(const struct options *options) = {
    [COMMAND_SERVE] = command_serve,   [COMMAND_UNKNOWN] = command_serve,
    [COMMAND_RUN] = command_run,       [COMMAND_DOCTOR] = command_doctor,
    [COMMAND_SCHEMA] = command_schema, [COMMAND_CALL] = command_call,
    [COMMAND_CONFIG] = command_config, [COMMAND_RECORD] = command_record,
    [COMMAND_KEEP] = command_keep,     [COMMAND_HELP] = print_help,
    [COMMAND_VERSION] = print_version,
};

int main(int argc, char **argv)
{
    static struct options options;
    set_signals();
    set_umask();
    /* Pages of a large structure that nothing writes to take no memory if it is mapped. */
    (void)mallopt(M_MMAP_THRESHOLD, 100000);
    container_init();
    log_init();
    options_parse(argc, argv, &options);
    raise_descriptors(&options);
    if (options.error[0]) {
        terminal_say("%s", options.error);
        if (options.command != COMMAND_SERVE || isatty(STDIN_FILENO)) {
            return 2;
        }
        /* The tools report errors in the options, as a client shows its user the tools' results. */
    }
    if (options.command == COMMAND_SERVE && !options.error[0] && isatty(STDIN_FILENO)) {
        terminal_say("an assistant starts this, and speaks MCP with it; see sandpiper -h");
    }
    if (options.command != COMMAND_SERVE) {
        open_standard();
    }
    int code = commands[options.command](&options);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        terminal_say("cannot write all output to stdout");
        return code ? code : 1;
    }
    return code;
}
