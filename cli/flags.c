#include "cli/flags.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/limits.h"
#include "base/parse.h"

enum { IDLE_EXIT_MOST_MS = 7 * 24 * 3600 * 1000 };

#define FIELD(member) offsetof(struct options, member)

static void take_text(struct options *options, const struct flag *flag, const char *value)
{
    *(const char **)field_of(options, flag) = value;
}

static void take_switch(struct options *options, const struct flag *flag, const char *)
{
    *(bool *)field_of(options, flag) = true;
}

static void take_size(struct options *options, const struct flag *flag, const char *value)
{
    uint64_t bytes = 0;
    if (parse_size(value, &bytes) < 0) {
        options_error(options, "--%s takes a size such as 512M or 2G, not \"%.64s\"", flag->name,
                      value);
    } else if (bytes < flag->bound) {
        options_error(options, "--%s must be at least %lluM, not \"%.64s\"", flag->name,
                      (unsigned long long)(flag->bound >> 20), value);
    } else {
        *(uint64_t *)field_of(options, flag) = bytes;
    }
}

static void take_memory(struct options *options, const struct flag *flag, const char *value)
{
    options->memory_given = strcmp(value, "auto") != 0;
    if (options->memory_given) {
        take_size(options, flag, value);
    }
}

static void take_seconds(struct options *options, const struct flag *flag, const char *value)
{
    uint64_t ms = 0;
    if (parse_seconds(value, &ms) < 0 || ms == 0 || ms > flag->bound) {
        options_error(options, "--%s takes seconds between 0.001 and %llu, not \"%.64s\"",
                      flag->name, (unsigned long long)(flag->bound / 1000), value);
    } else {
        *(uint64_t *)field_of(options, flag) = ms;
    }
}

static void take_wait(struct options *options, const struct flag *flag, const char *value)
{
    if (strcmp(value, "off") == 0) {
        options->server.wait_ms = 0;
    } else {
        take_seconds(options, flag, value);
    }
}

/* Reports a value that is no number from least to bound. */
static bool is_number(struct options *options, const struct flag *flag, const char *value,
                      uint64_t *ret_number)
{
    bool sound = parse_u64(value, ret_number) == 0 && *ret_number >= flag->least &&
                 *ret_number <= flag->bound;
    if (!sound) {
        options_error(options, "--%s takes a number between %llu and %llu, not \"%.64s\"",
                      flag->name, (unsigned long long)flag->least, (unsigned long long)flag->bound,
                      value);
    }
    return sound;
}

static void take_number(struct options *options, const struct flag *flag, const char *value)
{
    uint64_t number = 0;
    if (is_number(options, flag, value, &number)) {
        *(uint32_t *)field_of(options, flag) = (uint32_t)number;
    }
}

static void take_seed(struct options *options, const struct flag *flag, const char *value)
{
    uint64_t seed = 0;
    if (is_number(options, flag, value, &seed)) {
        options->spec.seed = value;
    }
}

static void take_cpus(struct options *options, const struct flag *flag, const char *value)
{
    uint64_t milli = 0;
    if (parse_milli(value, &milli) < 0 || milli < 10 || milli > 1024000) {
        options_error(options, "--%s takes a number between 0.01 and 1024, not \"%.64s\"",
                      flag->name, value);
    } else {
        options->spec.limits.cpu_milli = (uint32_t)milli;
    }
}

/* Protections by name. The mandatory ones may be named with --require, where they change
 * nothing. */
static void take_layers(struct options *options, const struct flag *flag, const char *value)
{
    static const char valid[] = "landlock, memory, pids, cpu and disk";
    while (*value) {
        size_t size = strcspn(value, ",");
        enum box_protection layer = box_protection_find(value, size);
        if (layer == BOX_PROTECTION_COUNT) {
            options_error(options, "--%s takes protections (%s), not \"%.*s\"", flag->name, valid,
                          size < 64 ? (int)size : 64, value);
        } else if (box_protection_is_mandatory(layer) && flag->field != FIELD(spec.require)) {
            options_error(options, "--%s: %s is mandatory; only %s can be allowed", flag->name,
                          box_protection_name(layer), valid);
        } else {
            *(uint32_t *)field_of(options, flag) |= 1U << layer;
        }
        value += size;
        value += *value == ',';
    }
}

/* Protected names of the workspace, separated by commas. */
static void take_protected(struct options *options, const struct flag *flag, const char *value)
{
    while (*value) {
        size_t size = strcspn(value, ",");
        uint64_t bits = box_protected_find(value, size);
        if (!bits) {
            options_error(options,
                          "--%s takes protected names (.git/config, .vscode, ...), hard-links or "
                          "all, not \"%.*s\"; the manual lists them",
                          flag->name, size < 64 ? (int)size : 64, value);
        }
        options->spec.allow_write |= bits;
        value += size;
        value += *value == ',';
    }
}

int flag_find_choice(const char *words, const char *value)
{
    for (int i = 0; *words; i++) {
        size_t size = strcspn(words, ", ");
        if (strlen(value) == size && strncmp(value, words, size) == 0) {
            return i;
        }
        words += size;
        words += strspn(words, ", ");
        words += strncmp(words, "or ", 3) == 0 ? 3 : 0;
    }
    return -1;
}

static void take_choice(struct options *options, const struct flag *flag, const char *value)
{
    int choice = flag_find_choice(flag->words, value);
    if (choice < 0) {
        options_error(options, "--%s takes %s, not \"%.64s\"", flag->name, flag->words, value);
    } else {
        *(unsigned *)field_of(options, flag) = (unsigned)choice; /* an enum */
    }
}

static void take_host(struct options *options, const struct flag *, const char *value)
{
    struct fail fail = {};
    options->spec.egress = &options->egress;
    if (strcmp(value, "ask") == 0) {
        options->egress.ask = true;
    } else if (egress_policy_add(&options->egress, value, &fail) < 0) {
        options_error(options, "%s", fail.text);
    }
}

static void take_structured(struct options *options, const struct flag *, const char *)
{
    options->server.structured = true;
    options->spec.separate_streams = true;
}

static void take_format(struct options *options, const struct flag *flag, const char *value)
{
    if (options->command == COMMAND_RECORD) {
        options->records.format = value; /* checked where it is used */
        return;
    }
    enum bridge_format format = bridge_format_find(value);
    if (format == BRIDGE_FORMAT_COUNT) {
        options_error(options, "--%s takes " BRIDGE_FORMAT_NAMES ", not \"%.64s\"", flag->name,
                      value);
    } else {
        options->format = format;
    }
}

static void take_mount(struct options *options, const struct flag *flag, const char *value)
{
    struct box_mounts_wanted *mounts = &options->mounts;
    if (mounts->count == BOX_MOUNTS) {
        options_error(options, "--%s can be given at most %d times", flag->name, BOX_MOUNTS);
    } else {
        mounts->at[mounts->count++] = value;
    }
}

/* find_config() reads --config before the others are taken. */
static void take_nothing(struct options *, const struct flag *, const char *)
{
}

const struct flag flags[] = {
    {"memory", "SIZE", "memory limit of the sandbox",
     "auto: a quarter of the machine's,\nfrom 1G to 8G", take_memory,
     FIELD(spec.limits.memory_bytes), LIMIT_MEMORY_LEAST_BYTES, .is_common = true},
    {"cpus", "N", "processor limit, such as 1.5", "all", take_cpus},
    {"pids", "N", "maximum number of processes and threads", "256", take_number,
     FIELD(spec.limits.pids), LIMIT_PIDS_MOST, .least = LIMIT_PIDS_LEAST},
    {"disk", "SIZE",
     "size of the workspace and /tmp together: files in memory,\nwhich count as memory too, so at "
     "most three quarters of it",
     "1G", take_size, FIELD(spec.limits.disk_bytes), LIMIT_DISK_LEAST_BYTES},
    {"timeout", "S", "default time limit of the code, in seconds", "300", take_seconds,
     FIELD(server.timeout_ms), LIMIT_TIMEOUT_MS, .is_common = true},
    {"max-timeout", "S", "longest time limit that a call may request, in seconds", "3600",
     take_seconds, FIELD(server.max_timeout_ms), LIMIT_TIMEOUT_MS},
    {"wait", "S|off",
     "return after S seconds; the code continues as a job; off: there\nare no jobs", "25",
     take_wait, FIELD(server.wait_ms), LIMIT_TIMEOUT_MS, .only_serves = true},
    {"jobs", "N", "how many jobs may run at once", "4", take_number, FIELD(server.jobs),
     LIMIT_SESSIONS - 1, .least = 1, .only_serves = true},
    {"idle-exit", "S", "exit after S idle seconds", "never", take_seconds, FIELD(idle_exit_ms),
     IDLE_EXIT_MOST_MS, .only_serves = true},
    {"workspace", "DIR", "host directory to use as /work", "none: in memory", take_text,
     FIELD(spec.workspace), .is_common = true, .is_path = true},
    {"cow", NULL,
     "copy on write: changes of the workspace stay in the sandbox\nuntil they are applied", NULL,
     take_switch, FIELD(spec.cow), .is_common = true},
    {"cow-store", "DIR", "with --cow: keep the changes here when the server exits",
     "none: in memory", take_text, FIELD(spec.cow_store), .is_path = true},
    {"undo-files", "SIZE", "memory for earlier states of files, which undo brings\nback; 0: none",
     "64M", take_size, FIELD(spec.undo_files_bytes)},
    {"allow-write", "NAMES",
     "let code write to these protected names in the workspace,\ncomma-separated: .git/config, "
     ".vscode, ..., hard-links or all",
     "none", take_protected, .many = true},
    {"mount", "DIR[:NAME][:rw]",
     "host directory to show at /data/NAME, read-only unless\n:rw is given; repeatable", "none",
     take_mount, FIELD(mounts), .many = true, .is_common = true, .is_path = true},
    {"mount-home", NULL,
     "allow --mount of the home directory; shows its\nsubdirectories, except hidden ones", NULL,
     take_switch, FIELD(mounts.home)},
    {"python", "PATH", "interpreter, CPython 3.9 or newer",
     "the active virtual\nenvironment, else the program's own, else python3", take_text,
     FIELD(spec.python), .is_common = true, .is_path = true},
    {"allow-host", "NAME[:PORT]|ask",
     "let code reach this remote host by HTTP and HTTPS, or\nask the user; repeatable", "none",
     take_host, .many = true, .is_common = true},
    {"proxy", "URL|off", "proxy that packages and allowed hosts are reached through",
     "HTTPS_PROXY,\nHTTP_PROXY and ALL_PROXY of the environment", proxy_take, .is_url = true},
    {"no-proxy", "LIST", "hosts to reach without it, comma-separated",
     "NO_PROXY of the\nenvironment", proxy_take_direct},
    {"ca-cert", "FILE",
     "certificates to trust beside the machine's (PEM), as of a proxy\nthat reads TLS; repeatable",
     NULL, ca_take, FIELD(ca), .many = true, .is_path = true},
    {"tools", "FILE",
     "let code call tools of other MCP servers, as this file grants\nthem (tools.json)", "none",
     take_text, FIELD(tools_path), .is_path = true},
    {"preload", "MODULES", "modules to import before the first call, comma-separated", NULL,
     take_text, FIELD(spec.preload)},
    {"seed", "N", "seed random and numpy's legacy generator with this number in\neach interpreter",
     "none", take_seed, .bound = UINT32_MAX /* numpy takes no more */},
    {"install", "MODE", "install_package: on, ask (for the user's approval) or off", "on",
     take_choice, FIELD(install.mode), .words = "on, ask or off"},
    {"index-url", "URL", "package index", "https://pypi.org/simple", install_take_url,
     FIELD(install.index_url), .is_url = true},
    {"extra-index-url", "URL", "additional package index", NULL, install_take_more_urls,
     FIELD(install.extra_index_urls), .many = true, .is_url = true},
    {"index-host", "NAME[:PORT]", "extra file host of the index", NULL, install_take_host,
     FIELD(install.index_hosts), .many = true},
    {"index-cert", "FILE", "certificates to trust for the index (PEM)", "the host's",
     install_take_file, FIELD(install.index_cert), .is_path = true},
    {"find-links", "DIR", "additional directory of wheels to install from", NULL, install_take_file,
     FIELD(install.find_links), .is_path = true},
    {"no-index", NULL, "install from --find-links only", NULL, take_switch,
     FIELD(install.no_index)},
    {"allow-package", "PATTERNS",
     "install only these packages, comma-separated, such as\nnumpy,scikit-*", "all",
     install_take_words, FIELD(install.allow), .many = true},
    {"deny-package", "PATTERNS", "never install these packages, comma-separated", NULL,
     install_take_words, FIELD(install.deny), .many = true},
    {"allow-sdist", NULL,
     "build packages without a wheel from source, in a sandbox\nwithout network", NULL, take_switch,
     FIELD(install.allow_sdist)},
    {"constraint", "FILE", "version constraints, in pip's format", NULL, install_take_file,
     FIELD(install.constraint), .is_path = true},
    {"preinstall", "REQUIREMENT", "package to install before the first call", NULL,
     install_take_requirement, FIELD(install.preinstall), .many = true, .is_common = true},
    {"auto-install", NULL, "install packages that a call imports and that are missing", NULL,
     take_switch, FIELD(install.auto_install)},
    {"package-disk", "SIZE", "size of all installed packages together", "4G", take_size,
     FIELD(spec.packages_bytes), LIMIT_DISK_LEAST_BYTES},
    {"cache", "DIR", "directory for downloads and installed packages", "~/.cache/sandpiper",
     take_text, FIELD(spec.cache), .is_path = true},
    {"record", "DIR", "record what the server does in a file in this directory", "none", take_text,
     FIELD(record.directory), .is_common = true, .only_serves = true, .is_path = true},
    {"record-size", "SIZE", "size of all records together; the oldest are removed", "256M",
     take_size, FIELD(record.bytes), LIMIT_RECORD_LEAST_BYTES, .only_serves = true},
    {"keep", "DIR", "keep sessions in this directory: their variables are back in the\nnext server",
     "none", take_text, FIELD(keep.directory), .is_common = true, .only_serves = true,
     .is_path = true},
    {"keep-size", "SIZE", "size of one kept session; of all together four times as much", "256M",
     take_size, FIELD(keep.bytes), LIMIT_KEEP_LEAST_BYTES, .only_serves = true},
    {"keep-days", "DAYS", "how long a session is kept that is not used", "30", take_number,
     FIELD(keep.days), 1, 3650, .only_serves = true},
    {"record-required", NULL, "run no code without a record", NULL, take_switch,
     FIELD(record.required), .only_serves = true},
    {"resources", NULL, "offer workspace files as MCP resources", NULL, take_switch,
     FIELD(server.resources), .only_serves = true},
    {"ui", "on|static|off",
     "show results to the user, in clients with MCP Apps; static:\nwithout scripts of the results",
     "on", take_choice, FIELD(server.ui), .words = "off, static or on", .only_serves = true},
    {"structured", NULL, "send structuredContent in results, for clients that read it", NULL,
     take_structured},
    {"isolation", "LEVEL", "isolation level: auto, full, container or best", "auto", take_choice,
     FIELD(spec.isolation), .words = "auto, full, container or best",
     .variable = "SANDPIPER_ISOLATION"},
    {"require", "PROTECTIONS",
     "refuse to run code unless these protections are on,\ncomma-separated: landlock, memory, "
     "pids, cpu, disk",
     NULL, take_layers, FIELD(spec.require), .many = true},
    {"allow-degraded", "PROTECTIONS", "run code even without these protections", NULL, take_layers,
     FIELD(spec.allow_degraded), .many = true},
    {"stdin", NULL, "pass stdin to the code", NULL, take_switch, FIELD(hand_on_stdin),
     .commands = "run"},
    {"format", "FORM",
     "mcp, openai-chat, openai-responses,\nanthropic or gemini (of a record ipynb, py, md, html)",
     "mcp", take_format, .commands = "schema, call, record"},
    {"session", "NAME", "only this session, of which export ipynb makes a\nnotebook", "default",
     take_text, FIELD(records.session), .commands = "record"},
    {"output", "FILE", "file for what export makes, or -o", "standard output", take_text,
     FIELD(records.output), .commands = "record"},
    {"force", NULL, "replace that file, or change what a server uses", NULL, take_switch,
     FIELD(records.force), .commands = "record, keep"},
    {"all", NULL, "drop every session", NULL, take_switch, FIELD(kept.all), .commands = "keep"},
    {"strict", NULL, "print definitions for the vendor's strict mode", NULL, take_switch,
     FIELD(strict), .commands = "schema"},
    {"id", "ID", "id of the model's call, copied into the result", NULL, take_text, FIELD(call.id),
     .commands = "call"},
    {"plan", NULL, "print the steps that set up a sandbox", NULL, take_switch, FIELD(doctor.plan),
     .commands = "doctor"},
    {"config", "FILE", "configuration file: one \"name = value\" a line, named like\nthe flags",
     "~/.config/sandpiper/config", take_nothing, .commands = "", .is_path = true},
    {"effective", NULL, "print each setting and its source", NULL, take_switch,
     FIELD(doctor.effective), .commands = "doctor"},
    {"json", NULL, "print JSON", NULL, take_switch, FIELD(doctor.json), .commands = "doctor"},
};
const unsigned flag_count = sizeof flags / sizeof *flags;
static_assert(sizeof flags / sizeof *flags <= OPTIONS_FLAGS);

const struct flag *flag_find(const char *name)
{
    for (unsigned i = 0; i < flag_count; i++) {
        if (strcmp(flags[i].name, name) == 0) {
            return &flags[i];
        }
    }
    return NULL;
}

const struct options_setting *flag_setting(const struct options *options, const struct flag *flag)
{
    for (unsigned i = options->setting_count; i-- > 0;) {
        if (options->settings[i].flag == flag) {
            return &options->settings[i];
        }
    }
    return NULL;
}

/* Where the code of a record, which may be anybody's, could reach the user's files and accounts:
 * `record replay` takes that from the command line only. */
static bool is_for_own_code(const struct flag *flag, const char *value)
{
    static const char *const names[] = {"workspace", "cow-store", "tools", NULL};
    size_t size = strlen(value);
    return parse_is_among(flag->name, names) ||
           (strcmp(flag->name, "mount") == 0 && size > 3 && strcmp(value + size - 3, ":rw") == 0);
}

bool flag_is_refused(const struct flag *flag, enum command command)
{
    return flag->only_serves && (command == COMMAND_RUN || command == COMMAND_CALL);
}

void flag_take(struct options *options, const struct flag *flag, const char *value)
{
    if (options->command == COMMAND_RECORD && options->config_line > 0 && flag->value &&
        is_for_own_code(flag, value)) {
        options->records.workspace =
            strcmp(flag->name, "workspace") == 0 ? value : options->records.workspace;
        return;
    }
    if (flag_is_refused(flag, options->command) && !options->config_line) {
        options_error(options, "--%s is an option of the server; %s has no use for it", flag->name,
                      options->help);
        return;
    }
    if (options->setting_count == OPTIONS_SETTINGS) {
        options_error(options, "more than %d settings", OPTIONS_SETTINGS);
        return;
    }
    options->settings[options->setting_count++] = (struct options_setting){
        flag, flag->value ? value : "", options->config_line, options->variable != NULL};
    flag->take(options, flag, value);
}
