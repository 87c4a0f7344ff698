#include <signal.h>
#include <stdio.h>

#include "base/log.h"
#include "cli/commands.h"
#include "cli/first_process.h"
#include "cli/options.h"
#include "cli/terminal.h"

/* Dispositions are inherited by execve(2), signal(7). A parent that ignores SIGCHLD would leave us, and
 * init, children without a status to wait for. Those that end us stay as they are: nohup(1) sets them. */
static void set_signals(void)
{
    (void)signal(SIGCHLD, SIG_DFL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ,
                 SIG_IGN); /* a file beyond RLIMIT_FSIZE is an error to report, setrlimit(2) */
}

int main(int argc, char **argv)
{
    static struct options options;
    set_signals();
    first_process();
    log_init();
    options_parse(argc, argv, &options);
    if (options.trouble[0]) {
        terminal_say("%s", options.trouble);
        if (options.command != COMMAND_SERVE) {
            return 2;
        }
        /* A host shows its user what the tools answer: they tell it too. */
    }
    switch (options.command) {
    case COMMAND_HELP:
        return options_print_help();
    case COMMAND_VERSION:
        return printf("sandpiper %s\n", SANDPIPER_VERSION) < 0;
    case COMMAND_RUN:
        return command_run(&options);
    case COMMAND_DOCTOR:
        return command_doctor(&options);
    case COMMAND_SCHEMA:
        return command_schema(&options);
    case COMMAND_CALL:
        return command_call(&options);
    case COMMAND_CONFIG:
        return command_config(options.argc, options.argv);
    case COMMAND_SERVE:
    case COMMAND_UNKNOWN:
    default:
        return command_serve(&options);
    }
}
