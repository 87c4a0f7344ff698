#include "cli/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/parse.h"

const char options_help[] =
    "Usage: sandpiper [OPTIONS]                 serve tools over stdin and stdout (MCP)\n"
    "       sandpiper run [OPTIONS] FILE|-c CODE  run code once in a sandbox\n"
    "       sandpiper doctor [OPTIONS]          show what the sandbox can enforce here\n"
    "       sandpiper schema [OPTIONS]          print the tools as a host gets them\n"
    "       sandpiper call [OPTIONS] TOOL [JSON]  one tool call in a sandbox of its own\n"
    "\n"
    "Options:\n"
    "  --memory SIZE       memory of the sandbox (1G)\n"
    "  --cpus N            processors that it may use at once, such as 1.5 (all)\n"
    "  --pids N            processes and threads (256)\n"
    "  --disk SIZE         workspace and /tmp together (1G)\n"
    "  --timeout S         seconds a call may take that names no time (30)\n"
    "  --max-timeout S     seconds a call may ask for (600)\n"
    "  --workspace DIR     host folder that becomes /work (none: kept in memory)\n"
    "  --python PATH       interpreter, CPython 3.9 or newer (active virtual\n"
    "                      environment, else python3)\n"
    "  --preload MODULES   modules to import before the first call, comma-separated\n"
    "  --resources         let the host list and read the workspace's files by itself\n"
    "  --structured        answer with structuredContent, for hosts that read it\n"
    "  --require LAYERS    refuse to run code unless these are on, comma-separated:\n"
    "                      landlock, memory, pids, cpu, disk\n"
    "  --allow-degraded LAYERS\n"
    "                      run code though these are off that would be refused\n"
    "  --stdin             run: hand on standard input to the code\n"
    "  --format FORM       schema, call: mcp (default), openai-chat, openai-responses,\n"
    "                      anthropic or gemini\n"
    "  --strict            schema: for the vendor's strict mode\n"
    "  --id ID             call: id of the model's call, for the result\n"
    "  --plan              doctor: print the steps to a sandbox\n"
    "  --json              doctor: print JSON\n"
    "  -h, --help          print this\n"
    "  -V, --version       print the version\n"
    "\n"
    "Environment: SANDPIPER_LOG=LEVEL[,ROOM=LEVEL...] with error, warn, info, debug, trace.\n";

enum option_number {
    OPTION_MEMORY = 256,
    OPTION_CPUS,
    OPTION_PIDS,
    OPTION_DISK,
    OPTION_TIMEOUT,
    OPTION_MAX_TIMEOUT,
    OPTION_WORKSPACE,
    OPTION_PYTHON,
    OPTION_PRELOAD,
    OPTION_RESOURCES,
    OPTION_STRUCTURED,
    OPTION_REQUIRE,
    OPTION_ALLOW_DEGRADED,
    OPTION_STDIN,
    OPTION_FORMAT,
    OPTION_STRICT,
    OPTION_ID,
    OPTION_PLAN,
    OPTION_JSON,
};

static const struct option long_options[] = {
    {"memory", required_argument, NULL, OPTION_MEMORY},
    {"cpus", required_argument, NULL, OPTION_CPUS},
    {"pids", required_argument, NULL, OPTION_PIDS},
    {"disk", required_argument, NULL, OPTION_DISK},
    {"timeout", required_argument, NULL, OPTION_TIMEOUT},
    {"max-timeout", required_argument, NULL, OPTION_MAX_TIMEOUT},
    {"workspace", required_argument, NULL, OPTION_WORKSPACE},
    {"python", required_argument, NULL, OPTION_PYTHON},
    {"preload", required_argument, NULL, OPTION_PRELOAD},
    {"resources", no_argument, NULL, OPTION_RESOURCES},
    {"structured", no_argument, NULL, OPTION_STRUCTURED},
    {"require", required_argument, NULL, OPTION_REQUIRE},
    {"allow-degraded", required_argument, NULL, OPTION_ALLOW_DEGRADED},
    {"stdin", no_argument, NULL, OPTION_STDIN},
    {"format", required_argument, NULL, OPTION_FORMAT},
    {"strict", no_argument, NULL, OPTION_STRICT},
    {"id", required_argument, NULL, OPTION_ID},
    {"plan", no_argument, NULL, OPTION_PLAN},
    {"json", no_argument, NULL, OPTION_JSON},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

/* The first mistake is the one that is told. */
__attribute__((format(printf, 2, 3))) static void trouble(struct options *options, const char *fmt,
                                                          ...)
{
    if (!options->trouble[0]) {
        va_list args;
        va_start(args, fmt);
        (void)vsnprintf(options->trouble, sizeof options->trouble, fmt, args);
        va_end(args);
    }
}

static void take_size(struct options *options, const char *flag, const char *text, uint64_t least,
                      uint64_t *ret_bytes)
{
    uint64_t bytes = 0;
    if (parse_size(text, &bytes) < 0) {
        trouble(options, "%s takes a size such as 512M or 2G, not \"%.64s\"", flag, text);
    } else if (bytes < least) {
        trouble(options, "%s must be at least %lluM, not \"%.64s\"", flag,
                (unsigned long long)(least >> 20), text);
    } else {
        *ret_bytes = bytes;
    }
}

static void take_seconds(struct options *options, const char *flag, const char *text,
                         uint64_t *ret_ms)
{
    uint64_t ms = 0;
    if (parse_seconds(text, &ms) < 0 || ms == 0 || ms > LIMIT_TIMEOUT_MS) {
        trouble(options, "%s takes seconds between 0.001 and %u, not \"%.64s\"", flag,
                LIMIT_TIMEOUT_MS / 1000, text);
    } else {
        *ret_ms = ms;
    }
}

static void take_pids(struct options *options, const char *text)
{
    uint64_t pids = 0;
    if (parse_u64(text, &pids) < 0 || pids < LIMIT_PIDS_LEAST || pids > LIMIT_PIDS_MOST) {
        trouble(options, "--pids takes a number between %u and %u, not \"%.64s\"", LIMIT_PIDS_LEAST,
                LIMIT_PIDS_MOST, text);
    } else {
        options->spec.limits.pids = (uint32_t)pids;
    }
}

static void take_cpus(struct options *options, const char *text)
{
    uint64_t milli = 0;
    if (parse_milli(text, &milli) < 0 || milli < 10 || milli > 1024000) {
        trouble(options, "--cpus takes a number between 0.01 and 1024, not \"%.64s\"", text);
    } else {
        options->spec.limits.cpu_milli = (uint32_t)milli;
    }
}

/* Layers by name. The mandatory ones may be named with --require, where they change nothing. */
static void take_layers(struct options *options, const char *flag, const char *text,
                        uint32_t *ret_layers)
{
    static const char valid[] = "landlock, memory, pids, cpu and disk";
    while (*text) {
        size_t size = strcspn(text, ",");
        enum box_layer layer = box_layer_find(text, size);
        if (layer == BOX_LAYER_COUNT) {
            trouble(options, "%s takes layers of the sandbox (%s), not \"%.*s\"", flag, valid,
                    size < 64 ? (int)size : 64, text);
        } else if (box_layer_is_mandatory(layer) && ret_layers != &options->spec.require) {
            trouble(options, "%s: no code runs without %s; what can be allowed is %s", flag,
                    box_layer_name(layer), valid);
        } else {
            *ret_layers |= 1U << layer;
        }
        text += size;
        text += *text == ',';
    }
}

static void take_option(struct options *options, int option, const char *value)
{
    switch (option) {
    case OPTION_MEMORY:
        take_size(options, "--memory", value, LIMIT_MEMORY_LEAST_BYTES,
                  &options->spec.limits.memory_bytes);
        break;
    case OPTION_CPUS:
        take_cpus(options, value);
        break;
    case OPTION_PIDS:
        take_pids(options, value);
        break;
    case OPTION_DISK:
        take_size(options, "--disk", value, LIMIT_DISK_LEAST_BYTES,
                  &options->spec.limits.disk_bytes);
        break;
    case OPTION_TIMEOUT:
        take_seconds(options, "--timeout", value, &options->timeout_ms);
        break;
    case OPTION_MAX_TIMEOUT:
        take_seconds(options, "--max-timeout", value, &options->max_timeout_ms);
        break;
    case OPTION_WORKSPACE:
        options->spec.workspace = value;
        break;
    case OPTION_PYTHON:
        options->spec.python = value;
        break;
    case OPTION_PRELOAD:
        options->spec.preload = value;
        break;
    case OPTION_RESOURCES:
        options->resources = true;
        break;
    case OPTION_STRUCTURED:
        options->structured = true;
        options->spec.separate_streams = true;
        break;
    case OPTION_REQUIRE:
        take_layers(options, "--require", value, &options->spec.require);
        break;
    case OPTION_ALLOW_DEGRADED:
        take_layers(options, "--allow-degraded", value, &options->spec.allow_degraded);
        break;
    case OPTION_STDIN:
        options->hand_on_stdin = true;
        break;
    case OPTION_FORMAT:
        options->format = bridge_format_find(value);
        if (options->format == BRIDGE_FORMAT_COUNT) {
            options->format = BRIDGE_MCP;
            trouble(options, "--format takes " BRIDGE_FORMAT_NAMES ", not \"%.64s\"", value);
        }
        break;
    case OPTION_STRICT:
        options->strict = true;
        break;
    case OPTION_ID:
        options->call_id = value;
        break;
    case OPTION_PLAN:
        options->plan = true;
        break;
    case OPTION_JSON:
        options->json = true;
        break;
    case 'c':
        options->code = value;
        break;
    case 'h':
        options->command = COMMAND_HELP;
        break;
    case 'V':
        options->command = COMMAND_VERSION;
        break;
    default:
        break;
    }
}

static enum command take_command(int *argc, char ***argv)
{
    static const struct {
        const char *name;
        enum command command;
    } commands[] = {
        {"run", COMMAND_RUN},   {"doctor", COMMAND_DOCTOR},   {"schema", COMMAND_SCHEMA},
        {"call", COMMAND_CALL}, {"serve", COMMAND_SERVE},     {"mcp", COMMAND_SERVE},
        {"help", COMMAND_HELP}, {"version", COMMAND_VERSION},
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
        trouble(options, "--timeout is larger than --max-timeout");
    }
}

static void settle_layers(struct options *options)
{
    uint32_t both = options->spec.require & options->spec.allow_degraded;
    for (unsigned i = 0; i < BOX_LAYER_COUNT; i++) {
        if (both & 1U << i) {
            trouble(options, "%s is both in --require and in --allow-degraded",
                    box_layer_name((enum box_layer)i));
        }
    }
}

void options_parse(int argc, char **argv, struct options *ret_options)
{
    struct options *options = ret_options;
    *options = (struct options){.timeout_ms = DEFAULT_TIMEOUT_MS,
                                .max_timeout_ms = DEFAULT_MAX_TIMEOUT_MS};
    box_spec_init(&options->spec);
    options->command = take_command(&argc, &argv);
    opterr = 0;
    /* '+': what follows FILE belongs to it. ':': a missing value is told apart. */
    const char *shorts = options->command == COMMAND_RUN ? "+:c:hV" : ":hV";
    for (;;) {
        int option = getopt_long(argc, argv, shorts, long_options, NULL);
        if (option < 0) {
            break;
        }
        if (option == '?') {
            trouble(options, "unknown option %.64s; sandpiper --help lists them", argv[optind - 1]);
        } else if (option == ':') {
            trouble(options, "%.64s needs a value", argv[optind - 1]);
        } else {
            take_option(options, option, optarg);
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
        trouble(options,
                "unknown argument \"%.64s\" (a command comes first); sandpiper --help shows the "
                "usage",
                argv[optind]);
    }
    if (options->command == COMMAND_RUN && !options->code && !options->file) {
        trouble(options, "run needs a FILE or -c CODE");
    }
    if (options->command == COMMAND_CALL && !options->tool) {
        trouble(options, "call needs the name of a TOOL and its arguments as JSON");
    }
    settle_timeouts(options);
    settle_layers(options);
}
