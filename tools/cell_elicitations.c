#include "tools/consent.h"

#include "base/limits.h"
#include "base/list.h"
#include "base/own.h"
#include "rpc/call.h"
#include "tools/box/tool.h"
#include "tools/jobs/jobs.h"
#include "tools/session/session.h"

static void ask_next(void *arg);

/* That of the run which waits for another call; NULL: there is none. */
static struct cell_elicitation *late_of(const struct tools *tools, const struct run *run)
{
    return list_find(tools->elicitations->list, elicitation,
                     elicitation->late.loop && elicitation->run == run);
}

/* The next to ask. A client that does not come back for one run holds up no other. */
static struct cell_elicitation *next_of(const struct tools *tools)
{
    return list_find(tools->elicitations->list, elicitation, !late_of(tools, elicitation->run));
}

/* From the loop, so that what ends several elicitations at once asks none of them. */
static void go_on(struct tools *tools)
{
    if (!tools->elicitations->now && next_of(tools)) {
        loop_task_queue(tools->loop, &tools->elicitations->next, ask_next, tools);
    }
}

/* Why the user is not asked any more; NULL: there is no reason. Also when its turn comes: many may
 * wait before the first is refused. */
static const char *enough(const struct run *run)
{
    return run->asked.refused >= LIMIT_TOOL_REFUSALS
               ? "It needs the user's approval, and that was refused three times in this cell; the "
                 "user is not asked again before the next one."
           : run->asked.count >= LIMIT_TOOL_ASKED
               ? "It needs the user's approval, and the user was asked 100 times in this cell, and "
                 "is not asked again before the next one."
               : NULL;
}

static bool is_listed(const struct tools *tools, const struct run *run)
{
    return list_find(tools->elicitations->list, elicitation, elicitation->run == run);
}

/* The time of a run stands still as long as it has one, also behind those of others. */
static void add(struct tools *tools, struct cell_elicitation *elicitation)
{
    if (!is_listed(tools, elicitation->run)) {
        sessions_stop_clock(tools->sessions, elicitation->run, true);
    }
    list_append(&tools->elicitations->list, elicitation);
}

static void leave_out(struct tools *tools, struct cell_elicitation *elicitation)
{
    list_remove(&tools->elicitations->list, elicitation);
    if (!is_listed(tools, elicitation->run)) {
        sessions_stop_clock(tools->sessions, elicitation->run, false);
    }
}

static void end(struct tools *tools, struct cell_elicitation *elicitation, const char *why,
                const json_t *content)
{
    leave_out(tools, elicitation);
    elicitation->fn(elicitation, why, content);
    go_on(tools);
}

static void nobody_responded(void *arg)
{
    struct cell_elicitation *elicitation = arg;
    struct tools *tools = elicitation->asker;
    elicitation->run->asked.refused++;
    end(tools, elicitation, "The user did not respond.", NULL);
}

/* Which comes again for the run, by whatever call. */
static void wait_for_client(struct tools *tools, struct cell_elicitation *elicitation)
{
    if (!elicitation->late.loop) {
        loop_timer_in(tools->loop, &elicitation->late, LIMIT_ELICITATION_MS, nobody_responded,
                      elicitation);
    }
    go_on(tools);
}

static void user_responded(void *arg, enum consent_outcome outcome, const char *why,
                           const json_t *content)
{
    struct tools *tools = arg;
    struct cell_elicitation *elicitation = take_ptr(tools->elicitations->now);
    struct rpc_call *call = take_ptr(tools->elicitations->call);
    if (outcome == CONSENT_LATER) {
        jobs_left(call);
        wait_for_client(tools, elicitation);
        return;
    }
    loop_timer_disarm(&elicitation->late);
    jobs_asked(call);
    elicitation->run->asked.refused += outcome == CONSENT_REFUSED;
    elicitation->run->asked.count++;
    if (outcome != CONSENT_GIVEN && !why) {
        why = "The call of run_python was cancelled.";
    }
    end(tools, elicitation, why, content);
    if (rpc_call_cancelled(call)) { /* of which only the elicitation has learned */
        struct tool_work *work = rpc_call_data(call);
        work->cancel(work);
    }
}

static void ask_through(struct tools *tools, struct cell_elicitation *elicitation,
                        struct rpc_call *call, const char *state)
{
    tools->elicitations->now = elicitation;
    tools->elicitations->call = call;
    consents_ask(tools->consents, call,
                 &(struct consent){.kind = elicitation->kind,
                                   .subject = elicitation->subject,
                                   .message = elicitation->message,
                                   .form = elicitation->form,
                                   .flag = "--tools",
                                   .remedy = "remove ask from its grant in the file of --tools",
                                   .each = elicitation->number,
                                   .state = state},
                 user_responded, tools);
}

static void ask_next(void *arg)
{
    struct tools *tools = arg;
    struct cell_elicitation *elicitation = next_of(tools);
    if (!elicitation) {
        return; /* it has been withdrawn */
    }
    const char *text = enough(elicitation->run);
    struct rpc_call *call = text ? NULL : jobs_ask(tools->jobs, elicitation->run, &text);
    if (call) {
        ask_through(tools, elicitation, call, text);
    } else if (text) {
        end(tools, elicitation, text, NULL);
    } else {
        wait_for_client(tools, elicitation);
    }
}

static void ask(void *ctx, struct cell_elicitation *elicitation)
{
    struct tools *tools = ctx;
    const char *why = enough(elicitation->run);
    if (why) {
        elicitation->fn(elicitation, why, NULL);
        return;
    }
    elicitation->number = ++tools->elicitations->asked;
    elicitation->asker = tools;
    add(tools, elicitation);
    go_on(tools);
}

static void withdraw(void *ctx, struct cell_elicitation *elicitation)
{
    struct tools *tools = ctx;
    struct cell_elicitations *elicitations = tools->elicitations;
    if (elicitations->now == elicitation) {
        consents_withdraw(tools->consents, tools);
        elicitations->now = NULL;
        jobs_asked(take_ptr(elicitations->call));
    }
    loop_timer_disarm(&elicitation->late);
    leave_out(tools, elicitation);
    go_on(tools);
}

void cell_elicitations_call_waits(struct tools *tools, const struct run *run)
{
    struct cell_elicitation *elicitation = late_of(tools, run);
    if (elicitation) {
        loop_timer_disarm(&elicitation->late);
        go_on(tools);
    }
}

void cell_elicitations_polled(struct tools *tools, const struct run *run, struct rpc_call *call)
{
    struct cell_elicitation *elicitation = late_of(tools, run);
    if (elicitation && !tools->elicitations->now && rpc_call_can_elicit(call)) {
        ask_through(tools, elicitation, call, NULL);
    }
}

void cell_elicitations_init(struct tools *tools)
{
    tools->elicitations->asker = (struct cell_asker){tools, ask, withdraw};
}

void cell_elicitations_done(struct tools *tools)
{
    loop_task_cancel(&tools->elicitations->next);
}
