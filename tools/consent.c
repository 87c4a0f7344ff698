#include "tools/consent.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "rpc/call.h"

enum { GIVEN_MOST = 1000 /* keys: more are asked each time */ };

struct consent_wait {
    struct consents *consents;
    struct consent_wait *next;
    char *key; /* "install numpy" */
    char *kind;
    const char *flag;
    struct rpc_call *call;
    bool may_always;
    bool can_ask;
    consent_fn fn;
    void *arg;
};

static void wait_free(struct consent_wait *wait)
{
    free(wait->key);
    free(wait->kind);
    free(wait);
}

/* Takes it off the list too. */
static void wait_end(struct consent_wait *wait)
{
    struct consent_wait **at = &wait->consents->waiting;
    while (*at != wait) {
        at = &(*at)->next;
    }
    *at = wait->next;
    wait_free(wait);
}

static void remember(struct consents *consents, const char *key)
{
    if (!consents->given) {
        consents->given = json_object();
    }
    if (json_object_size(consents->given) < GIVEN_MOST) {
        (void)json_object_set_new(consents->given, key, json_true()); /* else it is asked again */
    }
}

static const char *refusal(const struct consent_wait *wait, enum rpc_answer answer, char *out,
                           size_t size)
{
    if (answer == RPC_ANSWER_DECLINED) {
        return "The user was asked and declined. Go on without it; ask for it again only if the "
               "user "
               "wants that.";
    }
    if (answer == RPC_ANSWER_DISMISSED) {
        return "The user was asked and closed the question without a choice.";
    }
    (void)snprintf(out, size, "%s %s on the server's command line allows it without asking.",
                   wait->can_ask ? "The user was asked and did not answer."
                                 : "The user must be asked for this, and this host cannot ask.",
                   wait->flag);
    return out;
}

static void wait_answered(void *arg, enum rpc_answer answer, const json_t *content)
{
    struct consent_wait *wait = arg;
    consent_fn fn = wait->fn;
    void *fn_arg = wait->arg;
    char text[256];
    const char *why = NULL;
    enum consent_outcome outcome = CONSENT_LATER;
    if (answer == RPC_ANSWER_ACCEPTED) {
        bool always = wait->may_always && json_is_true(json_object_get(content, "always"));
        remember(wait->consents, always ? wait->kind : wait->key);
        outcome = CONSENT_GIVEN;
    } else if (answer == RPC_ANSWER_NONE && rpc_call_cancelled(wait->call)) {
        outcome = CONSENT_GONE;
    } else if (answer != RPC_ANSWER_LATER) {
        why = refusal(wait, answer, text, sizeof text);
        outcome = CONSENT_REFUSED;
    }
    wait_end(wait);
    fn(fn_arg, outcome, why);
}

/* New: the form: nothing to fill in, or one choice that may be left alone. */
static json_t *form(const struct consent *consent)
{
    json_t *always = consent->always ? json_pack("{s:s, s:s, s:b}", "type", "boolean", "title",
                                                 consent->always, "default", 0)
                                     : NULL;
    return json_pack("{s:s, s:{s:o*}}", "type", "object", "properties", "always", always);
}

static struct consent_wait *wait_new(struct consents *consents, const struct consent *consent)
{
    struct consent_wait *wait = calloc(1, sizeof *wait);
    size_t size = strlen(consent->kind) + strlen(consent->subject) + 2;
    if (!wait) {
        return NULL;
    }
    wait->consents = consents;
    wait->flag = consent->flag;
    wait->may_always = consent->always != NULL;
    wait->kind = strdup(consent->kind);
    wait->key = malloc(size);
    if (!wait->kind || !wait->key) {
        wait_free(wait);
        return NULL;
    }
    (void)snprintf(wait->key, size, "%s %s", consent->kind, consent->subject);
    wait->next = consents->waiting;
    consents->waiting = wait;
    return wait;
}

void consents_ask(struct consents *consents, struct rpc_call *call, const struct consent *consent,
                  consent_fn fn, void *arg)
{
    json_auto_t *schema = form(consent);
    struct consent_wait *wait = schema ? wait_new(consents, consent) : NULL;
    if (!wait) {
        fn(arg, CONSENT_REFUSED, "There is no memory to ask the user.");
        return;
    }
    wait->can_ask = rpc_call_can_ask(call);
    wait->call = call;
    wait->fn = fn;
    wait->arg = arg;
    if (json_object_get(consents->given, wait->kind) ||
        json_object_get(consents->given, wait->key)) {
        wait_end(wait);
        fn(arg, CONSENT_GIVEN, NULL);
        return;
    }
    const struct rpc_question question = {wait->key, consent->message, schema};
    rpc_call_ask(call, &question, wait_answered, wait);
}

void consents_done(struct consents *consents)
{
    struct consent_wait *wait = take_ptr(consents->waiting);
    while (wait) {
        struct consent_wait *next = wait->next;
        wait->fn(wait->arg, CONSENT_GONE, NULL);
        wait_free(wait);
        wait = next;
    }
    json_decref(take_ptr(consents->given));
}
