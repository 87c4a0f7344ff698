#include "cli/options.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "cli/config_file.h"
#include "cli/flags.h"
#include "cli/install_flags.h"
#include "cli/mount_flags.h"

enum { FLAG_NUMBER = 256, HELP_COLUMN = 22 };

static const char usage[] =
    "Usage: sandpiper [OPTIONS]                 serve tools over stdin and stdout (MCP)\n"
    "       sandpiper run [OPTIONS] FILE|-c CODE  run code once in a sandbox\n"
    "       sandpiper doctor [OPTIONS]          show what the sandbox can enforce here\n"
    "       sandpiper schema [OPTIONS]          print the tools as a host gets them\n"
    "       sandpiper call [OPTIONS] TOOL [JSON]  one tool call in a sandbox of its own\n"
    "       sandpiper config --host HOST [--name NAME] [--install] [--file FILE] [-- OPTIONS]\n"
    "                                           the entry that starts this program in a host\n"
    "\n"
    "Options:\n";
static const char usage_end[] =
    "  -h, --help          print this\n"
    "  -V, --version       print the version\n"
    "\n"
    "Options of config; behind -- stand those of the server:\n"
    "  --host HOST         claude-code, claude-desktop, codex, copilot, cursor, gemini,\n"
    "                      opencode, vscode or zed\n"
    "  --name NAME         what the host calls it (sandbox)\n"
    "  --install           put the entry into the host's file, instead of printing it\n"
    "  --file FILE         into this file, instead of the user's own\n"
    "\n"
    "Environment: SANDPIPER_LOG=LEVEL[,ROOM=LEVEL...] with error, warn, info, debug, trace.\n";

/* "  --name VALUE" and the lines of help, all from the same column on. */
static void print_flag(const struct flag *flag)
{
    int column =
        printf("  --%s%s%s", flag->name, flag->value ? " " : "", flag->value ? flag->value : "");
    if (column >= HELP_COLUMN) {
        column = printf("\n") - 1;
    }
    const char *const texts[] = {flag->help, flag->fallback ? " (" : "",
                                 flag->fallback ? flag->fallback : "", flag->fallback ? ")" : ""};
    (void)printf("%*s", HELP_COLUMN - column, "");
    for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++) {
        for (const char *text = texts[i]; *text; text++) {
            (void)putchar(*text);
            if (*text == '\n') {
                (void)printf("%*s", HELP_COLUMN, "");
            }
        }
    }
    (void)putchar('\n');
}

int options_print_help(void)
{
    (void)fputs(usage, stdout);
    for (unsigned i = 0; i < flag_count; i++) {
        print_flag(&flags[i]);
    }
    return fputs(usage_end, stdout) < 0;
}

void options_trouble(struct options *options, const char *fmt, ...)
{
    if (!options->trouble[0]) {
        int at = 0;
        if (options->config_line) {
            at = snprintf(options->trouble, sizeof options->trouble,
                          "%.200s:%u: ", options->config_file, options->config_line);
        }
        va_list args;
        va_start(args, fmt);
        (void)vsnprintf(options->trouble + at, sizeof options->trouble - (size_t)at, fmt, args);
        va_end(args);
    }
}

static enum command take_command(int *argc, char ***argv)
{
    static const struct {
        const char *name;
        enum command command;
    } commands[] = {
        {"run", COMMAND_RUN},   {"doctor", COMMAND_DOCTOR}, {"schema", COMMAND_SCHEMA},
        {"call", COMMAND_CALL}, {"config", COMMAND_CONFIG}, {"serve", COMMAND_SERVE},
        {"mcp", COMMAND_SERVE}, {"help", COMMAND_HELP},     {"version", COMMAND_VERSION},
    };
    for (unsigned i = 0; *argc > 1 && i < sizeof commands / sizeof *commands; i++) {
        if (strcmp((*argv)[1], commands[i].name) == 0) {
            (*argc)--;
            (*argv)++;
            return commands[i].command;
        }
    }
    return *argc > 1 && (*argv)[1][0] != '-' ? COMMAND_UNKNOWN : COMMAND_SERVE;
}

/* The one that was given bends the other's default. */
static void settle_timeouts(struct options *options)
{
    if (options->timeout_ms <= options->max_timeout_ms) {
        return;
    }
    if (options->timeout_ms == DEFAULT_TIMEOUT_MS) {
        options->timeout_ms = options->max_timeout_ms;
    } else if (options->max_timeout_ms == DEFAULT_MAX_TIMEOUT_MS) {
        options->max_timeout_ms = options->timeout_ms;
    } else {
        options_trouble(options, "--timeout is larger than --max-timeout");
    }
}

static void settle_layers(struct options *options)
{
    uint32_t both = options->spec.require & options->spec.allow_degraded;
    for (unsigned i = 0; i < BOX_LAYER_COUNT; i++) {
        if (both & 1U << i) {
            options_trouble(options, "%s is both in --require and in --allow-degraded",
                            box_layer_name((enum box_layer)i));
        }
    }
}

/* Set by an image or a pod, whose start line is somebody else's. An empty one counts as unset. */
static void take_variables(struct options *options)
{
    for (unsigned i = 0; i < flag_count; i++) {
        const char *value = flags[i].variable ? getenv(flags[i].variable) : NULL;
        if (value && *value) {
            options->variable = flags[i].variable;
            flag_take(options, &flags[i], value);
        }
    }
    options->variable = NULL;
}

static void describe_flags(struct option rows[])
{
    for (unsigned i = 0; i < flag_count; i++) {
        rows[i] = (struct option){flags[i].name, flags[i].value ? required_argument : no_argument,
                                  NULL, FLAG_NUMBER + (int)i};
    }
    rows[flag_count] = (struct option){"help", no_argument, NULL, 'h'};
    rows[flag_count + 1] = (struct option){"version", no_argument, NULL, 'V'};
}

/* The value of the last --config, or NULL. The line is read once more for everything else: flags have
 * the last word over the file. */
static const char *find_config(int argc, char **argv, const char *shorts,
                               const struct option rows[])
{
    const char *path = NULL;
    for (int option = 0; option >= 0;) {
        option = getopt_long(argc, argv, shorts, rows, NULL);
        if (option >= FLAG_NUMBER && strcmp(flags[option - FLAG_NUMBER].name, "config") == 0) {
            path = optarg;
        }
    }
    optind = 0; /* getopt(3): the GNU library begins anew, its own state included */
    return path;
}

void options_parse(int argc, char **argv, struct options *ret_options)
{
    struct options *options = ret_options;
    *options = (struct options){.timeout_ms = DEFAULT_TIMEOUT_MS,
                                .max_timeout_ms = DEFAULT_MAX_TIMEOUT_MS};
    box_spec_init(&options->spec);
    options->egress.flag = "--allow-host";
    options->command = take_command(&argc, &argv);
    options->argc = argc;
    options->argv = argv;
    if (options->command == COMMAND_CONFIG) {
        return; /* its flags mean other things */
    }
    struct option rows[OPTIONS_FLAGS + 3] = {};
    describe_flags(rows);
    opterr = 0;
    optind = 0; /* getopt(3): begin anew, after the command line of config */
    /* '+': what follows FILE belongs to it. ':': a missing value is told apart. */
    const char *shorts = options->command == COMMAND_RUN ? "+:c:hV" : ":hV";
    const char *config = find_config(argc, argv, shorts, rows);
    config_file_read(options, config);
    take_variables(options);
    for (;;) {
        int option = getopt_long(argc, argv, shorts, rows, NULL);
        if (option < 0) {
            break;
        }
        if (option == '?') {
            options_trouble(options, "unknown option %.64s; sandpiper --help lists them",
                            argv[optind - 1]);
        } else if (option == ':') {
            options_trouble(options, "%.64s needs a value", argv[optind - 1]);
        } else if (option >= FLAG_NUMBER) {
            flag_take(options, &flags[option - FLAG_NUMBER], optarg);
        } else if (option == 'c') {
            options->code = optarg;
        } else {
            options->command = option == 'h' ? COMMAND_HELP : COMMAND_VERSION;
        }
    }
    if (options->command == COMMAND_RUN && !options->code && optind < argc) {
        options->file = argv[optind++];
    }
    if (options->command == COMMAND_CALL) {
        options->tool = optind < argc ? argv[optind++] : NULL;
        options->arguments = optind < argc ? argv[optind++] : NULL;
    }
    if (optind < argc) {
        options_trouble(
            options,
            "unknown argument \"%.64s\" (a command comes first); sandpiper --help shows the "
            "usage",
            argv[optind]);
    }
    if (options->command == COMMAND_RUN && !options->code && !options->file) {
        options_trouble(options, "run needs a FILE or -c CODE");
    }
    if (options->command == COMMAND_CALL && !options->tool) {
        options_trouble(options, "call needs the name of a TOOL and its arguments as JSON");
    }
    settle_timeouts(options);
    settle_layers(options);
    install_flags_settle(options);
    mount_flags_settle(options, config);
}
