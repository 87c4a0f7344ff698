/* Questions to the user while a call waits. How they reach the host is the eras' matter: a request of
 * ours, or a result upon which the host calls again. */
#include "rpc/ask.h"

#include <assert.h>
#include <string.h>

#include "base/own.h"
#include "rpc/text.h"

json_t *ask_request(const struct rpc_question *question)
{
    return json_pack("{s:s, s:{s:o, s:O}}", "method", "elicitation/create", "params", "message",
                     rpc_text(question->message, strlen(question->message)), "requestedSchema",
                     question->schema);
}

bool ask_is_declared(const json_t *capabilities)
{
    const json_t *elicitation = json_object_get(capabilities, "elicitation");
    /* An empty object means forms, as before there was another mode: 2025-11-25 client/elicitation. */
    return json_is_object(elicitation) && (json_object_size(elicitation) == 0 ||
                                           json_is_object(json_object_get(elicitation, "form")));
}

void ask_tell(const json_t *result, rpc_answer_fn fn, void *arg)
{
    static const struct {
        const char *action;
        enum rpc_answer answer;
    } actions[] = {
        {"accept", RPC_ANSWER_ACCEPTED},
        {"decline", RPC_ANSWER_DECLINED},
        {"cancel", RPC_ANSWER_DISMISSED},
    };
    const char *action = rpc_text_plain(json_object_get(result, "action"));
    const json_t *content = json_object_get(result, "content");
    enum rpc_answer answer = RPC_ANSWER_NONE;
    for (unsigned i = 0; action && i < sizeof actions / sizeof *actions; i++) {
        if (strcmp(actions[i].action, action) == 0) {
            answer = actions[i].answer;
        }
    }
    fn(arg, answer, answer == RPC_ANSWER_ACCEPTED && json_is_object(content) ? content : NULL);
}

/* Takes the question off its call. */
static struct call_ask ask_take(struct rpc_call *call)
{
    loop_timer_disarm(&call->ask.timer);
    struct call_ask ask = call->ask;
    call->ask = (struct call_ask){};
    return ask;
}

void ask_answered(struct rpc_peer *peer, const struct rpc_id *id, const json_t *result)
{
    for (struct rpc_call *call = peer->calls; call; call = call->next) {
        if (rpc_id_equal(&call->ask.id, id)) {
            struct call_ask ask = ask_take(call);
            rpc_id_done(&ask.id);
            ask_tell(result, ask.fn, ask.arg);
            return;
        }
    }
}

void ask_drop(struct rpc_peer *peer, struct rpc_call *call)
{
    struct call_ask ask = ask_take(call);
    if (ask.id.token && peer) {
        size_t before = buf_size(&peer->out);
        if (buf_append_text(&peer->out,
                            "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\","
                            "\"params\":{\"requestId\":") < 0 ||
            buf_append(&peer->out, ask.id.token, ask.id.size) < 0 ||
            buf_append_text(&peer->out, "}}\n") < 0) {
            peer->out.end = peer->out.start + before; /* the dialogue stays open: no harm */
        } else {
            peer->written(peer->arg);
        }
    }
    rpc_id_done(&ask.id);
}

bool ask_give_up(struct rpc_peer *peer, struct rpc_call *call)
{
    rpc_answer_fn fn = call->ask.fn;
    void *arg = call->ask.arg;
    ask_drop(peer, call);
    if (fn) {
        fn(arg, RPC_ANSWER_NONE, NULL);
    }
    return fn != NULL;
}

bool rpc_call_can_ask(const struct rpc_call *call)
{
    return !call->cancelled && call->request.context.can_ask;
}

void rpc_call_ask(struct rpc_call *call, const struct rpc_question *question, rpc_answer_fn fn,
                  void *arg)
{
    assert(!call->ask.fn);
    if (rpc_call_can_ask(call)) {
        call->request.context.era->ask(call, question, fn, arg);
    } else {
        fn(arg, RPC_ANSWER_NONE, NULL);
    }
}
