#pragma once
#include <jansson.h>

#include "tools/run/run.h"

struct rpc_call;

/* The results of run_python. ended: lines about jobs that have ended, each with its newline, which
 * come first; may be empty. */

/* Ends the call with the outcome of a run that is over. images: content blocks, borrowed; NULL when
 * out of memory. */
void result_send(struct rpc_call *call, const struct run *run, const json_t *images,
                 const char *ended);

/* Ends the call with what a job that goes on has printed. status: its status line. */
void result_send_running(struct rpc_call *call, const struct run *run, const struct output *printed,
                         const char *status, const char *ended);
