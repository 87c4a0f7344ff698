/* sandpiper config: checks its own flags and those after "--", which are the server's, finds a
 * workspace for these, and becomes config.py, which knows the clients and changes their files. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/own.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "cli/terminal.h"

extern const struct embedded config_program[]; /* config.py */

enum { EXIT_REFUSED = 1, EXIT_USAGE = 2, NAME_MOST = 64 };

struct config {
    const char *client; /* NULL: those that the user has */
    const char *file;   /* --file, or NULL: the client's own */
    const char *name;
    const char *check; /* --check, for config.py alone: a path, or NULL */
    int install;       /* switches: 0 or 1, as getopt_long(3) sets them */
    int uninstall;
    int in_memory; /* --in-memory: --install adds no workspace */
    int keep;      /* --keep: --install adds that flag, with a directory for this client */
    bool help;
    bool is_help_short;
    char **flags;             /* the server's, with a NULL after the last */
    char workspace[PATH_MAX]; /* --workspace before these flags; "": none was added */
    bool made;                /* that directory */
};

/* What config.py gets: see there. */
struct words {
    const char *at[2 * OPTIONS_SETTINGS + 16]; /* a NULL ends them */
    unsigned count;
};

static const char clients[] = /* as in config.py */
    "claude-code, claude-desktop, codex, copilot, cursor, gemini, opencode, vscode or zed";

static int usage(const char *problem, const char *word)
{
    terminal_say("config: %s%.200s", problem, word);
    return EXIT_USAGE;
}

static bool is_name(const char *text)
{
    size_t size = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-");
    return size > 0 && size <= NAME_MOST && !text[size];
}

static char workspace_flag[] = "--workspace";

/* Reads the server's flags as the server would. */
static void parse_flags(struct config *config, struct options *ret_options)
{
    static char program[] = "sandpiper";
    static char *argv[_POSIX_ARG_MAX / sizeof(char *)]; /* the options point into it */
    char **words = config->flags;
    int argc = 0;
    argv[argc++] = program;
    if (config->workspace[0]) {
        argv[argc++] = workspace_flag;
        argv[argc++] = config->workspace;
    }
    for (; *words && (size_t)argc + 1 < sizeof argv / sizeof *argv; words++) {
        char *word = strdup(*words); /* options_parse() hides passwords in what it reads */
        argv[argc++] = word ? word : *words;
    }
    argv[argc] = NULL;
    options_parse(argc, argv, ret_options);
    if (*words) {
        (void)snprintf(ret_options->error, sizeof ret_options->error, "too many flags");
    }
}

/* Reports a mistake in the server's flags. 0 or an exit code. */
static int check_flags(struct config *config, struct options *ret_options)
{
    struct box_python python = {};
    parse_flags(config, ret_options);
    if (ret_options->error[0]) {
        return usage(ret_options->error, "");
    }
    if (flag_setting(ret_options, flag_find("proxy")) &&
        flag_setting(ret_options, flag_find("proxy"))->line == 0 &&
        proxy_has_password(ret_options->proxy.url)) {
        return usage(
            "a client's file would show the password of --proxy; write it into "
            "~/.config/sandpiper/config: proxy = URL (chmod 600)",
            "");
    }
    if (*config->flags && ret_options->spec.python) {
        box_python_look(&ret_options->spec, &python);
    }
    if (python.error[0]) {
        return usage("--python takes a CPython 3.9 or newer: ", python.error);
    }
    return ret_options->command == COMMAND_SERVE
               ? 0
               : usage("only server flags may follow --, not ",
                       ret_options->help ? ret_options->help : "a command");
}

static int parse(int argc, char **argv, struct config *config)
{
    const struct option long_options[] = {
        {"host", required_argument, NULL, 'c'},
        {"file", required_argument, NULL, 'f'},
        {"name", required_argument, NULL, 'n'},
        {"check", required_argument, NULL, 'k'},
        {"install", no_argument, &config->install, 1},
        {"uninstall", no_argument, &config->uninstall, 1},
        {"in-memory", no_argument, &config->in_memory, 1},
        {"keep", no_argument, &config->keep, 1},
        {"help", no_argument, NULL, 'H'},
        {},
    };
    int option = 0;
    config->name = "sandbox";
    opterr = 0;
    optind = 0; /* getopt(3): start over */
    while ((option = getopt_long(argc, argv, "+:h", long_options, NULL)) >= 0) {
        if (option == 'h' || option == 'H') {
            config->help = true;
            config->is_help_short = option == 'h';
            return 0;
        } else if (option == 'c') {
            config->client = optarg;
            if (flag_find_choice(clients, optarg) < 0) {
                terminal_say("config: --host takes %s, not %.200s", clients, optarg);
                return EXIT_USAGE;
            }
        } else if (option == 'k') {
            config->check = optarg;
        } else if (option == 'f') {
            config->file = optarg;
        } else if (option == 'n') {
            config->name = optarg;
        } else if (option == ':') {
            return usage("missing value after ", argv[optind - 1]);
        } else if (option == '?') {
            return usage("unknown option (server flags must follow \"--\"): ", argv[optind - 1]);
        }
    }
    if (optind < argc && strcmp(argv[optind - 1], "--") != 0) {
        const char *word = argv[optind];
        char meant[NAME_MOST] = "";
        if (flag_find_choice(clients, word) >= 0) {
            (void)snprintf(meant, sizeof meant, "did you mean --host %s? ", word);
        } else if (strcmp(word, "install") == 0 || strcmp(word, "uninstall") == 0) {
            (void)snprintf(meant, sizeof meant, "did you mean --%s? ", word);
        }
        terminal_say("config: %sunknown option (server flags must follow \"--\"): %.200s", meant,
                     word);
        return EXIT_USAGE;
    }
    config->flags = argv + optind;
    if (!config->client && config->file) {
        return usage("--file needs --host; it takes ", clients);
    }
    if (config->keep && !config->install) {
        return usage("--keep needs --install; a server's --keep DIR follows \"--\"", "");
    }
    if (config->uninstall && (config->install || *config->flags)) {
        return usage("--uninstall takes neither --install nor server flags", "");
    }
    return is_name(config->name)
               ? 0
               : usage("--name takes letters, digits, _ and -, not ", config->name);
}

/* Adds a workspace to flags that name none, so that the user finds the files: ~/Sandpiper, which is
 * made. Where that is impossible, says so, and the workspace stays in memory. 0, or an exit code
 * where another flag does not go with it. */
static int add_workspace(struct config *config, struct options *options)
{
    const char *home = getenv("HOME");
    if (config->in_memory || options->spec.workspace || !home || home[0] != '/') {
        return 0;
    }
    int size = snprintf(config->workspace, sizeof config->workspace, "%s/Sandpiper", home);
    const char *why = (size_t)size < sizeof config->workspace ? NULL : strerror(ENAMETOOLONG);
    config->made = !why && mkdir(config->workspace, 0700) == 0;
    why = why || config->made || errno == EEXIST ? why : strerror(errno);
    if (!why) {
        parse_flags(config, options);
        why = options->error[0] ? options->error : NULL;
    }
    if (why == options->error && strncmp(why, workspace_flag, strlen(workspace_flag)) != 0) {
        return usage(why, "");
    }
    if (why) {
        terminal_say("config: files stay in memory, %s cannot be the workspace: %s",
                     config->workspace, why);
        config->workspace[0] = '\0';
        parse_flags(config, options);
    }
    return 0;
}

/* Appends a word. It is never freed: the process becomes the program that gets it. */
__attribute__((format(printf, 2, 3))) static void add_word(struct words *words, const char *fmt,
                                                           ...)
{
    va_list args;
    char *word = NULL;
    va_start(args, fmt);
    if (vasprintf(&word, fmt, args) >= 0) {
        words->at[words->count++] = word;
    }
    va_end(args);
}

/* Appends value, a path from any directory: a client starts the server in another one than this. */
static void add_value(struct words *words, const struct flag *flag, const char *value,
                      const char *here)
{
    bool searched = strcmp(flag->name, "python") == 0 && !strchr(value, '/'); /* in PATH */
    if (!flag->is_path || value[0] == '/' || value[0] == '~' || searched) {
        add_word(words, "%s", value);
        return;
    }
    while (strncmp(value, "./", 2) == 0) {
        value += 2;
    }
    bool is_here = strcmp(value, ".") == 0 || !*value;
    add_word(words, "%s%s%s", here, is_here ? "" : "/", is_here ? "" : value);
}

/* Appends the flags of the command line. */
static void add_flags(struct words *words, const struct options *options, const char *here)
{
    for (unsigned i = 0; i < options->setting_count; i++) {
        const struct options_setting *setting = &options->settings[i];
        if (setting->line > 0 || setting->from_variable) {
            continue;
        }
        add_word(words, "--%s", setting->flag->name);
        if (setting->flag->value) {
            add_value(words, setting->flag, setting->value, here);
        }
    }
}

/* For config.py: whether code of the server could choose what the client starts. */
static int check_trust(const struct config *config, struct box_spec *spec)
{
    struct fail fail = {};
    const struct box_trusted target = {"the client's configuration file", config->check,
                                       "name another file with --file", .is_tree = false};
    if (box_trust_check(spec, &target, 1, &fail) == 0) {
        return 0;
    }
    (void)puts(fail_text(&fail));
    return EXIT_REFUSED;
}

/* Passes on the proxy that the environment names, as clients start servers without such variables.
 * Not as a word: the URL may have a password. */
static void add_settings(struct words *words, const struct options *server)
{
    const struct egress_upstream *upstream = &server->ways.upstreams[EGRESS_HTTPS];
    const struct egress_upstream *plain = &server->ways.upstreams[EGRESS_HTTP];
    const char *url = server->proxy.url ? NULL : getenv(upstream->source);
    const char *direct = server->proxy.direct ? "" : server->ways.direct;
    defer_free char *lines = NULL;
    char place[PATH_MAX];
    if (!url && !server->proxy.url && plain->source[0]) {
        log_warn("config",
                 "the proxy of this shell is not noted: %s is for plain http only, and a "
                 "line in the file would hold for https too",
                 plain->source);
    }
    if (!url || !config_file_place(place, sizeof place)) {
        return;
    }
    bool lines_break = strpbrk(url, "\r\n") || strpbrk(direct, "\r\n");
    if (lines_break || upstream->unusable[0]) {
        log_warn("config", "the proxy of this shell is not noted: %s",
                 lines_break ? "it or NO_PROXY has a line feed" : upstream->unusable);
        return;
    }
    if (asprintf(&lines, "proxy = %s\n%s%s%s", url, *direct ? "no-proxy = " : "", direct,
                 *direct ? "\n" : "") < 0) {
        lines = NULL; /* asprintf(3) leaves it undefined */
    } else if (setenv("SANDPIPER_SETTINGS", lines, /* overwrite= */ 1) == 0) {
        add_word(words, "settings=%s", place);
        if (plain->port != upstream->port || strcmp(plain->host, upstream->host) != 0) {
            log_warn("config", "%s is noted, and holds for plain http too", upstream->source);
        }
    }
}

/* Becomes config.py. Returns an exit code where that is impossible. */
static int run_python(const struct config *config, const struct options *options)
{
    static struct words words;
    char here[PATH_MAX];
    char program[PATH_MAX] = "";
    if (readlink("/proc/self/exe", program, sizeof program - 1) < 0) {
        return usage("/proc/self/exe: ", strerror(errno));
    }
    add_word(&words, "action=%s",
             config->install     ? "install"
             : config->uninstall ? "uninstall"
                                 : "print");
    add_word(&words, "name=%s", config->name);
    add_word(&words, "program=%s", program);
    add_word(&words, "call_ms=%llu", (unsigned long long)options->server.max_timeout_ms);
    add_word(&words, "workspace=%s", config->workspace);
    add_word(&words, "made=%s", config->made ? "yes" : "");
    add_word(&words, "lost=%s", options->spec.workspace || config->in_memory ? "" : "yes");
    add_word(&words, "keep=%s", config->keep ? "yes" : "");
    add_word(&words, "apart=%s", options->spec.workspace ? options->spec.workspace : "");
    if (config->install) {
        add_settings(&words, options);
    }
    if (config->client) {
        add_word(&words, "host=%s", config->client);
    }
    if (config->file) {
        add_word(&words, "file=%s", config->file);
    }
    add_word(&words, "--");
    add_flags(&words, options, getcwd(here, sizeof here) ? here : ".");
    const struct outside_program python = {"config", config_program, words.at};
    return outside_python_run(&options->spec, &python);
}

int command_config(const struct options *options)
{
    static struct options server;
    static struct config config; /* the options point into it */
    int code = parse(options->argc, options->argv, &config);
    if (code == 0 && config.help) {
        return options_print_help("config", config.is_help_short);
    }
    code = code ? code : check_flags(&config, &server);
    if (code || config.check) {
        return code ? code : check_trust(&config, &server.spec);
    }
    code = config.install ? add_workspace(&config, &server) : 0;
    code = code ? code : run_python(&config, &server);
    if (config.made) {
        (void)rmdir(config.workspace);
    }
    return code;
}
