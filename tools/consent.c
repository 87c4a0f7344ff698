#include "tools/consent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/own.h"
#include "record/record.h"
#include "rpc/call.h"

enum { GIVEN_MOST = 1000 /* keys; with more, the user is asked again each time */ };

struct consent_wait {
    struct consents *consents;
    struct consent_wait *next;
    char *key;            /* "install numpy" */
    struct consent about; /* what is static of it */
    struct rpc_call *call;
    bool can_elicit;
    consent_fn fn;
    void *arg;
};

static void wait_free(struct consent_wait *wait)
{
    free(wait->key);
    free(wait);
}

/* Frees it and takes it off the list. */
static void wait_end(struct consent_wait *wait)
{
    list_remove(&wait->consents->waiting, wait);
    wait_free(wait);
}

static void remember(struct consents *consents, const char *key)
{
    if (!consents->given) {
        consents->given = json_object();
    }
    if (json_object_size(consents->given) < GIVEN_MOST) {
        (void)json_object_set_new(consents->given, key, json_true()); /* else asks again */
    }
}

static const char *refusal(const struct consent_wait *wait, enum rpc_elicitation_outcome response,
                           char *out, size_t size)
{
    if (response == RPC_ELICITATION_DECLINED) {
        return "The user declined.";
    }
    if (response == RPC_ELICITATION_DISMISSED) {
        return "The user closed the request without deciding.";
    }
    (void)snprintf(out, size, "%s To allow it without approval, the user can %s%s%s.",
                   wait->can_elicit
                       ? "The user did not respond."
                       : "This needs the user's approval, and this client cannot ask for it.",
                   wait->about.remedy ? wait->about.remedy : "add ",
                   wait->about.remedy ? "" : wait->about.flag,
                   wait->about.remedy ? "" : " to the server's command line");
    return out;
}

static void record_elicitation(const struct consent_wait *wait,
                               enum rpc_elicitation_outcome response)
{
    static const char *const answers[RPC_ELICITATION_COUNT] = {
        [RPC_ELICITATION_ACCEPTED] = "allowed",    [RPC_ELICITATION_DECLINED] = "declined",
        [RPC_ELICITATION_DISMISSED] = "dismissed", [RPC_ELICITATION_NONE] = "none",
        [RPC_ELICITATION_LATER] = "later",
    };
    record_add(wait->consents->record, "question",
               json_pack("{s:s, s:o, s:s, s:s}", "about", wait->about.kind, "subject",
                         record_message(wait->key, strlen(wait->key)), "answer", answers[response],
                         "setting", wait->about.flag));
}

static void wait_responded(void *arg, enum rpc_elicitation_outcome response, const json_t *content)
{
    struct consent_wait *wait = arg;
    consent_fn fn = wait->fn;
    void *fn_arg = wait->arg;
    char text[256];
    const char *why = NULL;
    enum consent_outcome outcome = CONSENT_LATER;
    if (response != RPC_ELICITATION_LATER || wait->about.state || !wait->about.each) {
        record_elicitation(wait, response); /* else a task has it, each time that it is polled */
    }
    if (response == RPC_ELICITATION_ACCEPTED) {
        bool always = wait->about.always && json_is_true(json_object_get(content, "always"));
        if (!wait->about.each) {
            remember(wait->consents, always ? wait->about.kind : wait->key);
        }
        outcome = CONSENT_GIVEN;
    } else if (response == RPC_ELICITATION_NONE && rpc_call_cancelled(wait->call)) {
        outcome = CONSENT_GONE;
    } else if (response != RPC_ELICITATION_LATER) {
        why = refusal(wait, response, text, sizeof text);
        outcome = CONSENT_REFUSED;
    }
    wait_end(wait);
    fn(fn_arg, outcome, why, content);
}

/* New: the form: empty, or with one optional choice. */
static json_t *form(const struct consent *consent)
{
    if (consent->form) {
        return json_incref((json_t *)(uintptr_t)consent->form);
    }
    json_t *always = consent->always ? json_pack("{s:s, s:s, s:b}", "type", "boolean", "title",
                                                 consent->always, "default", 0)
                                     : NULL;
    return json_pack("{s:s, s:{s:o*}}", "type", "object", "properties", "always", always);
}

static struct consent_wait *wait_new(struct consents *consents, const struct consent *consent)
{
    struct consent_wait *wait = calloc(1, sizeof *wait);
    if (!wait || asprintf(&wait->key, "%s %s", consent->kind, consent->subject) < 0) {
        free(wait);
        return NULL;
    }
    wait->consents = consents;
    wait->about = *consent;
    wait->next = consents->waiting;
    consents->waiting = wait;
    return wait;
}

void consents_ask(struct consents *consents, struct rpc_call *call, const struct consent *consent,
                  consent_fn fn, void *arg)
{
    char numbered[32];
    json_auto_t *schema = form(consent);
    struct consent_wait *wait = schema ? wait_new(consents, consent) : NULL;
    if (!wait) {
        fn(arg, CONSENT_REFUSED, "out of memory; user not asked", NULL);
        return;
    }
    wait->can_elicit = rpc_call_can_elicit(call);
    wait->call = call;
    wait->fn = fn;
    wait->arg = arg;
    if (!wait->about.each && (json_object_get(consents->given, wait->about.kind) ||
                              json_object_get(consents->given, wait->key))) {
        wait_end(wait);
        fn(arg, CONSENT_GIVEN, NULL, NULL);
        return;
    }
    (void)snprintf(numbered, sizeof numbered, "%s #%u", consent->kind, consent->each);
    const struct rpc_elicitation elicitation = {consent->each ? numbered : wait->key,
                                                consent->message, schema, consent->state};
    rpc_call_elicit(call, &elicitation, wait_responded, wait);
}

void consents_withdraw(struct consents *consents, const void *arg)
{
    struct consent_wait *wait = consents->waiting;
    while (wait && wait->arg != arg) {
        wait = wait->next;
    }
    if (wait) {
        rpc_call_withdraw(wait->call);
        wait_end(wait);
    }
}

void consents_done(struct consents *consents)
{
    while (consents->waiting) { /* a callback may end others */
        struct consent_wait *wait = consents->waiting;
        consent_fn fn = wait->fn;
        void *arg = wait->arg;
        consents->waiting = wait->next;
        wait_free(wait);
        fn(arg, CONSENT_GONE, NULL, NULL);
    }
    json_decref(take_ptr(consents->given));
}
