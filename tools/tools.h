#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "rpc/conn.h"
#include "sandbox/sandbox.h"

/* The four tools over one workspace, as rpc wants them. */

struct install_config;
struct loop;
struct tools;

struct tools_config {
    const struct box_spec *spec; /* borrowed */
    /* spec's egress where the user may be asked to allow more, which is added to it; or NULL. */
    struct egress_policy *hosts;
    uint64_t timeout_ms; /* of a call that names none */
    uint64_t max_timeout_ms;
    /* What is wrong with the configuration, or NULL: the server serves, its tools answer with
     * this. Borrowed. */
    const char *trouble;
    const struct install_config *install; /* NULL: without install_package. Borrowed */
    bool resources;  /* the host may list and read the workspace's files by itself */
    bool structured; /* results have structuredContent; spec wants separate_streams then */
};

int tools_new(struct loop *loop, const struct tools_config *config, struct tools **ret_tools);

/* Ends the sandbox; calls in flight are ended by rpc before. */
void tools_free(struct tools *tools);

/* What rpc calls; valid as long as tools. */
struct rpc_tools tools_for_rpc(struct tools *tools);
