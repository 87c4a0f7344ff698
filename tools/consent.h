#pragma once
#include <jansson.h>

struct rpc_call;

/* Asking the user, through the host, before a tool goes beyond the sandbox. What was allowed is
 * remembered as long as the process lives; what was refused is asked anew, since users change their
 * minds. */

struct consents {
    json_t *given; /* keys: what need not be asked any more */
    struct consent_wait *waiting;
};

struct consent {
    const char *kind;    /* "install" */
    const char *subject; /* "numpy pandas>=2": with kind, exactly what is asked */
    const char *message; /* the question */
    const char *always; /* label of the choice not to be asked for this kind any more; NULL: none */
    const char *flag;   /* what allows it without asking, static: "--install on" */
};

enum consent_outcome {
    CONSENT_GIVEN,
    CONSENT_REFUSED, /* why is a sentence for the model */
    CONSENT_GONE,    /* the call was cancelled, or the server ends: only to be ended */
    CONSENT_LATER,   /* the call has ended: the host asks and makes it again */
};

/* why: borrowed, NULL unless refused. */
typedef void (*consent_fn)(void *arg, enum consent_outcome outcome, const char *why);

/* fn: once, maybe before this returns. The call must not be ended before. consent: borrowed. */
void consents_ask(struct consents *consents, struct rpc_call *call, const struct consent *consent,
                  consent_fn fn, void *arg);

/* Starts zeroed. Those that wait are told, and end their calls. */
void consents_done(struct consents *consents);
