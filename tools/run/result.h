#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/hash.h"

struct output;
struct record;
struct rpc_call;
struct run;

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

/* What is kept of a run until the end. record NULL: nothing. */
struct recording {
    struct record *record;
    unsigned call;
    json_t *arguments;
    bool has_cell;  /* the record has the event that begins the run */
    json_t *pieces; /* of output: ["stdout", "text"] */
    struct buf piece;
    unsigned stream; /* of piece */
    uint64_t bytes;  /* of all output */
    uint64_t kept;   /* of it, in the pieces */
    struct sha256 hash;
};

/* What the record keeps of a run (record/record.h): the same facts as the status line, as JSON. All
 * do nothing without a record. */

/* arguments: of its call, takes a reference. The run's events come from here on. */
void recorded_begin(struct run *run, struct record *record, const json_t *arguments);
void recorded_done(struct run *run);

/* New: what each event of the run begins with. */
json_t *recorded_event(const struct recording *recording);

/* The run's code is about to be sent. */
void recorded_cell(struct run *run);

/* The run has printed a piece. stream: enum box_stream. */
void recorded_output(struct run *run, unsigned stream, const char *bytes, size_t size);

/* The run has become a job. */
void recorded_job(struct run *run);

/* The run is over. images: content blocks, or NULL. */
void recorded_result(struct run *run, const json_t *images);

/* A call of another tool with its result. All is borrowed. */
struct recorded_call {
    const char *kind; /* of its event: "read", "write", "change", "tool" */
    const char *tool;
    const json_t *arguments;
    const json_t *content; /* NULL: it has none */
    bool is_error;
    json_t *trace; /* of its request; NULL: it has none */
};

/* New: what the record says of a file that is read: where it is, its size, and the hash of one that
 * could be in it. NULL without a record. */
json_t *recorded_file(const struct record *record, const char *path, int fd, uint64_t size);

/* facts: stolen, more members of the event, or NULL. */
void recorded_call(struct record *record, const struct recorded_call *call, json_t *facts);
