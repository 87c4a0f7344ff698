/* sandpiper config: the entry that a host's configuration needs to start this very program; printed,
 * or put into the host's file. It has flags of its own, and hands those behind "--" to the server. */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "bridge/hosts.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/replace.h"
#include "cli/terminal.h"

enum { EXIT_REFUSED = 1, EXIT_USAGE = 2, NAME_MOST = 64 };

struct config {
    const struct bridge_host *host;
    const char *file; /* --file, or NULL: the host's own */
    const char *name;
    bool install;
    char **flags; /* the server's, closed by NULL */
};

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

/* What the server would say of these flags, and how long its calls may take. 0 or an exit code. */
static int check_flags(char **flags, struct options *ret_options)
{
    char *argv[_POSIX_ARG_MAX / sizeof(char *)];
    int argc = 0;
    argv[argc++] = (char[]){"sandpiper"};
    for (; *flags; flags++) {
        if ((size_t)argc + 1 >= sizeof argv / sizeof *argv) {
            return usage("too many flags", "");
        }
        argv[argc++] = *flags;
    }
    argv[argc] = NULL;
    options_parse(argc, argv, ret_options);
    if (ret_options->trouble[0]) {
        return usage(ret_options->trouble, "");
    }
    return ret_options->command == COMMAND_SERVE
               ? 0
               : usage("behind -- belong flags of the server, not ", argv[1]);
}

static int parse(int argc, char **argv, struct config *config)
{
    static const struct option long_options[] = {
        {"host", required_argument, NULL, 'h'},
        {"file", required_argument, NULL, 'f'},
        {"name", required_argument, NULL, 'n'},
        {"install", no_argument, NULL, 'i'},
        {NULL, 0, NULL, 0},
    };
    config->name = "sandbox";
    opterr = 0;
    optind = 0; /* getopt(3): begin anew */
    for (;;) {
        int option = getopt_long(argc, argv, "+:", long_options, NULL);
        if (option == 'h') {
            config->host = bridge_host_find(optarg);
            if (!config->host) {
                return usage("--host takes " BRIDGE_HOST_NAMES ", not ", optarg);
            }
        } else if (option == 'f') {
            config->file = optarg;
        } else if (option == 'n') {
            config->name = optarg;
        } else if (option == 'i') {
            config->install = true;
        } else if (option == ':') {
            return usage("a value is missing after ", argv[optind - 1]);
        } else if (option == '?') {
            return usage("flags of the server come behind \"--\"; unknown is ", argv[optind - 1]);
        } else {
            break;
        }
    }
    if (optind < argc && strcmp(argv[optind - 1], "--") != 0) {
        return usage("flags of the server come behind \"--\"; unknown is ", argv[optind]);
    }
    config->flags = argv + optind;
    if (!config->host) {
        return usage("--host is missing: " BRIDGE_HOST_NAMES, "");
    }
    return is_name(config->name)
               ? 0
               : usage("--name takes letters, digits, _ and -, not ", config->name);
}

/* Appends the folder of the host's file. 0 or -errno. */
static int find_folder(const struct bridge_host *host, struct buf *out, struct fail *ret_fail)
{
    static const char config_folder[] = ".config/";
    const char *own = host->folder_variable ? getenv(host->folder_variable) : NULL;
    const char *xdg = getenv("XDG_CONFIG_HOME"); /* relative ones count as not set, XDG spec */
    const char *home = getenv("HOME");
    bool in_config = strncmp(host->folder, config_folder, strlen(config_folder)) == 0;
    if (own && own[0] == '/') {
        return buf_append_text(out, own);
    }
    if (in_config && xdg && xdg[0] == '/') {
        return buf_appendf(out, "%s/%s", xdg, host->folder + strlen(config_folder));
    }
    if (home && home[0] == '/') {
        return buf_appendf(out, "%s%s%s", home, host->folder[0] ? "/" : "", host->folder);
    }
    (void)fail_set(ret_fail, 0, "HOME is not set: name the file with --file");
    return -ENOENT;
}

/* Appends the file's path and a NUL. 0 or -errno. */
static int find_file(const struct config *config, struct buf *out, struct fail *ret_fail)
{
    const char *const names[] = {config->host->file, config->host->other_file};
    if (config->file) {
        return buf_append(out, config->file, strlen(config->file) + 1);
    }
    OWNED(buf_done) struct buf folder = BUF_EMPTY;
    int r = find_folder(config->host, &folder, ret_fail);
    for (unsigned i = 0; r == 0 && i < 2 && names[i]; i++) {
        OWNED(buf_done) struct buf path = BUF_EMPTY;
        r = buf_append(&path, buf_bytes(&folder), buf_size(&folder));
        r = r ? r : buf_appendf(&path, "/%s", names[i]);
        r = r ? r : buf_append(&path, "", 1);
        bool exists = r == 0 && access(buf_bytes(&path), F_OK) == 0;
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

/* New: the entry for this program with those flags. NULL with why in ret_fail. */
static json_t *make_entry(const struct config *config, uint64_t call_ms, struct fail *ret_fail)
{
    char program[PATH_MAX];
    json_auto_t *args = json_array();
    ssize_t size = readlink("/proc/self/exe", program, sizeof program - 1);
    if (size < 0) {
        (void)fail_set(ret_fail, errno, "/proc/self/exe");
        return NULL;
    }
    program[size] = '\0';
    for (char **flag = config->flags; *flag; flag++) {
        if (json_array_append_new(args, json_string(*flag)) < 0) {
            (void)fail_set(ret_fail, 0, "\"%.100s\" is not UTF-8", *flag);
            return NULL;
        }
    }
    json_t *entry = bridge_host_entry(config->host, program, args, call_ms);
    if (!entry) {
        (void)fail_set(ret_fail, 0, "the path of this program, %.200s, is not UTF-8", program);
    }
    return entry;
}

static int print_entry(const struct config *config, const json_t *entry)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    struct bridge_server server = {config->name, entry};
    int r = bridge_host_edit(config->host, &server, NULL, 0, &text, NULL);
    return r >= 0 && fwrite(buf_bytes(&text), 1, buf_size(&text), stdout) == buf_size(&text) &&
                   fflush(stdout) == 0
               ? 0
               : EXIT_REFUSED;
}

/* Puts the entry into the file at path and says what was done. spec: of the server in the entry, whose code must
 * not choose what the host starts. 0 or -errno. */
static int install(const struct config *config, struct box_spec *spec, const json_t *entry,
                   const char *path, struct fail *ret_fail)
{
    OWNED(replace_done) struct replace file = {};
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    struct fail why = {};
    const struct box_trusted target = {"the host's configuration", path,
                                       "name another file with --file", .is_tree = false};
    int r = box_trust_check(spec, &target, 1, ret_fail);
    r = r ? r : replace_read(&file, path, ret_fail);
    if (r < 0) {
        return r;
    }
    struct bridge_server server = {config->name, entry};
    int edit = bridge_host_edit(config->host, &server, buf_bytes(&file.text), buf_size(&file.text),
                                &text, &why);
    if (edit < 0) {
        (void)fail_set(ret_fail, 0, "%s is left as it is: %s", file.path, why.text);
        return edit;
    }
    if (edit == BRIDGE_EDIT_SAME) {
        (void)printf("%s has this entry already\n", file.path);
        return 0;
    }
    r = replace_write(&file, buf_bytes(&text), buf_size(&text), ret_fail);
    if (r == 0) {
        (void)printf("%s \"%s\" in %s\n", edit == BRIDGE_EDIT_ADDED ? "added" : "replaced",
                     config->name, file.path);
        if (file.backup) {
            (void)printf("the file as it was is %s\n", file.backup);
        }
    }
    return r;
}

int command_config(int argc, char **argv)
{
    static struct options options;
    struct config config = {};
    struct fail fail = {.text = "out of memory"};
    char sentence[FAIL_TEXT + 128];
    int code = parse(argc, argv, &config);
    code = code ? code : check_flags(config.flags, &options);
    if (code) {
        return code;
    }
    json_auto_t *entry = make_entry(&config, options.max_timeout_ms, &fail);
    OWNED(buf_done) struct buf path = BUF_EMPTY;
    int r = entry ? find_file(&config, &path, &fail) : -EINVAL;
    if (entry && !config.install) {
        (void)fprintf(stderr, "For %s:\n", r == 0 ? buf_bytes(&path) : config.host->file);
        return print_entry(&config, entry);
    }
    if (r == 0 && install(&config, &options.spec, entry, buf_bytes(&path), &fail) == 0) {
        return 0;
    }
    terminal_say("config: %s", fail_describe(&fail, sentence, sizeof sentence));
    if (entry) {
        (void)fprintf(stderr, "The entry to put there by hand:\n");
        (void)print_entry(&config, entry);
    }
    return EXIT_REFUSED;
}
