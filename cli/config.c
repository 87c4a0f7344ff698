/* sandpiper config: prints the entry that a client's configuration needs to start this very
 * program, or puts it into the client's file, or takes it out of there. It has flags of its own,
 * and passes those after "--" to the server. */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "bridge/clients.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "cli/replace.h"
#include "cli/terminal.h"

enum { EXIT_REFUSED = 1, EXIT_USAGE = 2, NAME_MOST = 64 };

struct config {
    const struct bridge_client *client; /* NULL: those that the user has */
    const char *file;                   /* --file, or NULL: the client's own */
    const char *name;
    int install; /* switches: 0 or 1, as getopt_long(3) sets them */
    int uninstall;
    int in_memory;       /* --in-memory: --install adds no workspace */
    struct buf *changed; /* names of the clients whose files were changed */
    bool help;
    bool is_help_short;
    char **flags; /* the server's, with a NULL after the last */
};

/* The server's flags, "--workspace" and its directory before them, and a NULL. */
struct with_workspace {
    char *flags[_POSIX_ARG_MAX / sizeof(char *)];
    char path[PATH_MAX]; /* "": none was added */
    bool made;
};

static int usage(const char *problem, const char *word)
{
    terminal_say("config: %s%.200s", problem, word);
    return EXIT_USAGE;
}

static bool is_name(const char *text)
{
    size_t size =
        !text ? 0
              : strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-");
    return size > 0 && size <= NAME_MOST && !text[size];
}

/* Reads these flags as the server would. */
static void parse_flags(char **words, struct options *ret_options)
{
    static char program[] = "sandpiper";
    static char *argv[_POSIX_ARG_MAX / sizeof(char *)]; /* the options point into it */
    int argc = 0;
    argv[argc++] = program;
    for (; *words && (size_t)argc + 1 < sizeof argv / sizeof *argv; words++) {
        argv[argc++] = *words;
    }
    argv[argc] = NULL;
    options_parse(argc, argv, ret_options);
    if (*words) {
        (void)snprintf(ret_options->error, sizeof ret_options->error, "too many flags");
    }
}

/* Reports a mistake in the server's flags. 0 or an exit code. */
static int check_flags(char **words, struct options *ret_options)
{
    struct box_python python = {};
    parse_flags(words, ret_options);
    if (ret_options->error[0]) {
        return usage(ret_options->error, "");
    }
    if (*words && ret_options->spec.python) {
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
        {"install", no_argument, &config->install, 1},
        {"uninstall", no_argument, &config->uninstall, 1},
        {"in-memory", no_argument, &config->in_memory, 1},
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
            config->client = bridge_client_find(optarg);
            if (!config->client) {
                return usage("--host takes " BRIDGE_CLIENT_NAMES ", not ", optarg);
            }
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
        if (bridge_client_find(word)) {
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
        return usage("--file needs --host; it takes " BRIDGE_CLIENT_NAMES, "");
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
static int add_workspace(struct config *config, struct with_workspace *with,
                         struct options *options)
{
    static char workspace[] = "--workspace";
    const char *home = getenv("HOME");
    size_t count = 0;
    if (config->in_memory || options->spec.workspace || !home || home[0] != '/') {
        return 0;
    }
    int size = snprintf(with->path, sizeof with->path, "%s/Sandpiper", home);
    const char *why = (size_t)size < sizeof with->path ? NULL : strerror(ENAMETOOLONG);
    with->made = !why && mkdir(with->path, 0700) == 0;
    why = why || with->made || errno == EEXIST ? why : strerror(errno);
    with->flags[count++] = workspace;
    with->flags[count++] = with->path;
    for (char **flag = config->flags; *flag && count + 2 < sizeof with->flags / sizeof(char *);
         flag++) {
        with->flags[count++] = *flag;
    }
    with->flags[count] = NULL;
    if (!why) {
        parse_flags(with->flags, options);
        why = options->error[0] ? options->error : NULL;
    }
    if (why == options->error && strncmp(why, workspace, strlen(workspace)) != 0) {
        if (with->made) {
            (void)rmdir(with->path);
        }
        return usage(why, "");
    }
    if (why) {
        terminal_say("config: files stay in memory, %s cannot be the workspace: %s", with->path,
                     why);
        parse_flags(config->flags, options);
        with->path[0] = '\0';
    }
    return 0;
}

/* Appends the directory of the client's file. 0 or -errno. */
static int find_directory(const struct bridge_client *client, struct buf *out,
                          struct fail *ret_fail)
{
    static const char config_directory[] = ".config/";
    const char *own = client->directory_variable ? getenv(client->directory_variable) : NULL;
    const char *xdg = getenv("XDG_CONFIG_HOME"); /* a relative one counts as unset, XDG spec */
    const char *home = getenv("HOME");
    bool in_config = strncmp(client->directory, config_directory, strlen(config_directory)) == 0;
    if (own && own[0] == '/') {
        return buf_append_text(out, own);
    }
    if (in_config && xdg && xdg[0] == '/') {
        return buf_appendf(out, "%s/%s", xdg, client->directory + strlen(config_directory));
    }
    if (home && home[0] == '/') {
        return buf_appendf(out, "%s%s%s", home, client->directory[0] ? "/" : "", client->directory);
    }
    (void)fail_set(ret_fail, 0, "HOME is not set: name the file with --file");
    return -ENOENT;
}

/* Appends the file's path. 0 or -errno. */
static int find_file(const struct config *config, struct buf *out, struct fail *ret_fail)
{
    const char *const names[] = {config->client->file, config->client->other_file};
    if (config->file) {
        return buf_append_text(out, config->file);
    }
    OWNED(buf_done) struct buf directory = BUF_EMPTY;
    int r = find_directory(config->client, &directory, ret_fail);
    for (unsigned i = 0; r == 0 && i < 2 && names[i]; i++) {
        OWNED(buf_done) struct buf path = BUF_EMPTY;
        r = buf_append(&path, buf_bytes(&directory), buf_size(&directory));
        r = r ? r : buf_appendf(&path, "/%s", names[i]);
        bool exists = r == 0 && access(buf_text(&path), F_OK) == 0;
        if (r == 0 && (i == 0 || exists)) {
            buf_clear(out, buf_size(&path));
            r = buf_append(out, buf_bytes(&path), buf_size(&path));
        }
        if (exists) {
            break;
        }
    }
    return r;
}

/* New: value from any directory: a client starts the server in another one than this. NULL: it
 * cannot be made, or is not UTF-8. */
static json_t *make_argument(const struct flag *flag, const char *value)
{
    char here[PATH_MAX];
    bool searched = strcmp(flag->name, "python") == 0 && !strchr(value, '/'); /* in PATH */
    if (!flag->is_path || value[0] == '/' || value[0] == '~' || searched) {
        return json_string(value);
    }
    while (strncmp(value, "./", 2) == 0) {
        value += 2;
    }
    bool is_here = strcmp(value, ".") == 0 || !*value;
    return getcwd(here, sizeof here)
               ? json_sprintf("%s%s%s", here, is_here ? "" : "/", is_here ? "" : value)
               : NULL;
}

/* Appends the flags of the command line. False with the reason in ret_fail. */
static bool append_flags(const struct options *options, json_t *args, struct fail *ret_fail)
{
    for (unsigned i = 0; i < options->setting_count; i++) {
        const struct options_setting *setting = &options->settings[i];
        const struct flag *flag = setting->flag;
        if (setting->line > 0 || setting->from_variable) {
            continue;
        }
        if (json_array_append_new(args, json_sprintf("--%s", flag->name)) < 0 ||
            (flag->value && json_array_append_new(args, make_argument(flag, setting->value)) < 0)) {
            (void)fail_set(ret_fail, 0, "\"%.100s\" is not UTF-8", setting->value);
            return false;
        }
    }
    return true;
}

/* New: the entry for this program with those flags. NULL with the reason in ret_fail. */
static json_t *make_entry(const struct config *config, const struct options *options,
                          struct fail *ret_fail)
{
    char program[PATH_MAX];
    json_auto_t *args = json_array();
    ssize_t size = readlink("/proc/self/exe", program, sizeof program - 1);
    if (size < 0) {
        (void)fail_set(ret_fail, errno, "/proc/self/exe");
        return NULL;
    }
    program[size] = '\0';
    if (!append_flags(options, args, ret_fail)) {
        return NULL;
    }
    json_t *entry =
        bridge_client_entry(config->client, program, args, options->server.max_timeout_ms);
    if (!entry) {
        (void)fail_set(ret_fail, 0, "the path of this program, %.200s, is not UTF-8", program);
    }
    return entry;
}

static int print_entry(const struct config *config, const json_t *entry)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    struct bridge_server server = {config->name, entry};
    int r = bridge_client_edit(config->client, &server, NULL, 0, &text, NULL);
    return r >= 0 && fwrite(buf_bytes(&text), 1, buf_size(&text), stdout) == buf_size(&text) &&
                   fflush(stdout) == 0
               ? 0
               : EXIT_REFUSED;
}

/* Puts the entry into the file at path, or takes it out (NULL), and prints what it did. spec: of
 * the server in the entry; its code must not be able to choose what the client starts. 0 or -errno.
 */
static int edit_file(const struct config *config, struct box_spec *spec, const json_t *entry,
                     const char *path, struct fail *ret_fail)
{
    static const char *const did[] = {[BRIDGE_EDIT_ADDED] = "added",
                                      [BRIDGE_EDIT_REPLACED] = "replaced",
                                      [BRIDGE_EDIT_REMOVED] = "removed"};
    OWNED(replace_done) struct replace file = REPLACE_NONE;
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    struct fail why = {};
    const struct box_trusted target = {"the client's configuration file", path,
                                       "name another file with --file", .is_tree = false};
    int r = box_trust_check(spec, &target, 1, ret_fail);
    r = r ? r : replace_read(&file, path, ret_fail);
    if (r < 0) {
        return r;
    }
    struct bridge_server server = {config->name, entry};
    int edit = bridge_client_edit(config->client, &server, buf_bytes(&file.text),
                                  buf_size(&file.text), &text, &why);
    if (edit < 0) {
        (void)fail_set(ret_fail, 0, "%s is unchanged: %s", file.path, why.text);
        return edit;
    }
    if (edit == BRIDGE_EDIT_SAME) {
        (void)printf("%s: %s %s%s%s\n", config->client->name, file.path,
                     entry ? "already has this entry" : "has no such entry: \"",
                     entry ? "" : config->name,
                     entry ? "" : "\"; --name NAME removes one of another name");
        return 0;
    }
    r = replace_write(&file, buf_bytes(&text), buf_size(&text), ret_fail);
    if (r == 0) {
        (void)buf_appendf(config->changed, "%s%s", buf_size(config->changed) > 0 ? ", " : "",
                          config->client->name);
        (void)printf("%s: %s \"%s\" %s %s\n", config->client->name, did[edit], config->name,
                     entry ? "in" : "from", file.path);
        if (*file.backup) {
            (void)printf("  the original file is kept as %s\n", file.backup);
        }
    }
    return r;
}

/* Prints the entry of config's client, or puts it into the client's file. 0 or -errno. */
static int serve_client(const struct config *config, struct options *options)
{
    struct fail fail = {.text = "out of memory"};
    OWNED(buf_done) struct buf path = BUF_EMPTY;
    json_auto_t *entry = make_entry(config, options, &fail);
    int r = entry ? find_file(config, &path, &fail) : -EINVAL;
    if (entry && !config->install) {
        bool is_lost = !options->spec.workspace && !config->in_memory;
        (void)fprintf(stderr, "For %s%s:\n", r == 0 ? buf_text(&path) : config->client->file,
                      is_lost ? ", without a workspace (--install adds ~/Sandpiper; or append -- "
                                "--workspace DIR)"
                              : "");
        return print_entry(config, entry);
    }
    r = r ? r : edit_file(config, &options->spec, entry, buf_text(&path), &fail);
    if (r < 0) {
        terminal_say("config: %s", fail_text(&fail));
    }
    if (r < 0 && entry) {
        (void)fprintf(stderr, "The entry to %s by hand:\n",
                      r == -EEXIST ? "put in its place" : "add");
        (void)print_entry(config, entry);
    }
    return r;
}

/* Takes the entry out of the file of config's client, if there is one. 0 or -errno. */
static int leave_client(const struct config *config, struct options *options)
{
    struct fail fail = {};
    OWNED(buf_done) struct buf path = BUF_EMPTY;
    int r = find_file(config, &path, &fail);
    if (r == 0 && access(buf_text(&path), F_OK) == 0) {
        r = edit_file(config, &options->spec, NULL, buf_text(&path), &fail);
    } else if (r == 0) {
        (void)printf("%s: there is no %s\n", config->client->name, buf_text(&path));
    }
    if (r < 0) {
        terminal_say("config: %s", fail_text(&fail));
    }
    return r;
}

/* Whether the user has config's client: it has left its file, or its directory, here. */
static bool is_found(const struct config *config)
{
    OWNED(buf_done) struct buf path = BUF_EMPTY;
    struct fail fail = {};
    if (find_file(config, &path, &fail) < 0 || *buf_text(&path) == '\0') {
        return false;
    }
    bool is_file = access(path.data, F_OK) == 0;
    return is_file || (config->client->directory[0] && access(dirname(path.data), F_OK) == 0);
}

static void print_next(const struct config *config, struct with_workspace *with, unsigned done)
{
    if (config->install && done == 0 && with->made) {
        (void)rmdir(with->path);
    } else if (config->install && done > 0 && with->path[0]) {
        (void)printf("files are kept in %s (--in-memory keeps none)\n", with->path);
    }
    if (config->install && buf_size(config->changed) > 0) {
        (void)printf(
            "Next: restart %s, where it is the server \"%s\", then ask: \"run print(1) in "
            "Python\"\n",
            buf_text(config->changed), config->name);
    }
}

int command_config(const struct options *options)
{
    static struct options server;
    static struct with_workspace with_workspace;
    OWNED(buf_done) struct buf changed = BUF_EMPTY;
    struct config config = {.changed = &changed};
    unsigned found = 0;
    unsigned done = 0;
    int code = parse(options->argc, options->argv, &config);
    if (code == 0 && config.help) {
        return options_print_help("config", config.is_help_short);
    }
    code = code ? code : check_flags(config.flags, &server);
    if (code) {
        return code;
    }
    code = config.install ? add_workspace(&config, &with_workspace, &server) : 0;
    if (code) {
        return code;
    }
    struct config one = config;
    for (size_t i = 0; i < bridge_client_count; i++) {
        one.client = &bridge_clients[i];
        if (config.client ? config.client == one.client : is_found(&one)) {
            found++;
            done += (config.uninstall ? leave_client : serve_client)(&one, &server) == 0;
        }
    }
    print_next(&config, &with_workspace, done);
    if (found == 0) {
        return usage("no client was found; name it with --host: " BRIDGE_CLIENT_NAMES, "");
    }
    return done == found ? 0 : EXIT_REFUSED;
}
