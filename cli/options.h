#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "bridge/format.h"
#include "record/record.h"
#include "sandbox/sandbox.h"
#include "tools/install/install_request.h"
#include "tools/servers/grants.h"
#include "tools/session/session.h"
#include "tools/tools.h"

/* The command line. */

enum command {
    COMMAND_SERVE,
    COMMAND_UNKNOWN,
    COMMAND_RUN,
    COMMAND_DOCTOR,
    COMMAND_SCHEMA,
    COMMAND_CALL,
    COMMAND_CONFIG,
    COMMAND_RECORD,
    COMMAND_KEEP,
    COMMAND_HELP,
    COMMAND_VERSION
};

enum { OPTIONS_FLAGS = 64, OPTIONS_SETTINGS = 512 };

struct flag;

/* A flag that was given, and its source. */
struct options_setting {
    const struct flag *flag;
    const char *value; /* "" for a flag without a value */
    unsigned line;     /* of the configuration file; 0: the command line or a variable */
    bool from_variable;
};

struct options {
    struct tools_config server; /* without what it borrows: see options_tools_config() */
    uint64_t idle_exit_ms;      /* 0: never */
    const char *code;           /* run -c */
    const char *file;           /* run FILE; "-" is stdin */
    struct {
        const char *tool;
        const char *arguments; /* JSON; "-" is stdin, NULL: none */
        const char *id;        /* --id, or NULL */
    } call;
    struct {
        const char *action;  /* "show" */
        const char *file;    /* or directory; NULL: the newest record */
        const char *cell;    /* why: its number, or NULL */
        const char *format;  /* export: or NULL */
        const char *output;  /* export: NULL: stdout */
        const char *session; /* export: its name, or NULL */
        bool force;
        const char *workspace; /* of the configuration, which no record gets; or NULL */
    } records;
    struct {
        const char *action;    /* "list" */
        const char *session;   /* drop, restore: its name, or NULL */
        const char *directory; /* NULL: that of --keep */
        bool all;              /* drop: --all */
    } kept;
    char **argv;             /* config: the command and what follows it; run: the program's */
    const char *help;        /* the command that --help was given to, or NULL */
    bool is_help_short;      /* -h */
    const char *config_file; /* the file that was read, or NULL */
    const char *variable;    /* the environment variable being read, or NULL */
    struct box_mounts_wanted mounts; /* --mount; spec.mounts has them resolved */
    struct install_config install;
    struct keep_config keep;     /* the same */
    struct record_config record; /* its directory is resolved; NULL: none */
    const char *tools_path;      /* --tools, or NULL */
    struct box_spec spec;
    struct options_setting settings[OPTIONS_SETTINGS]; /* in the order in which they were given */
    struct egress_policy egress; /* --allow-host; spec.egress points here if it was given */
    struct {
        const char *url;    /* --proxy: or "off"; NULL: the environment decides */
        const char *direct; /* --no-proxy, or NULL */
        const char *file;   /* the configuration file that has the former, or NULL */
    } proxy;
    struct install_words ca; /* --ca-cert: files */
    struct egress_ways
        ways; /* what follows from these; spec.ways points here if there is a proxy */
    enum command command;
    enum bridge_format format; /* schema, call --format */
    int argc;
    unsigned setting_count;
    unsigned config_line; /* the line being read, or 0 */
    bool config_exposed;  /* others may read the file */
    bool memory_given;    /* --memory with a size */
    bool hand_on_stdin;   /* run --stdin */
    bool strict;          /* schema --strict */
    struct {              /* the first of these decides */
        bool effective;
        bool plan;
        bool json;
    } doctor;
    char error[512]; /* the first mistake; empty: none */
};

/* Reads the configuration file, then the environment, then argv; strings stay argv's. Goes on after
 * the first mistake, so that a server with a bad flag still serves and says what to fix: error then
 * has the sentence. */
void options_parse(int argc, char **argv, struct options *ret_options);

/* What the tools of a server with these options get, which borrows from them. */
struct tools_config options_tools_config(struct options *options);

/* Prints the usage and the flags, of this command or, if it is NULL, of all. is_short: of those
 * that all commands have, the few that most people need. Returns 0, or 1 when stdout is broken. */
int options_print_help(const char *command, bool is_short);
