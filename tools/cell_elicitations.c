#include "tools/cell_elicitations.h"

#include "base/own.h"
#include "rpc/call.h"
#include "tools/box/tool.h"
#include "tools/consent.h"
#include "tools/jobs/jobs.h"

static void ask_first(void *arg);

/* From the loop, so that what ends several elicitations at once asks none of them. */
static void go_on(struct tools *tools)
{
    if (tools->elicitations->first && !tools->elicitations->call) {
        loop_task_queue(tools->loop, &tools->elicitations->next, ask_first, tools);
    }
}

static void user_responded(void *arg, enum consent_outcome outcome, const char *why,
                           const json_t *content)
{
    struct tools *tools = arg;
    struct cell_elicitation *elicitation = tools->elicitations->first;
    struct rpc_call *call = take_ptr(tools->elicitations->call);
    tools->elicitations->first = elicitation->next;
    jobs_asked(tools->jobs, call);
    elicitation->refused = outcome == CONSENT_REFUSED;
    if (outcome != CONSENT_GIVEN && !why) {
        why = "The call of run_python was cancelled.";
    }
    elicitation->fn(elicitation, why, content);
    if (rpc_call_cancelled(call)) { /* of which only the elicitation has learned */
        struct tool_work *work = rpc_call_data(call);
        work->cancel(work);
    }
    go_on(tools);
}

static void ask_first(void *arg)
{
    struct tools *tools = arg;
    struct cell_elicitations *elicitations = tools->elicitations;
    struct cell_elicitation *elicitation = elicitations->first;
    struct rpc_call *call = jobs_ask(tools->jobs, elicitation->run);
    if (!call) {
        elicitations->first = elicitation->next;
        elicitation->fn(
            elicitation,
            "It needs the user's approval, and no waiting call of this client can ask for it.",
            NULL);
        go_on(tools);
        return;
    }
    elicitations->call = call;
    consents_ask(tools->consents, call,
                 &(struct consent){.kind = elicitation->kind,
                                   .subject = elicitation->subject,
                                   .message = elicitation->message,
                                   .form = elicitation->form,
                                   .flag = "--tools",
                                   .remedy = "remove ask from its grant in the file of --tools",
                                   .each = true},
                 user_responded, tools);
}

static void ask(void *ctx, struct cell_elicitation *elicitation)
{
    struct tools *tools = ctx;
    struct cell_elicitation **end = &tools->elicitations->first;
    while (*end) {
        end = &(*end)->next;
    }
    elicitation->next = NULL;
    *end = elicitation;
    go_on(tools);
}

static void withdraw(void *ctx, struct cell_elicitation *elicitation)
{
    struct tools *tools = ctx;
    struct cell_elicitations *elicitations = tools->elicitations;
    struct cell_elicitation **at = &elicitations->first;
    while (*at && *at != elicitation) {
        at = &(*at)->next;
    }
    if (elicitation == elicitations->first && elicitations->call) {
        consents_withdraw(tools->consents, tools);
        jobs_asked(tools->jobs, take_ptr(elicitations->call));
    }
    if (*at) {
        *at = elicitation->next;
    }
    go_on(tools);
}

void cell_elicitations_init(struct tools *tools)
{
    tools->elicitations->asker = (struct cell_asker){tools, ask, withdraw};
}

void cell_elicitations_done(struct tools *tools)
{
    loop_task_cancel(&tools->elicitations->next);
}
