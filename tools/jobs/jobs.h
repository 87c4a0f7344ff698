#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "tools/run/run.h"

struct orders;
struct rpc_call;
struct rpc_tasks;
struct tools;

/* A run from its call to its last result. A call that has waited as long as it may gets its result
 * early: then the run is a job, with a number that counts through the server, and later calls wait
 * for it. The session stays the job's until it ends (tools/order/order.h).
 *
 * All runs of the tools are in one list; those without a number go with their call's result, and
 * the newest JOBS_KEPT ended jobs stay. */

enum { JOBS_KEPT = 8 };

struct job;

/* What others do when it happens to a run. call: may be NULL where the run's call has ended. */
struct jobs_hooks {
    void (*has_cell)(struct orders *orders, const struct rpc_call *call, unsigned cell);
    void (*is_job)(struct orders *orders, const struct rpc_call *call, unsigned number);
    void (*ended)(struct orders *orders, unsigned number); /* a job */
    void (*returned)(struct tools *tools, const struct rpc_call *call, struct run *run);
    void (*waits)(struct tools *tools, const struct run *run); /* one more call waits for it */
    /* The client asks for its task, or has responses of the user's. */
    void (*polls)(struct tools *tools, const struct run *run, struct rpc_call *call);
};

struct jobs {
    struct tools *tools;
    const struct jobs_hooks *hooks; /* borrowed */
    struct job *list;               /* in the order in which they began */
    unsigned last_number;
    bool explained;    /* a result has said what a job holds up */
    uint64_t moved_ns; /* when a job last ended */
};

void jobs_done(struct jobs *jobs);

/* How long the call may wait for its result, from its arrival on; UINT64_MAX: until its run is
 * over. */
uint64_t jobs_wait_ms(const struct tools *tools, const json_t *arguments);

/* Runs in the session of this name, and ends the call in time. Takes the run. */
void jobs_begin(struct jobs *jobs, struct rpc_call *call, struct run *run, const json_t *arguments);

/* The number of the job for which a call waits that is made again with this state; see jobs_ask().
 * 0: there is none. */
unsigned jobs_number_of(const struct jobs *jobs, const char *state);

/* A call with job or stop: waits for a job, and ends the call. */
void jobs_wait(struct jobs *jobs, struct rpc_call *call, const json_t *arguments);

/* The call that waits for the run and through which the user can be asked: its own time stands
 * still until one of the others is called. *ret_text: the state for a client that can only be asked
 * by ending the call: the run is a job then. NULL: there is no such call, and *ret_text says why,
 * or is NULL where the client is asked when it asks for the task. */
struct rpc_call *jobs_ask(struct jobs *jobs, const struct run *run, const char **ret_text);
/* The call goes on waiting. Neither concerns a call about a task. */
void jobs_asked(struct rpc_call *call);
/* The call is about to end. */
void jobs_left(struct rpc_call *call);

/* Stops a job. by: the argument of a later call that gives up what the job does, static; NULL:
 * stop. Returns whether it is this call that stops it. */
bool jobs_stop(struct jobs *jobs, unsigned number, const char *by);

/* Appends "job 1 has been running for 62 s | wait: {"job": 1} | ...", for a call that has waited in
 * vain for its session. 0 or -ENOMEM. */
int jobs_describe(const struct jobs *jobs, unsigned number, struct buf *text);

/* A task is a job with a name, for clients that ask for its end by themselves (rpc/mcp.c). */
extern const struct rpc_tasks job_tasks;

/* Milliseconds since a job ran; 0: one runs; UINT64_MAX: none ever has. */
uint64_t jobs_quiet_ms(const struct jobs *jobs);
