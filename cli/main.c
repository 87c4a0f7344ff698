#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/commands.h"
#include "cli/container_init.h"
#include "cli/options.h"
#include "cli/terminal.h"

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
    [COMMAND_HELP] = print_help,       [COMMAND_VERSION] = print_version,
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
