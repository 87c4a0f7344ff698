#pragma once
#include "sandbox/sandbox.h"
#include "tools/consent.h"
#include "tools/run/run.h"

/* --allow-host ask: asks the user about a host that code was refused, before the next run_python
 * call begins. Asking while the code waits for its connection would be more direct, but clients of
 * MCP 2026-07-28 can only be asked by ending the call, and code that ran cannot be run again. */

struct tools;

enum {
    HOSTS_WANTED = 8,
    HOSTS_ASKED = 3 /* at once: the user must read each */,
    HOST_WORD_BYTES = EGRESS_HOST_BYTES + 10,
    HOSTS_NEWS_BYTES = 320
};

/* Starts zeroed. */
struct egress_consent {
    char wanted[HOSTS_WANTED][HOST_WORD_BYTES]; /* "a.example.org:443", as --allow-host takes it */
    unsigned wanted_count;
    unsigned asked_count; /* how many of them the open elicitation is about; 0: none is open */
    json_t *declined;     /* keys: hosts not to ask about again */
    char news[HOSTS_NEWS_BYTES]; /* for the next result of run_python */
    bool ending;                 /* calls that wait will not begin any more */
    struct held_run *held;       /* calls that wait for the user's response, in their order */
};

/* An event of the egress proxy. arg: struct tools. */
void egress_consent_refused(void *arg, const struct egress_event *event);

typedef void (*host_begin_fn)(struct tools *tools, struct rpc_call *call, const json_t *arguments);

/* Returns false when there is nothing to ask: the call may begin. Else calls begin once the user
 * has responded, maybe before this returns, unless the call has ended by then. */
bool egress_consent_hold(struct tools *tools, struct rpc_call *call, const json_t *arguments,
                         host_begin_fn begin);

/* Writes what the result of a run must report about hosts. call: that gets it; NULL: a later one.
 */
void egress_consent_note(struct tools *tools, const struct rpc_call *call, struct run *run);
