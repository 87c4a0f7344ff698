#pragma once
#include <jansson.h>
#include <stdbool.h>

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

/* New: the whole outcome of a run, by schema/run_python.output.json; NULL when out of memory.
 * has_images: the result also has image blocks. */
json_t *result_structured(const struct run *run, bool has_images);

/* Sets the facts in object (NULL: does nothing) whose keys begin with group, without it: "error.",
 * or "" for those that are in no group, among them what the server knows itself of the end. In the
 * record numbers of the table are texts. */
enum result_form { RESULT_STRUCTURED, RESULT_RECORD };
void result_set_facts(const struct run *run, enum result_form form, const char *group,
                      json_t *object);
