#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "rpc/conn.h"
#include "sandbox/sandbox.h"

/* The tools over one sandbox, as rpc needs them. */

struct install_config;
struct keep_config;
struct loop;
struct record;
struct tools_file;
struct tools;

/* Whether results have a view for people (MCP Apps). */
enum tools_ui {
    TOOLS_UI_OFF,
    TOOLS_UI_STATIC, /* in which no script of a result ever runs */
    TOOLS_UI_ON,
};

struct tools_config {
    const struct box_spec *spec; /* borrowed */
    /* spec's egress if the user may be asked to allow more, which is added to it; or NULL. */
    struct egress_policy *hosts;
    uint64_t timeout_ms; /* default time limit of a call */
    uint64_t max_timeout_ms;
    uint64_t wait_ms; /* until a call gets its result early, by default; 0: no cell becomes a job */
    unsigned jobs;    /* how many may run at once */
    /* What is wrong with the configuration, or NULL. If set, the server serves all the same and
     * every tool refuses with this text. Borrowed. */
    const char *error;
    const struct install_config *install; /* NULL: without install_package. Borrowed */
    const struct keep_config *keep;       /* --keep; NULL: none. Borrowed */
    struct record *record;                /* NULL: none. Borrowed */
    const json_t *start;                  /* members of the record's first line. Borrowed */
    struct tools_file *tools_file;        /* --tools; spec has calls then; NULL: none. Borrowed */
    const char *version;                  /* of the server, for the tool servers. Borrowed */
    enum tools_ui ui;
    bool resources;  /* the client may list and read the workspace's files by itself */
    bool structured; /* results have structuredContent; spec must have separate_streams then */
};

int tools_new(struct loop *loop, const struct tools_config *config, struct tools **ret_tools);

/* The server ends: saves sessions, with --keep. Runs the loop for at most a second and a half. */
void tools_save(struct tools *tools);

/* Ends the sandbox, and so the calls in flight. The connection may be freed before or after. */
void tools_free(struct tools *tools);

/* Milliseconds since a job ran; 0: one runs; UINT64_MAX: none ever has. */
uint64_t tools_quiet_ms(const struct tools *tools);

/* The functions that rpc calls; valid as long as tools. */
struct rpc_tools tools_for_rpc(struct tools *tools);
