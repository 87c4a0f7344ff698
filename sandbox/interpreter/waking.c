/* A woken checkpoint, until it is the session. Before that it runs code that the session's code can
 * have put there: handlers of os.register_at_fork, audit hooks, another `random`. Where that does
 * not end, the next older state takes over. The machine may be busy, so what counts is what the
 * process itself does; the limit of time alone is for what cannot be seen. */
#include "base/log.h"
#include "sandbox/interpreter/process.h"

enum {
    LOOK_MS = 1000,
    CPU_MS = 1000,   /* of processor time behind the first look; it needs some ten */
    LOOKS_IDLE = 10, /* in a row, in which it has used no time */
    LOOKS_MOST = 60, /* as in vfork(2), or where nobody has a /proc */
};

static void wake_failed(struct box_session *session)
{
    session->end.stalled += 1;
    session->end.stalled_cell =
        session->end.stalled > 1 ? session->end.stalled_cell : session->waking->cell;
    log_info("sandbox", "the state after cell %u does not resume: its code hangs",
             session->waking->cell);
    session_checkpoint_wake_failed(session);
}

static void wake_seen(void *arg, const struct wire_reply *reply, int[WIRE_FDS])
{
    struct box_session *session = arg;
    struct session_wake *wake = &session->wake;
    if (reply->error || session->state != PROCESS_WAKING || session->waking->pid != reply->pid) {
        return;
    }
    wake->idle = reply->idle && reply->cpu_ms == wake->cpu_ms ? wake->idle + 1 : 0;
    wake->cpu_ms = reply->cpu_ms;
    wake->first_ms = wake->looks == 1 ? reply->cpu_ms : wake->first_ms;
    if (wake->cpu_ms - wake->first_ms >= CPU_MS || wake->idle >= LOOKS_IDLE) {
        wake_failed(session);
    }
}

static void wake_look(void *arg)
{
    struct box_session *session = arg;
    struct wire_request request = {.op = WIRE_LOOK, .pid = session->waking->pid};
    session->death.looks++;
    bool is_slow = session->death.looks % (SESSION_SLOW_MS / LOOK_MS) == 0;
    if (++session->wake.looks > LOOKS_MOST) {
        wake_failed(session);
        return;
    }
    (void)box_ask(session->box, &request, wake_seen, session);
    loop_timer_in(session->box->loop, &session->timer, LOOK_MS, wake_look, session);
    if (is_slow) {
        session->events->on_slow(session->arg, &session->end); /* this may close the session */
    }
}

void session_wake_watch(struct box_session *session)
{
    session->wake = (struct session_wake){};
    loop_timer_in(session->box->loop, &session->timer, LOOK_MS, wake_look, session);
}
