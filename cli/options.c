#include "cli/options.h"

#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "cli/flags.h"
#include "schema/schema.h"
#include "tools/keep/keep_files.h"

enum { FLAG_NUMBER = 256, HELP_COLUMN = 22, USAGE_COLUMN = 44 };

struct command_row {
    const char *name;
    enum command command;
    const char *usage; /* its line of the usage; NULL: another name, or it needs no help */
    const char *purpose;
};

static const struct command_row commands[] = {
    {"serve", COMMAND_SERVE, "sandpiper [OPTIONS]", "serve tools over stdin and stdout (MCP)"},
    {"run", COMMAND_RUN, "sandpiper run [OPTIONS] FILE|-|-c CODE|-m MODULE [ARG...]",
     "run a program once in a sandbox"},
    {"doctor", COMMAND_DOCTOR, "sandpiper doctor [OPTIONS]",
     "show what the sandbox can enforce here"},
    {"schema", COMMAND_SCHEMA, "sandpiper schema [OPTIONS]", "print the tool definitions"},
    {"call", COMMAND_CALL, "sandpiper call [OPTIONS] TOOL [JSON]",
     "make one tool call in a separate sandbox"},
    {"config", COMMAND_CONFIG, "sandpiper config --install [OPTIONS] [-- SERVER OPTIONS]",
     "print or install the entry for an MCP client"},
    {"record", COMMAND_RECORD,
     "sandpiper record list|show|export|replay|why|check [FILE] [OPTIONS]",
     "read what --record has kept, or run it again"},
    {"keep", COMMAND_KEEP, "sandpiper keep list|drop|restore [SESSION] [DIR] [OPTIONS]",
     "list or remove what --keep has kept"},
    {"mcp", COMMAND_SERVE},
    {"help", COMMAND_HELP},
    {"version", COMMAND_VERSION},
};

static const char usage_end[] =
    "  -h, --help          show help, also of one command; -h: the short form\n"
    "  -V, --version       show the version\n";
static const char usage_config[] =
    "\n"
    "Options of config; server options follow --:\n"
    "  --host CLIENT       claude-code, claude-desktop, codex, copilot, cursor, gemini,\n"
    "                      opencode, vscode or zed (all that are found)\n"
    "  --name NAME         name of the server in the client (sandbox)\n"
    "  --install           add the entry to the client's configuration file, with\n"
    "                      --workspace ~/Sandpiper unless a workspace is named\n"
    "  --uninstall         remove that entry\n"
    "  --in-memory         with --install: leave the workspace in memory\n"
    "  --keep              with --install: sessions come back in the next server\n"
    "  --file FILE         configuration file to change, instead of the user's own\n";
static const char usage_record[] =
    "\n"
    "`replay` also takes the options of the server; sandpiper --help lists them.\n";
static const char usage_after_config[] =
    "\n"
    "After -- follow the options of the server; sandpiper --help lists them.\n";
static const char usage_environment[] =
    "\n"
    "Environment: SANDPIPER_LOG=LEVEL[,MODULE=LEVEL...] with error, warn, info, debug, trace.\n";

/* Prints "  --name VALUE" and the lines of help, all from the same column on. */
static void print_flag(const struct flag *flag)
{
    int column =
        printf("  --%s%s%s", flag->name, flag->value ? " " : "", flag->value ? flag->value : "");
    if (column >= HELP_COLUMN) {
        column = printf("\n") - 1;
    }
    bool is_own = flag->commands && flag->commands[0];
    const char *const texts[] = {is_own ? flag->commands : "",
                                 is_own ? ": " : "",
                                 flag->help,
                                 flag->fallback ? " (" : "",
                                 flag->fallback ? flag->fallback : "",
                                 flag->fallback ? ")" : ""};
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

static void print_usage(const char *command)
{
    const char *before = "Usage:";
    for (unsigned i = 0; i < sizeof commands / sizeof *commands; i++) {
        const struct command_row *row = &commands[i];
        if (row->usage && (!command || strcmp(command, row->name) == 0)) {
            int column = printf("%s %s", before, row->usage);
            if (column >= USAGE_COLUMN) {
                column = printf("\n") - 1;
            }
            (void)printf("%*s%s\n", USAGE_COLUMN - column, "", row->purpose);
            before = "      ";
        }
    }
}

static const struct command_row *find_command(const char *word)
{
    for (unsigned i = 0; word && i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(word, commands[i].name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

int options_print_help(const char *command, bool is_short)
{
    bool is_config = command && strcmp(command, "config") == 0;
    const struct command_row *row = find_command(command);
    print_usage(command);
    bool is_keep = row && row->command == COMMAND_KEEP;
    bool has_few = is_config || is_keep || (row && row->command == COMMAND_RECORD);
    (void)fputs(is_config ? usage_config : "\nOptions:\n", stdout);
    for (unsigned i = 0; i < flag_count && !is_config; i++) {
        const char *of = flags[i].commands;
        bool is_own = command && of && strstr(of, command);
        if (row && flag_is_refused(&flags[i], row->command)) {
            continue;
        }
        if (is_own || (!has_few && (is_short ? flags[i].is_common : !command || !of || !of[0]))) {
            print_flag(&flags[i]);
        }
    }
    (void)fputs(usage_end, stdout);
    if (has_few) {
        return fputs(is_config ? usage_after_config : is_keep ? "" : usage_record, stdout) < 0;
    }
    if (is_short) {
        return printf("\nsandpiper %s%s--help lists all options; so does man sandpiper.\n",
                      command && strcmp(command, "serve") != 0 ? command : "",
                      command && strcmp(command, "serve") != 0 ? " " : "") < 0;
    }
    if (!command) {
        (void)fputs(usage_config, stdout);
    }
    return fputs(usage_environment, stdout) < 0;
}

/* Reports an unknown word, and the flag or command that it probably means. */
static void report_unknown(struct options *options, const char *what, const char *word)
{
    json_auto_t *known = json_object();
    char written[64];
    (void)snprintf(written, sizeof written, "%.*s", (int)strcspn(word, "="), word);
    for (unsigned i = 0; word[0] == '-' && i < flag_count; i++) {
        (void)json_object_set_new(known, flags[i].name, json_null());
    }
    for (unsigned i = 0; word[0] != '-' && i < sizeof commands / sizeof *commands; i++) {
        (void)json_object_set_new(known, commands[i].name, json_null());
    }
    const char *near = near_key(known, written + strspn(written, "-"));
    options_error(options, "unknown %s %.64s%s%s%s; sandpiper --help lists them", what, word,
                  near ? ": did you mean " : "", near && word[0] == '-' ? "--" : "",
                  near ? near : "");
}

void options_error(struct options *options, const char *fmt, ...)
{
    if (!options->error[0]) {
        int at = 0;
        if (options->config_line) {
            at = snprintf(options->error, sizeof options->error,
                          "%.200s:%u: ", options->config_file, options->config_line);
        }
        va_list args;
        va_start(args, fmt);
        (void)vsnprintf(options->error + at, sizeof options->error - (size_t)at, fmt, args);
        va_end(args);
    }
}

/* If one was given, it bounds the other's default. */
static void resolve_timeouts(struct options *options)
{
    if (options->server.timeout_ms <= options->server.max_timeout_ms) {
        return;
    }
    if (options->server.timeout_ms == DEFAULT_TIMEOUT_MS) {
        options->server.timeout_ms = options->server.max_timeout_ms;
    } else if (options->server.max_timeout_ms == DEFAULT_MAX_TIMEOUT_MS) {
        options->server.max_timeout_ms = options->server.timeout_ms;
    } else {
        options_error(options, "--timeout exceeds --max-timeout");
    }
}

static void resolve_layers(struct options *options)
{
    uint32_t both = options->spec.require & options->spec.allow_degraded;
    for (unsigned i = 0; i < BOX_PROTECTION_COUNT; i++) {
        if (both & 1U << i) {
            options_error(options, "%s is both in --require and in --allow-degraded",
                          box_protection_name((enum box_protection)i));
        }
    }
}

/* Checks that no writable mount contains the server's own settings, now and at its next start: code
 * must not be able to change it. */
static int check_trusted(struct options *options, const char *place, const char *config,
                         struct fail *ret_fail)
{
    static const char move[] = "move it where code cannot write";
    const struct install_config *install = &options->install;
    const struct box_trusted files[] = {
        {"the configuration file", config, move, .is_tree = false},
        {"the configuration file", place, move, .is_tree = false},
        {"the constraint file", install->constraint, move, .is_tree = false},
        {"the certificate file", install->index_cert, move, .is_tree = false},
        {"the directory of wheels", install->find_links, move, .is_tree = true},
        {"the store", options->spec.cow_store, "name another directory with --cow-store",
         .is_tree = true},
        {"the directory of records", options->record.directory,
         "name another directory with --record", .is_tree = true},
        {"the directory of kept sessions", options->keep.directory,
         "name another directory with --keep", .is_tree = true},
    };
    int r = box_trust_check(&options->spec, files, sizeof files / sizeof *files, ret_fail);
    for (unsigned i = 0; r == 0 && i < options->ca.count; i++) {
        const struct box_trusted file = {"the file of --ca-cert", options->ca.at[i], move,
                                         .is_tree = false};
        r = box_trust_check(&options->spec, &file, 1, ret_fail);
    }
    return r;
}

static int resolve_record(struct options *options, struct fail *ret_fail)
{
    static char path[PATH_MAX];
    struct record_config *record = &options->record;
    if (!record->directory && record->required) {
        (void)fail_set(ret_fail, 0, "--record-required needs the directory of --record");
        return -EINVAL;
    }
    if (!record->directory) {
        return 0;
    }
    int r = box_apart_resolve(&options->spec, "--record", record->directory, path, ret_fail);
    record->directory = path;
    return r ? r : record_check(path, ret_fail);
}

static int resolve_keep(struct options *options, struct fail *ret_fail)
{
    static char path[PATH_MAX];
    struct keep_config *keep = &options->keep;
    uint64_t most = options->spec.limits.memory_bytes / 2;
    if (!keep->directory) {
        return 0;
    }
    if (keep->bytes > most && flag_setting(options, flag_find("keep-size"))) {
        (void)fail_set(ret_fail, 0, "--keep-size is more than half of --memory");
        return -EINVAL;
    }
    options->spec.keep = options->command == COMMAND_SERVE;
    keep->bytes = keep->bytes > most ? most : keep->bytes;
    int r = box_apart_resolve(&options->spec, "--keep", keep->directory, path, ret_fail);
    keep->directory = path;
    return r ? r : keep_check(path, ret_fail);
}

/* Resolves the directories, once all flags are known. One that cannot be mounted becomes options'
 * error. config: the value of --config, or NULL. */
static void resolve_mounts(struct options *options, const char *config)
{
    static char workspace[PATH_MAX];
    static char store[PATH_MAX];
    char place[PATH_MAX];
    struct fail fail = {};
    if (options->error[0]) {
        return;
    }
    options->mounts.config[0] = config_file_place(place, sizeof place) ? place : NULL;
    options->mounts.config[1] = config;
    int r = box_workspace_resolve(&options->spec, workspace, &fail);
    r = r ? r : box_cow_resolve(&options->spec, store, &fail);
    r = r ? r : box_mounts_resolve(&options->spec, &options->mounts, &fail);
    r = r ? r : resolve_record(options, &fail);
    r = r ? r : resolve_keep(options, &fail);
    r = r ? r : check_trusted(options, options->mounts.config[0], config, &fail);
    if (r < 0) {
        options_error(options, "%.500s", fail_text(&fail));
    }
    options->mounts.config[0] = NULL; /* it was this process's */
}

/* Where code can write is known by now. */
static void resolve_tools(struct options *options)
{
    char error[TOOLS_ERROR_BYTES];
    if (options->tools_path && !options->error[0]) {
        options->server.tools_file = tools_file_read(&options->spec, options->tools_path, error);
        options->spec.calls = options->server.tools_file != NULL;
        if (!options->server.tools_file) {
            options_error(options, "%s", error);
        }
    }
}

/* For images and pods, whose start line another party writes. An empty one counts as unset. */
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
    rows[flag_count] = (struct option){"help", no_argument, NULL, 'H'};
    rows[flag_count + 1] = (struct option){"version", no_argument, NULL, 'V'};
}

/* Takes the command, which options may precede, out of the line. Without one, the line is the
 * server's. */
static void take_command(struct options *options, int *argc, char **argv,
                         const struct option rows[])
{
    int option = 0;
    bool asks_help = false;
    opterr = 0;
    optind = 0; /* getopt(3): the GNU library starts over, its own state included */
    while (option >= 0) {
        option = getopt_long(*argc, argv, "+:hV", rows, NULL);
        asks_help = asks_help || option == 'h' || option == 'H';
        options->is_help_short = options->is_help_short || option == 'h';
    }
    int at = optind;
    const struct command_row *row = at < *argc ? find_command(argv[at]) : NULL;
    optind = 0;
    options->command = row ? row->command : at == 1 && *argc > 1 ? COMMAND_UNKNOWN : COMMAND_SERVE;
    if (!row) {
        return;
    }
    options->help = row->usage ? row->name : NULL;
    if (row->command == COMMAND_HELP) {
        const struct command_row *of = find_command(argv[at + 1]);
        options->help = of && of->usage ? of->name : NULL;
    }
    options->argc = *argc - at;
    options->argv = argv + at;
    if (row->command == COMMAND_CONFIG) {
        if (asks_help) {
            options->command = COMMAND_HELP;
        } else if (at > 1) {
            options_error(options, "config: server options follow --, after config's own");
        }
        return;
    }
    (*argc)--;
    memmove(argv + at, argv + at + 1, (size_t)(*argc - at + 1) * sizeof *argv);
}

/* The value of the last --config, or NULL. The other flags are read from the line afterwards: they
 * override the file. */
static const char *find_config(int argc, char **argv, const char *shorts,
                               const struct option rows[])
{
    const char *path = NULL;
    for (int option = 0; option >= 0 && option != 'c' && option != 'm';) {
        option = getopt_long(argc, argv, shorts, rows, NULL);
        if (option >= FLAG_NUMBER && strcmp(flags[option - FLAG_NUMBER].name, "config") == 0) {
            path = optarg;
        }
    }
    optind = 0; /* getopt(3): the GNU library starts over, its own state included */
    return path;
}

/* The code that runs a module as `python -m` does. */
static void take_module(struct options *options, const char *name)
{
    static char code[320];
    int size =
        snprintf(code, sizeof code,
                 "import runpy; runpy.run_module(\"%s\", None, \"__main__\", True) and None", name);
    if (strpbrk(name, "\"\\\n\r") || size >= (int)sizeof code) {
        options_error(options, "\"%.64s\" is not the name of a module", name);
    }
    options->code = code;
}

/* What is left of the line of `run`: the file, unless there is code, and the arguments. */
static void take_program(struct options *options, int argc, char **argv)
{
    if (!options->code && optind < argc) {
        options->file = argv[optind++];
    }
    options->argv = argv + optind;
    options->argc = argc - optind;
    optind = argc;
    if (!options->code && !options->file) {
        options_error(options, "run needs a FILE, -c CODE or -m MODULE");
    }
}

/* What is left of the line of `record`: what to do, the file, and the cell. */
static void take_record(struct options *options, int argc, char **argv)
{
    static const char *const actions[] = {"list", "show", "export", "replay", "why", "check"};
    const char *action = optind < argc ? argv[optind++] : "";
    for (unsigned i = 0; i < sizeof actions / sizeof *actions; i++) {
        if (strcmp(action, actions[i]) == 0) {
            options->records.action = actions[i];
        }
    }
    if (!options->records.action) {
        options_error(options, "record needs one of list, show, export, replay, why and check");
        return;
    }
    bool is_why = strcmp(action, "why") == 0;
    bool only_cell =
        is_why && optind + 1 == argc && argv[optind][strspn(argv[optind], "0123456789")] == '\0';
    if (optind < argc && !only_cell) {
        options->records.file = argv[optind++];
    }
    if (optind < argc && is_why) {
        options->records.cell = argv[optind++];
    }
}

/* What is left of the line of `keep`: what to do, the session, and the directory. */
static void take_keep(struct options *options, int argc, char **argv)
{
    static const char *const actions[] = {"list", "drop", "restore"};
    const char *action = optind < argc ? argv[optind++] : "";
    for (unsigned i = 0; i < sizeof actions / sizeof *actions; i++) {
        options->kept.action = strcmp(action, actions[i]) == 0 ? actions[i] : options->kept.action;
    }
    bool is_drop = strcmp(action, "drop") == 0;
    if (options->kept.all && options->kept.action && !is_drop) {
        options_error(options, "--all is for keep drop, not for keep %s", action);
        return;
    }
    bool has_session = strcmp(action, "list") != 0 && !options->kept.all;
    if (!options->kept.action || (has_session && optind == argc)) {
        options_error(options,
                      options->kept.action ? "keep %s needs the name of a session"
                                           : "keep needs one of list, drop and restore",
                      action);
        return;
    }
    options->kept.session = has_session ? argv[optind++] : NULL;
    options->kept.directory = optind < argc ? argv[optind++] : NULL;
}

/* What is left of the line, after the flags. */
static void take_rest(struct options *options, int argc, char **argv)
{
    if (options->command == COMMAND_RUN) {
        take_program(options, argc, argv);
    }
    if (options->command == COMMAND_CALL) {
        options->call.tool = optind < argc ? argv[optind++] : NULL;
        options->call.arguments = optind < argc ? argv[optind++] : NULL;
    }
    if (options->command == COMMAND_RECORD) {
        take_record(options, argc, argv);
    }
    if (options->command == COMMAND_KEEP) {
        take_keep(options, argc, argv);
    }
    if (optind < argc) {
        report_unknown(options, "argument", argv[optind]);
    }
    if (options->command == COMMAND_CALL && !options->call.tool) {
        options_error(options, "call needs a TOOL and its arguments as JSON");
    }
}

/* What follows from several of them together. */
static void resolve_settings(struct options *options)
{
    resolve_timeouts(options);
    resolve_layers(options);
    box_memory_fit(&options->spec, options->memory_given);
    install_flags_resolve(options);
    proxy_resolve(options);
    ca_resolve(options);
}

void options_parse(int argc, char **argv, struct options *ret_options)
{
    struct options *options = ret_options;
    *options = (struct options){.server = {.timeout_ms = DEFAULT_TIMEOUT_MS,
                                           .max_timeout_ms = DEFAULT_MAX_TIMEOUT_MS,
                                           .wait_ms = DEFAULT_WAIT_MS,
                                           .ui = TOOLS_UI_ON,
                                           .jobs = DEFAULT_JOBS,
                                           .version = SANDPIPER_VERSION},
                                .record.bytes = DEFAULT_RECORD_BYTES,
                                .keep = {.bytes = DEFAULT_KEEP_BYTES, .days = DEFAULT_KEEP_DAYS}};
    box_spec_init(&options->spec);
    options->egress.flag = "--allow-host";
    struct option rows[OPTIONS_FLAGS + 3] = {};
    describe_flags(rows);
    take_command(options, &argc, argv, rows);
    if (options->command == COMMAND_CONFIG || options->command == COMMAND_HELP ||
        options->command == COMMAND_VERSION) {
        return; /* the flags of config have other meanings */
    }
    /* '+': what follows FILE belongs to it, as what follows CODE does. ':': getopt reports a
     * missing value as ':'. */
    const char *shorts = options->command == COMMAND_RUN      ? "+:c:m:hV"
                         : options->command == COMMAND_RECORD ? ":o:hV"
                                                              : ":hV";
    const char *config = find_config(argc, argv, shorts, rows);
    config_file_read(options, config);
    take_variables(options);
    for (;;) {
        int option = getopt_long(argc, argv, shorts, rows, NULL);
        if (option < 0) {
            break;
        }
        if (option == '?') {
            report_unknown(options, "option", argv[optind - 1]);
        } else if (option == ':') {
            bool is_install = strcmp(argv[optind - 1], "--install") == 0;
            options_error(options, "%.64s needs a value%s", argv[optind - 1],
                          is_install ? "; the entry for an assistant is sandpiper config --install"
                                     : "");
        } else if (option >= FLAG_NUMBER) {
            const struct flag *flag = &flags[option - FLAG_NUMBER];
            bool hides = optarg && (flag->is_url || strstr(optarg, "://"));
            flag_take(options, flag, hides ? proxy_hide(optarg) : optarg);
        } else if (option == 'o') {
            options->records.output = optarg;
        } else if (option == 'c') {
            options->code = optarg;
            break;
        } else if (option == 'm' && optarg) {
            take_module(options, optarg);
            break;
        } else {
            options->command = option == 'V' ? COMMAND_VERSION : COMMAND_HELP;
            options->is_help_short = option == 'h';
            options->error[0] = '\0'; /* help is for whoever has made a mistake */
            return;
        }
    }
    take_rest(options, argc, argv);
    if (options->command == COMMAND_RECORD && !options->spec.workspace) {
        options->spec.cow = false; /* of the configuration, whose workspace is not taken */
    }
    resolve_settings(options);
    bool runs = options->command != COMMAND_KEEP &&
                (!options->records.action || strcmp(options->records.action, "replay") == 0);
    if (runs) { /* records can be read although a directory is gone */
        resolve_mounts(options, config);
        resolve_tools(options);
    }
}

struct tools_config options_tools_config(struct options *options)
{
    struct tools_config config = options->server;
    config.spec = &options->spec;
    config.install = &options->install;
    config.hosts = options->spec.egress ? &options->egress : NULL;
    config.error = options->error[0] ? options->error : NULL;
    return config;
}
