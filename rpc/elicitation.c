/* Elicitations of calls that wait. Each era of the protocol sends them in its own way: as a request
 * of ours, or as a result after which the client repeats the call. */
#include "rpc/elicitation.h"

#include <assert.h>
#include <string.h>

#include "rpc/text.h"

json_t *elicitation_request(const struct rpc_elicitation *elicitation)
{
    return json_pack("{s:s, s:{s:o, s:O}}", "method", "elicitation/create", "params", "message",
                     rpc_text(elicitation->message, strlen(elicitation->message)),
                     "requestedSchema", elicitation->schema);
}

bool elicitation_is_declared(const json_t *capabilities)
{
    const json_t *elicitation = json_object_get(capabilities, "elicitation");
    /* An empty object means forms, the only mode at first: 2025-11-25 client/elicitation. */
    return json_is_object(elicitation) && (json_object_size(elicitation) == 0 ||
                                           json_is_object(json_object_get(elicitation, "form")));
}

void elicitation_report(const json_t *result, rpc_elicitation_fn fn, void *arg)
{
    static const struct {
        const char *action;
        enum rpc_elicitation_outcome outcome;
    } actions[] = {
        {"accept", RPC_ELICITATION_ACCEPTED},
        {"decline", RPC_ELICITATION_DECLINED},
        {"cancel", RPC_ELICITATION_DISMISSED},
    };
    const char *action = rpc_text_plain(json_object_get(result, "action"));
    const json_t *content = json_object_get(result, "content");
    enum rpc_elicitation_outcome outcome = RPC_ELICITATION_NONE;
    for (unsigned i = 0; action && i < sizeof actions / sizeof *actions; i++) {
        if (strcmp(actions[i].action, action) == 0) {
            outcome = actions[i].outcome;
        }
    }
    fn(arg, outcome,
       outcome == RPC_ELICITATION_ACCEPTED && json_is_object(content) ? content : NULL);
}

/* Takes the elicitation off its call. */
static struct call_elicitation elicitation_take(struct rpc_call *call)
{
    loop_timer_disarm(&call->elicitation.timer);
    struct call_elicitation elicitation = call->elicitation;
    call->elicitation = (struct call_elicitation){};
    return elicitation;
}

void elicitation_receive(struct rpc_peer *peer, const json_t *id, const json_t *result)
{
    for (struct rpc_call *call = peer->calls; call; call = call->next) {
        if (json_equal(call->elicitation.id, id)) {
            struct call_elicitation elicitation = elicitation_take(call);
            json_decref(elicitation.id);
            elicitation_report(result, elicitation.fn, elicitation.arg);
            return;
        }
    }
}

void elicitation_drop(struct rpc_peer *peer, struct rpc_call *call)
{
    struct call_elicitation elicitation = elicitation_take(call);
    if (elicitation.id && peer) { /* without memory, the dialogue may stay open */
        (void)peer_notify(peer, "notifications/cancelled",
                          json_pack("{s:O}", "requestId", elicitation.id));
    }
    json_decref(elicitation.id);
}

bool elicitation_give_up(struct rpc_peer *peer, struct rpc_call *call)
{
    rpc_elicitation_fn fn = call->elicitation.fn;
    void *arg = call->elicitation.arg;
    elicitation_drop(peer, call);
    if (fn) {
        fn(arg, RPC_ELICITATION_NONE, NULL);
    }
    return fn != NULL;
}

bool rpc_call_can_elicit(const struct rpc_call *call)
{
    return !call->cancelled && call->request.context.can_elicit;
}

bool rpc_call_elicits_meanwhile(const struct rpc_call *call)
{
    return rpc_call_can_elicit(call) && call->request.context.era->elicits_meanwhile;
}

const char *rpc_call_state(const struct rpc_call *call)
{
    return rpc_text_plain(call->request.context.request_state);
}

void rpc_call_withdraw(struct rpc_call *call)
{
    elicitation_drop(call->peer, call);
}

void rpc_call_elicit(struct rpc_call *call, const struct rpc_elicitation *elicitation,
                     rpc_elicitation_fn fn, void *arg)
{
    assert(!call->elicitation.fn);
    if (rpc_call_can_elicit(call)) {
        call->request.context.era->elicit(call, elicitation, fn, arg);
    } else {
        fn(arg, RPC_ELICITATION_NONE, NULL);
    }
}
