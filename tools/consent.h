#pragma once
#include <jansson.h>

struct record;
struct rpc_call;

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
