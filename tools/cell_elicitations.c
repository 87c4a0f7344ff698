#include "tools/cell_elicitations.h"

#include "base/limits.h"
#include "base/list.h"
#include "base/own.h"
#include "rpc/call.h"
#include "tools/box/tool.h"
#include "tools/consent.h"
#include "tools/jobs/jobs.h"

static const char often[] =
    "It needs the user's approval, and that was refused three times in this cell; the user is not "
    "asked again before the next one.";

static void ask_first(void *arg);

/* From the loop, so that what ends several elicitations at once asks none of them. */
static void go_on(struct tools *tools)
{
    const struct cell_elicitations *elicitations = tools->elicitations;
    if (elicitations->first && !elicitations->call && !elicitations->late.loop) {
        loop_task_queue(tools->loop, &tools->elicitations->next, ask_first, tools);
    }
}

/* Asked when its turn comes too: many may wait before the first is refused. */
static bool is_refused_often(const struct cell_elicitation *elicitation)
{
    return *elicitation->refusals >= LIMIT_TOOL_REFUSALS;
}

/* The first has ended. */
static void end_first(struct tools *tools, const char *why, const json_t *content)
{
    struct cell_elicitation *elicitation = tools->elicitations->first;
    tools->elicitations->first = elicitation->next;
    elicitation->fn(elicitation, why, content);
    go_on(tools);
}

static void nobody_responded(void *arg)
{
    struct tools *tools = arg;
    ++*tools->elicitations->first->refusals;
    jobs_go_on(tools->jobs, tools->elicitations->first->run);
    end_first(tools, "The user did not respond.", NULL);
}

static void user_responded(void *arg, enum consent_outcome outcome, const char *why,
                           const json_t *content)
{
    struct tools *tools = arg;
    struct cell_elicitation *elicitation = tools->elicitations->first;
    struct rpc_call *call = take_ptr(tools->elicitations->call);
    if (outcome == CONSENT_LATER) {
        jobs_left(call);
        loop_timer_in(tools->loop, &tools->elicitations->late, LIMIT_ELICITATION_MS,
                      nobody_responded, tools);
        return;
    }
    jobs_asked(tools->jobs, call);
    *elicitation->refusals += outcome == CONSENT_REFUSED;
    if (outcome != CONSENT_GIVEN && !why) {
        why = "The call of run_python was cancelled.";
    }
    end_first(tools, why, content);
    if (rpc_call_cancelled(call)) { /* of which only the elicitation has learned */
        struct tool_work *work = rpc_call_data(call);
        work->cancel(work);
    }
}

static void ask_first(void *arg)
{
    struct tools *tools = arg;
    struct cell_elicitations *elicitations = tools->elicitations;
    struct cell_elicitation *elicitation = elicitations->first;
    if (!elicitation) {
        return; /* it has been withdrawn */
    }
    if (is_refused_often(elicitation)) {
        end_first(tools, often, NULL);
        return;
    }
    const char *text = NULL;
    struct rpc_call *call = jobs_ask(tools->jobs, elicitation->run, &text);
    if (!call) {
        end_first(tools, text, NULL);
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
                                   .each = elicitation->number,
                                   .state = text},
                 user_responded, tools);
}

static void ask(void *ctx, struct cell_elicitation *elicitation)
{
    struct tools *tools = ctx;
    if (is_refused_often(elicitation)) {
        elicitation->fn(elicitation, often, NULL);
        return;
    }
    elicitation->number = ++tools->elicitations->asked;
    list_append(&tools->elicitations->first, elicitation);
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
    if (!*at) {
        return;
    }
    if (at == &elicitations->first && elicitations->call) {
        consents_withdraw(tools->consents, tools);
        jobs_asked(tools->jobs, take_ptr(elicitations->call));
    } else if (at == &elicitations->first && elicitations->late.loop) {
        loop_timer_disarm(&elicitations->late);
        jobs_go_on(tools->jobs, elicitation->run);
    }
    *at = elicitation->next;
    go_on(tools);
}

void cell_elicitations_call_waits(struct tools *tools, const struct run *run)
{
    struct cell_elicitations *elicitations = tools->elicitations;
    if (elicitations->late.loop && elicitations->first->run == run) {
        loop_timer_disarm(&elicitations->late);
        jobs_go_on(tools->jobs, elicitations->first->run);
        go_on(tools);
    }
}

void cell_elicitations_init(struct tools *tools)
{
    tools->elicitations->asker = (struct cell_asker){tools, ask, withdraw};
}

void cell_elicitations_done(struct tools *tools)
{
    loop_task_cancel(&tools->elicitations->next);
    loop_timer_disarm(&tools->elicitations->late);
}
