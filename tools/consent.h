#pragma once
#include <jansson.h>

#include "base/loop.h"
#include "sandbox/sandbox.h"
#include "tools/run/run.h"
#include "tools/servers/tool_calls.h"

struct record;
struct rpc_call;
struct tools;

/* Asks the user, through the client, before a tool goes beyond the sandbox. Remembers what was
 * allowed as long as the process lives. Asks again for what was refused, since users change their
 * minds. */

struct consents {
    json_t *given; /* keys: what the user has allowed */
    struct consent_wait *waiting;
    struct record *record; /* NULL: none. Borrowed */
};

struct consent {
    const char *kind;    /* static: "install" */
    const char *subject; /* "numpy pandas>=2": with kind, exactly what is asked */
    const char *message; /* what the user reads */
    const char *always;  /* label of the choice that allows the whole kind; NULL: none */
    const char *flag;    /* what allows it without asking, static: "--install on" */
    const char *remedy;  /* how the user allows it without asking; NULL: with the flag. Static */
    const json_t *form;  /* what the user fills in; NULL: nothing but that choice. Borrowed */
    unsigned each;       /* which elicitation it is; 0: none is made for what has been allowed */
    const char *state;   /* what finds the call again that is made with the user's response */
};

enum consent_outcome {
    CONSENT_GIVEN,
    CONSENT_REFUSED, /* why is a sentence for the model */
    CONSENT_GONE,    /* the call was cancelled, or the server ends: the call must only be ended */
    CONSENT_LATER,   /* the call ends after fn: the client asks and makes it again */
};

/* why: borrowed, NULL unless refused. content: of the form, borrowed; nothing has checked it. */
typedef void (*consent_fn)(void *arg, enum consent_outcome outcome, const char *why,
                           const json_t *content);

/* Calls fn once, maybe before this returns. The call must not end before that. consent:
 * borrowed. */
void consents_ask(struct consents *consents, struct rpc_call *call, const struct consent *consent,
                  consent_fn fn, void *arg);

/* Nobody waits for the user any more: the call goes on, and the fn of arg is not called. */
void consents_withdraw(struct consents *consents, const void *arg);

/* Starts zeroed. Calls fn of those that wait, which end their calls. */
void consents_done(struct consents *consents);

/* --allow-host ask: asks the user about a host that code was refused, before the next run_python
 * call begins. Asking while the code waits for its connection would be more direct, but clients of
 * MCP 2026-07-28 can only be asked by ending the call, and code that ran cannot be run again. */

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
    struct egress_event refusal; /* the first since the last result; without a text: none */
    bool more_refused;           /* and others, which say something else */
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

/* --tools: asks the user, through the client, what a cell waits for: whether a call of a tool may
 * leave, and what a tool server wants to know. One at a time. Clients of MCP 2026-07-28 can be
 * asked only by ending the call, and code that ran cannot be run again: the cell becomes a job that
 * waits, and the call that the client makes again with the user's response waits for that job. */

/* Starts zeroed. */
struct cell_elicitations {
    struct cell_asker asker;
    struct cell_elicitation *list; /* in their order */
    struct cell_elicitation *now;  /* that is being asked through call; NULL: none is */
    struct rpc_call *call;
    unsigned asked; /* so far: numbers them */
    struct loop_task next;
};

/* A call waits for a job. */
void cell_elicitations_call_waits(struct tools *tools, const struct run *run);
/* A call about the task of a run, which may have responses of the user's. */
void cell_elicitations_polled(struct tools *tools, const struct run *run, struct rpc_call *call);

void cell_elicitations_init(struct tools *tools);
void cell_elicitations_done(struct tools *tools);
