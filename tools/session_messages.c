/* What the guest says in messages: the result of a run, and what the code lacks before it is run. Code can write
 * to the session's socket itself, so each message is taken for what it is about and when it can have been sent. */
#include "base/loop.h"
#include "tools/outcome.h"
#include "tools/session_inside.h"

/* Whether the message is about the current run. Code knows its own run's number and can forge that run's
 * result; what it leaves behind for a later one is not taken for that one's. */
static bool is_of_run(const struct session *session, const struct box_message *message)
{
    return session->current && outcome_number(message, "cell") == session->current->cell;
}

/* Nonsense of hostile code; but a result may come just as its interpreter is killed, and what is lacking may
 * come for a run that was cancelled. */
static void session_stray(struct session *session, const struct box_message *message)
{
    session->strays +=
        session->state != SESSION_KILLED && !box_field_is(&message->fields[0], "needs");
}

/* The guest has said what the run lacks; or the run's time was over before that. */
static void session_checked(struct session *session, const struct box_message *message)
{
    if (session->state == SESSION_CHECKING) {
        session_packages_supply(session, message);
        return;
    }
    session->checking = false;
    session->state = SESSION_IDLE;
    session_done(session, session->current->cancelled ? RUN_CANCELLED : RUN_TIMEOUT,
                 RUN_STATE_INTERRUPTED);
    session_pump(session);
}

void session_on_message(void *arg, const struct box_message *message)
{
    struct session *session = arg;
    struct box_field status = {"", 0};
    bool expected =
        is_of_run(session, message) && (session->checking || session->state == SESSION_RUNNING ||
                                        session->state == SESSION_INTERRUPTED);
    if (!expected || !box_field_is(&message->fields[0], session->checking ? "needs" : "result")) {
        session_stray(session, message);
        return;
    }
    if (session->checking) {
        session_checked(session, message);
        return;
    }
    box_session_drain(session->guest);
    struct run *run = session->current;
    bool interrupted = session->state == SESSION_INTERRUPTED;
    enum run_outcome reason = interrupted && !run->cancelled ? RUN_TIMEOUT : RUN_CANCELLED;
    enum run_outcome outcome = RUN_ERROR;
    enum run_state state = RUN_STATE_KEPT;
    (void)box_message_get(message, "status", &status);
    outcome_take_parts(run, message);
    if (box_field_is(&status, "ok")) {
        outcome = RUN_OK;
    } else if (box_field_is(&status, "exit")) {
        outcome = RUN_EXIT;
        run->code_number = outcome_exit_code(message);
    } else if (box_field_is(&status, "interrupted")) {
        outcome = reason;
        state = RUN_STATE_INTERRUPTED;
    }
    if (interrupted && outcome == RUN_ERROR) {
        /* The interrupt came out as another exception; what made it is still the reason. */
        outcome = reason;
        state = RUN_STATE_INTERRUPTED;
    }
    session->state = SESSION_IDLE;
    session->has_state = true;
    session_state_made(session, message);
    session_state_make_room(session, message);
    run->outcome = outcome;
    run->state = state;
    if (run->save[0] && !run_is_error(run) && !run->cancelled) {
        session_state_save(session);
        return;
    }
    if (run->save[0]) {
        run->saving = RUN_SAVE_FAILED;
    }
    session_done(session, outcome, state);
    session_pump(session);
}
