#pragma once
#include "sandbox/sandbox.h"
#include "tools/consent.h"
#include "tools/run.h"

/* --allow-host ask: a host that code was refused is asked about before the next run_python call begins.
 * Asking while the code waits for its connection would be nearer, but hosts of MCP 2026-07-28 can only
 * be asked by ending the call, and code that ran cannot be run again. */

struct tools;

enum { HOSTS_WANTED = 8, HOST_WORD_BYTES = EGRESS_HOST_BYTES + 10 };

/* Starts zeroed. */
struct host_consent {
    char wanted[HOSTS_WANTED][HOST_WORD_BYTES]; /* "a.example.org:443", as --allow-host takes it */
    unsigned wanted_count;
    unsigned asked_count; /* the first of them, which a question is about; 0: none is open */
    json_t *declined;     /* keys: what is not asked again */
    char news[NETWORK_NOTE_BYTES]; /* for the next answer of run_python */
    bool ending;
    struct held_run *held; /* calls that wait for the question, in their order */
};

void host_consent_init(struct tools *tools);
/* Calls that wait will not begin any more; consents_done() ends them, and comes before done. */
void host_consent_end(struct tools *tools);
void host_consent_done(struct tools *tools);

typedef void (*host_begin_fn)(struct tools *tools, struct rpc_call *call, const json_t *arguments);

/* Returns false when nothing is to be asked: the call may begin. Else begin is called once there is an
 * answer, unless the call is over by then; maybe before this returns. */
bool host_consent_hold(struct tools *tools, struct rpc_call *call, const json_t *arguments,
                       host_begin_fn begin);

/* What the answer of a run is to say about hosts. */
void host_consent_note(struct tools *tools, const struct rpc_call *call, struct run *run);
