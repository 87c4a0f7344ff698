#include "tools/run/fate.h"

#include <signal.h>
#include <string.h>

#include "tests/unit/unit.h"

static const struct box_end by_signal = {.kind = BOX_END_SIGNAL, .code = SIGSEGV};
static const struct box_end by_interrupt = {.kind = BOX_END_SIGNAL, .code = SIGINT};
static const struct box_end by_exit = {.kind = BOX_END_EXIT};
static const struct box_end by_us = {.kind = BOX_END_KILLED};
static const struct box_end for_memory = {.kind = BOX_END_OOM};
static const struct box_end refused = {.kind = BOX_END_REFUSED};

#define STATUS(text) .status = {text, sizeof text - 1}
#define RAN .has_run = true, .began = true

struct row {
    struct fate_facts facts;
    enum run_outcome outcome;
    enum run_state state;
    bool late;
};

static void check(const struct row *rows, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct fate fate = run_fate(&rows[i].facts);
        assert_true(fate.done);
        assert_int_equal(fate.outcome, rows[i].outcome);
        assert_int_equal(fate.state, rows[i].state);
        assert_int_equal(fate.interrupted, rows[i].state == RUN_STATE_INTERRUPTED);
        assert_int_equal(fate.late, rows[i].late);
        assert_int_equal(fate.killed, rows[i].facts.killed);
        assert_int_equal(fate.began, rows[i].facts.began);
        assert_int_equal(fate.report, REPORT_NOTHING);
    }
}

#define CHECK(rows) check(rows, sizeof rows / sizeof *rows)

static void a_result_tells_how_the_code_ended(void **)
{
    static const struct row rows[] = {
        {{FATE_RESULT, RAN, STATUS("ok")}, RUN_OK, RUN_STATE_KEPT},
        {{FATE_RESULT, RAN, STATUS("exit")}, RUN_EXIT, RUN_STATE_KEPT},
        {{FATE_RESULT, RAN, STATUS("error")}, RUN_ERROR, RUN_STATE_KEPT},
        {{FATE_RESULT, RAN, STATUS("")}, RUN_ERROR, RUN_STATE_KEPT},
        {{FATE_RESULT, RAN, STATUS("interrupted")}, RUN_CANCELLED, RUN_STATE_INTERRUPTED},
    };
    CHECK(rows);
}

static void an_interrupt_is_the_reason_of_what_it_raised(void **)
{
    static const struct row rows[] = {
        {{FATE_RESULT, RAN, .interrupted = true, STATUS("interrupted")},
         RUN_TIMEOUT,
         RUN_STATE_INTERRUPTED},
        {{FATE_RESULT, RAN, .interrupted = true, STATUS("error")},
         RUN_TIMEOUT,
         RUN_STATE_INTERRUPTED},
        {{FATE_RESULT, RAN, .interrupted = true, .cancelled = true, STATUS("error")},
         RUN_CANCELLED,
         RUN_STATE_INTERRUPTED},
        {{FATE_RESULT, RAN, .interrupted = true, STATUS("ok")}, RUN_OK, RUN_STATE_KEPT, true},
        {{FATE_RESULT, RAN, .interrupted = true, STATUS("exit")}, RUN_EXIT, RUN_STATE_KEPT, true},
        {{FATE_RESULT, RAN, .interrupted = true, .cancelled = true, STATUS("ok")},
         RUN_OK,
         RUN_STATE_KEPT},
        {{FATE_RESULT, RAN, .interrupted = true, .stopped = true, STATUS("ok")},
         RUN_OK,
         RUN_STATE_KEPT,
         true},
        {{FATE_CHECK_ENDED, RAN, .interrupted = true}, RUN_TIMEOUT, RUN_STATE_INTERRUPTED},
        {{FATE_CHECK_ENDED, RAN, .interrupted = true, .cancelled = true},
         RUN_CANCELLED,
         RUN_STATE_INTERRUPTED},
    };
    CHECK(rows);
}

static void an_end_tells_who_ended_the_interpreter(void **)
{
    static const struct row rows[] = {
        {{FATE_RESTORED, RAN, .end = &by_signal, .exact = true}, RUN_CRASHED, RUN_STATE_RESTORED},
        {{FATE_RESTORED, RAN, .end = &by_signal}, RUN_CRASHED, RUN_STATE_RESTORED_EARLIER},
        {{FATE_RESTORED, RAN, .end = &by_signal, .killed = true, .exact = true},
         RUN_TIMEOUT,
         RUN_STATE_RESTORED},
        {{FATE_RESTORED, RAN, .end = &by_us, .killed = true, .cancelled = true, .exact = true},
         RUN_CANCELLED,
         RUN_STATE_RESTORED},
        {{FATE_RESTORED, RAN, .end = &by_us, .exact = true}, RUN_ENDED, RUN_STATE_RESTORED},
        {{FATE_RESTORED, RAN, .end = &by_interrupt, .interrupted = true, .exact = true},
         RUN_TIMEOUT,
         RUN_STATE_RESTORED},
        {{FATE_RESTORED, RAN, .end = &by_signal, .interrupted = true, .exact = true},
         RUN_CRASHED,
         RUN_STATE_RESTORED},
        {{FATE_RESTORED, RAN, .end = &by_exit, .killed = true, .exact = true},
         RUN_EXIT,
         RUN_STATE_RESTORED},
        {{FATE_RESTORED, RAN, .end = &for_memory, .killed = true, .exact = true},
         RUN_OOM,
         RUN_STATE_RESTORED},
    };
    CHECK(rows);
}

static void an_end_without_a_checkpoint_loses_what_was_there(void **)
{
    static const struct row rows[] = {
        {{FATE_ENDED, RAN, .end = &by_signal}, RUN_CRASHED, RUN_STATE_RESTORED},
        {{FATE_ENDED, RAN, .end = &by_signal, .had_state = true}, RUN_CRASHED, RUN_STATE_LOST},
        {{FATE_ENDED, RAN, .end = &by_us, .sandbox_ended = true}, RUN_ENDED, RUN_STATE_ALL_LOST},
        {{FATE_ENDED, .has_run = true, .end = &by_us, .sandbox_ended = true},
         RUN_ENDED,
         RUN_STATE_ALL_LOST},
        {{FATE_ENDED, RAN, .end = &by_us, .sandbox_ended = true, .files_stay = true},
         RUN_ENDED,
         RUN_STATE_LOST},
    };
    CHECK(rows);
}

static void a_fresh_run_drops_all_but_the_loss_of_files(void **)
{
    static const struct row rows[] = {
        {{FATE_RESULT, RAN, .fresh = true, STATUS("ok")}, RUN_OK, RUN_STATE_DROPPED},
        {{FATE_ENDED, RAN, .fresh = true, .end = &by_signal}, RUN_CRASHED, RUN_STATE_DROPPED},
        {{FATE_ENDED, RAN, .fresh = true, .end = &by_us, .sandbox_ended = true},
         RUN_ENDED,
         RUN_STATE_ALL_LOST},
    };
    CHECK(rows);
}

static void what_ends_slowly_is_answered_before(void **)
{
    static const struct row rows[] = {
        {{FATE_SLOW, RAN, .end = &by_us, .killed = true}, RUN_TIMEOUT, RUN_STATE_PENDING},
        {{FATE_SLOW, .has_run = true, .end = &by_us}, RUN_REFUSED, RUN_STATE_KEPT},
        {{FATE_SLOW, .has_run = true, .cancelled = true, .end = &by_us},
         RUN_CANCELLED,
         RUN_STATE_KEPT},
    };
    CHECK(rows);
    assert_non_null(run_fate(&rows[1].facts).text);
}

static void what_never_begins_has_a_result_too(void **)
{
    static const struct row rows[] = {
        {{FATE_NOTHING_TO_RUN, .has_run = true}, RUN_OK, RUN_STATE_KEPT},
        {{FATE_CANCELLED, .has_run = true, .cancelled = true}, RUN_CANCELLED, RUN_STATE_KEPT},
        {{FATE_REFUSED, .has_run = true, .why = "why"}, RUN_REFUSED, RUN_STATE_KEPT},
        {{FATE_ENDED, .has_run = true, .end = &by_signal}, RUN_REFUSED, RUN_STATE_KEPT},
        {{FATE_ENDED, .has_run = true, .end = &refused}, RUN_REFUSED, RUN_STATE_KEPT},
    };
    CHECK(rows);
    assert_string_equal(run_fate(&rows[2].facts).text, "why");
    assert_non_null(strstr(run_fate(&rows[3].facts).text, "before it was ready"));
    assert_non_null(strstr(run_fate(&rows[4].facts).text, "Landlock"));
}

/* A run that has not begun, or none, loses nothing: the session reports what became of its state.
 */
static void a_run_that_has_not_begun_waits(void **)
{
    static const struct {
        struct fate_facts facts;
        enum fate_report report;
    } rows[] = {
        {{FATE_RESTORED, .has_run = true, .end = &by_signal}, REPORT_RESTORED},
        {{FATE_RESTORED, .end = &by_signal}, REPORT_RESTORED},
        {{FATE_ENDED, .has_run = true, .had_state = true, .end = &by_signal},
         REPORT_VARIABLES_LOST},
        {{FATE_ENDED, .had_state = true, .end = &by_signal}, REPORT_VARIABLES_LOST},
        {{FATE_ENDED, .end = &by_signal}, REPORT_NOTHING},
        {{FATE_ENDED, .has_run = true, .unread = true, .end = &by_exit}, REPORT_NOTHING},
        {{FATE_ENDED, .has_run = true, .unread = true, .branch = true, .end = &by_us},
         REPORT_NOTHING},
        {{FATE_ENDED, .has_run = true, .closing = true, .end = &by_us}, REPORT_NOTHING},
        {{FATE_SLOW, .end = &by_us}, REPORT_NOTHING},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fate fate = run_fate(&rows[i].facts);
        assert_false(fate.done);
        assert_int_equal(fate.report, rows[i].report);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_result_tells_how_the_code_ended),
        cmocka_unit_test(an_interrupt_is_the_reason_of_what_it_raised),
        cmocka_unit_test(an_end_tells_who_ended_the_interpreter),
        cmocka_unit_test(an_end_without_a_checkpoint_loses_what_was_there),
        cmocka_unit_test(a_fresh_run_drops_all_but_the_loss_of_files),
        cmocka_unit_test(what_ends_slowly_is_answered_before),
        cmocka_unit_test(what_never_begins_has_a_result_too),
        cmocka_unit_test(a_run_that_has_not_begun_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
