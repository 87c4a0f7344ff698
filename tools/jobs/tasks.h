#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "rpc/conn.h"

struct job;
struct rpc_call;

/* A task is a job with a name, for clients that ask for its end by themselves
 * (rpc/mcp.c). */

struct task {
    char id[56]; /* "job-3-" and 32 hexadecimal digits, which nobody can guess; empty: none */
    uint64_t created_ns;
    uint64_t created_ms; /* the same moment, since 1970 */
    bool asks;           /* its client can ask the user, when it asks for the task */
};

/* Makes a task of a job, and ends the call with it. Returns false, having done nothing, when there
 * are no random numbers. */
bool task_begin(struct job *job, struct rpc_call *call);

extern const struct rpc_tasks job_tasks;
