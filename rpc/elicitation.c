/* Elicitations of calls that wait. Each generation of the protocol has its own way to ask the user:
 * by a request of ours, or by a result after which the client repeats the call. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/own.h"
#include "rpc/peer.h"
#include "rpc/text.h"

bool elicitation_is_declared(const json_t *capabilities)
{
    const json_t *elicitation = json_object_get(capabilities, "elicitation");
    /* An empty object means forms, the only mode at first: 2025-11-25 client/elicitation. */
    return json_is_object(elicitation) && (json_object_size(elicitation) == 0 ||
                                           json_is_object(json_object_get(elicitation, "form")));
}

/* Calls fn with what an ElicitResult says. result: borrowed, may be NULL or anything. */
static void report(const json_t *result, rpc_elicitation_fn fn, void *arg)
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
            report(result, elicitation.fn, elicitation.arg);
            return;
        }
    }
}

void elicitation_drop(struct rpc_call *call)
{
    struct call_elicitation elicitation = elicitation_take(call);
    if (elicitation.id && call->peer) { /* without memory, the dialogue may stay open */
        (void)peer_notify(call->peer, "notifications/cancelled",
                          json_pack("{s:O}", "requestId", elicitation.id));
    }
    json_decref(elicitation.id);
}

bool elicitation_give_up(struct rpc_call *call)
{
    rpc_elicitation_fn fn = call->elicitation.fn;
    void *arg = call->elicitation.arg;
    elicitation_drop(call);
    if (fn) {
        fn(arg, RPC_ELICITATION_NONE, NULL);
    }
    return fn != NULL;
}

static void expired(void *arg)
{
    (void)elicitation_give_up(arg);
}

/* New: method and params of elicitation/create, or NULL when out of memory. */
static json_t *request_of(const struct rpc_elicitation *elicitation)
{
    return json_pack("{s:s, s:{s:o, s:O}}", "method", "elicitation/create", "params", "message",
                     rpc_text(elicitation->message, strlen(elicitation->message)),
                     "requestedSchema", elicitation->schema);
}

/* Sends a request of ours to the client, while the call waits. */
static void elicit_by_request(struct rpc_call *call, const struct rpc_elicitation *elicitation,
                              rpc_elicitation_fn fn, void *arg)
{
    struct rpc_peer *peer = call->peer;
    size_t before = buf_size(&peer->out);
    char id[32];
    (void)snprintf(id, sizeof id, "ask-%u", ++peer->elicitations);
    json_auto_t *name = json_string(id);
    json_auto_t *request = request_of(elicitation);
    if (!name || !request || json_object_set(request, "id", name) < 0 ||
        json_object_set_new(request, "jsonrpc", json_string("2.0")) < 0 ||
        rpc_text_dump(&peer->out, request) < 0 || buf_append(&peer->out, "\n", 1) < 0) {
        buf_cut(&peer->out, before);
        fn(arg, RPC_ELICITATION_NONE, NULL);
        return;
    }
    call->elicitation.id = take_ptr(name);
    call->elicitation.fn = fn;
    call->elicitation.arg = arg;
    loop_timer_in(peer->loop, &call->elicitation.timer, LIMIT_ELICITATION_MS, expired, call);
    peer->written(peer->arg);
}

/* Ends the call with the elicitation: the client repeats it with its user's response. A task gets
 * that by tasks/update. */
static void elicit_by_result(struct rpc_call *call, const struct rpc_elicitation *elicitation,
                             rpc_elicitation_fn fn, void *arg)
{
    const json_t *said = json_object_get(call->input_responses, elicitation->key);
    if (said) {
        report(said, fn, arg);
        return;
    }
    json_t *input = json_pack("{s:o}", elicitation->key, request_of(elicitation));
    if (call->gets_task) {
        json_decref(call->input);
        call->input = input;
        fn(arg, RPC_ELICITATION_LATER, NULL);
        return;
    }
    json_t *result = input ? json_pack("{s:s, s:o, s:s*}", "resultType", "input_required",
                                       "inputRequests", input, "requestState", elicitation->state)
                           : NULL;
    fn(arg, RPC_ELICITATION_LATER, NULL);
    call_respond(call, result, MCP_KEEP_UNSAID);
}

void rpc_call_elicit(struct rpc_call *call, const struct rpc_elicitation *elicitation,
                     rpc_elicitation_fn fn, void *arg)
{
    assert(!call->elicitation.fn);
    if (rpc_call_can_elicit(call)) {
        (call->is_stateless ? elicit_by_result : elicit_by_request)(call, elicitation, fn, arg);
    } else {
        fn(arg, RPC_ELICITATION_NONE, NULL);
    }
}

bool rpc_call_can_elicit(const struct rpc_call *call)
{
    return !call->cancelled && call->can_elicit;
}

bool rpc_call_elicits_meanwhile(const struct rpc_call *call)
{
    return rpc_call_can_elicit(call) && !call->is_stateless;
}

const char *rpc_call_state(const struct rpc_call *call)
{
    return rpc_text_plain(call->request_state);
}

void rpc_call_withdraw(struct rpc_call *call)
{
    elicitation_drop(call);
}
