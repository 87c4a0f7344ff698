#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "bridge/format.h"
#include "sandbox/sandbox.h"
#include "tools/install_config.h"

/* The command line. */

enum command {
    COMMAND_SERVE,
    COMMAND_UNKNOWN,
    COMMAND_RUN,
    COMMAND_DOCTOR,
    COMMAND_SCHEMA,
    COMMAND_CALL,
    COMMAND_CONFIG,
    COMMAND_HELP,
    COMMAND_VERSION
};

enum { OPTIONS_FLAGS = 64, OPTIONS_SETTINGS = 512 };

struct flag;

/* A flag that was given, and where. */
struct options_setting {
    const struct flag *flag;
    const char *value; /* "" of a flag without one */
    unsigned line;     /* of the configuration file; 0: the command line, or its variable */
    bool from_variable;
};

struct options {
    enum command command;
    struct box_spec spec;
    struct install_config install;
    struct box_mounts_wanted mounts; /* --mount; spec.mounts are these when they were looked at */
    struct egress_policy egress;     /* --allow-host; spec.egress is this when it was given */
    uint64_t timeout_ms;
    uint64_t max_timeout_ms;
    uint64_t idle_exit_ms; /* 0: never */
    bool resources;
    bool structured;
    const char *code;          /* run -c */
    const char *file;          /* run FILE; "-" is stdin */
    bool hand_on_stdin;        /* run --stdin */
    enum bridge_format format; /* schema, call --format */
    bool strict;               /* schema --strict */
    const char *tool;          /* call TOOL */
    const char *arguments;     /* call TOOL JSON; "-" is stdin, NULL: none */
    const char *call_id;       /* call --id, or NULL */
    bool plan;                 /* doctor --plan */
    bool json;                 /* doctor --json */
    bool effective;            /* doctor --effective */
    int argc;                  /* config: the command, what follows it */
    char **argv;
    struct options_setting settings[OPTIONS_SETTINGS]; /* in the order in which they were given */
    unsigned setting_count;
    const char *config_file; /* that was read, or NULL */
    unsigned config_line;    /* that is being read, or 0 */
    const char *variable;    /* of the environment, that is being read, or NULL */
    char trouble[512];       /* what is wrong; empty: nothing */
};

/* Reads the configuration file, then the environment, then argv; strings stay argv's. Goes on after the first mistake, so that a server with a bad
 * flag still serves and says what to fix: trouble then has the sentence. */
void options_parse(int argc, char **argv, struct options *ret_options);

/* Prints the usage and all flags. Returns 0, or 1 when stdout is broken. */
int options_print_help(void);
