#include "tools/run/fate.h"

#include <signal.h>

#include "base/clock.h"

static struct fate done(const struct fate_facts *facts, enum run_outcome outcome,
                        enum run_state state)
{
    bool dropped = facts->fresh && state != RUN_STATE_ALL_LOST;
    return (struct fate){.done = true,
                         .outcome = outcome,
                         .state = !dropped        ? state
                                  : facts->branch ? RUN_STATE_BRANCH_DROPPED
                                                  : RUN_STATE_DROPPED,
                         .began = facts->began,
                         .killed = facts->killed,
                         .interrupted = state == RUN_STATE_INTERRUPTED};
}

static struct fate refused(const struct fate_facts *facts, const char *text)
{
    struct fate fate = done(facts, RUN_REFUSED, RUN_STATE_KEPT);
    fate.text = text;
    return fate;
}

/* What was stopped by us was stopped for one of three reasons. */
static enum run_outcome stopped(const struct fate_facts *facts)
{
    return facts->cancelled ? RUN_CANCELLED : facts->stopped ? RUN_STOPPED : RUN_TIMEOUT;
}

static struct fate of_result(const struct fate_facts *facts)
{
    bool is_ok = box_field_is(&facts->status, "ok");
    if (is_ok || box_field_is(&facts->status, "exit")) {
        struct fate fate = done(facts, is_ok ? RUN_OK : RUN_EXIT, RUN_STATE_KEPT);
        fate.late = facts->interrupted && !facts->cancelled;
        return fate;
    }
    if (facts->interrupted) { /* which may come out as another exception */
        return done(facts, stopped(facts), RUN_STATE_INTERRUPTED);
    }
    return box_field_is(&facts->status, "interrupted")
               ? done(facts, RUN_CANCELLED, RUN_STATE_INTERRUPTED)
               : done(facts, RUN_ERROR, RUN_STATE_KEPT);
}

static enum run_outcome outcome_of_end(const struct fate_facts *facts)
{
    static const enum run_outcome outcomes[] = {
        [BOX_END_EXIT] = RUN_EXIT,    [BOX_END_SIGNAL] = RUN_CRASHED, [BOX_END_OOM] = RUN_OOM,
        [BOX_END_DISK] = RUN_DISK,    [BOX_END_LOST] = RUN_LOST,      [BOX_END_REFUSED] = RUN_ENDED,
        [BOX_END_KILLED] = RUN_ENDED,
    };
    const struct box_end *end = facts->end;
    enum run_outcome outcome = outcomes[end->kind];
    /* The interrupt itself ends a program that has taken the interpreter's place. */
    bool by_us =
        facts->killed || (facts->interrupted && end->kind == BOX_END_SIGNAL && end->code == SIGINT);
    return by_us && (outcome == RUN_CRASHED || outcome == RUN_ENDED) ? stopped(facts) : outcome;
}

static struct fate of_restored(const struct fate_facts *facts)
{
    if (!facts->began) {
        return (struct fate){.report = REPORT_RESTORED};
    }
    return done(facts, outcome_of_end(facts),
                facts->exact ? RUN_STATE_RESTORED : RUN_STATE_RESTORED_EARLIER);
}

static struct fate of_end(const struct fate_facts *facts)
{
    if (facts->closing) {
        return (struct fate){};
    }
    if (facts->unread && !facts->sandbox_ended && !facts->had_state) {
        return (struct fate){};
    }
    if (facts->has_run && (facts->began || facts->sandbox_ended)) {
        bool all_lost = facts->sandbox_ended && !facts->files_stay;
        /* Before the first result there was nothing to lose: a fresh interpreter is as good. */
        return done(facts, outcome_of_end(facts),
                    all_lost                                   ? RUN_STATE_ALL_LOST
                    : facts->had_state || facts->sandbox_ended ? RUN_STATE_LOST
                                                               : RUN_STATE_RESTORED);
    }
    if (facts->had_state) {
        return (struct fate){.report = REPORT_VARIABLES_LOST};
    }
    if (!facts->has_run) {
        return (struct fate){};
    }
    return refused(facts, facts->branch
                              ? "Nothing was run: the branch's copy of the session did not start: "
                                "processes are short, or code of the session hangs or ends in a "
                                "fork."
                          : facts->end->kind == BOX_END_REFUSED
                              ? "The sandbox is not available: Landlock could not isolate the "
                                "interpreter from others."
                              : "The sandbox is not available: the interpreter exited before it "
                                "was ready.");
}

static struct fate of_slow(const struct fate_facts *facts)
{
    if (!facts->has_run) {
        return (struct fate){};
    }
    if (facts->began) {
        return done(facts, outcome_of_end(facts), RUN_STATE_PENDING);
    }
    return facts->cancelled
               ? done(facts, RUN_CANCELLED, RUN_STATE_KEPT)
               : refused(facts,
                         "The code has not started: killed processes of an earlier call have not "
                         "exited yet, or the state before it has not resumed. Try again later, use "
                         "another session, or drop the variables with `reset`.");
}

struct fate run_fate(const struct fate_facts *facts)
{
    switch (facts->event) {
    case FATE_RESULT:
        return of_result(facts);
    case FATE_CHECK_ENDED:
        return done(facts, stopped(facts), RUN_STATE_INTERRUPTED);
    case FATE_NOTHING_TO_RUN:
        return done(facts, RUN_OK, RUN_STATE_KEPT);
    case FATE_RESTORED:
        return of_restored(facts);
    case FATE_ENDED:
        return of_end(facts);
    case FATE_SLOW:
        return of_slow(facts);
    case FATE_CANCELLED:
        return done(facts, stopped(facts), RUN_STATE_KEPT);
    case FATE_REFUSED:
    default:
        return refused(facts, facts->why);
    }
}

void run_take_fate(struct run *run, const struct fate *fate)
{
    run->end.outcome = fate->outcome;
    run->end.state = fate->state;
    run->end.interrupted = fate->interrupted;
    run->end.late = fate->late;
    run->end.killed = fate->killed;
    run->end.duration_ns = run->started_ns ? clock_now_ns() - run->started_ns : 0;
    if (fate->text) {
        const char *stopped = run_fact(run, RUN_STOPPED_JOB);
        run_addf(run, RUN_REFUSAL, "%s%s%s%s", fate->text,
                 stopped[0] ? " This call stopped job " : "", stopped, stopped[0] ? "." : "");
    }
}
