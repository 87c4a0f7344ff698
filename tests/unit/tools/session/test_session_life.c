#include "tools/session/session_life.h"

#include <string.h>

#include "tests/unit/unit.h"

/* Every allowed step, but for the end of the interpreter, which is allowed from OPENING on. */
static const enum session_state steps[][2] = {
    {SESSION_NONE, SESSION_WAITING},
    {SESSION_WAITING, SESSION_OPENING},
    {SESSION_WAITING, SESSION_NONE},
    {SESSION_OPENING, SESSION_CLOSING},
    {SESSION_IDLE, SESSION_PREINSTALLING},
    {SESSION_IDLE, SESSION_CHECKPOINTING},
    {SESSION_IDLE, SESSION_RESTORING},
    {SESSION_IDLE, SESSION_CHECKING},
    {SESSION_IDLE, SESSION_RUNNING},
    {SESSION_IDLE, SESSION_CLOSING},
    {SESSION_CHECKING, SESSION_CHECK_INTERRUPTED},
    {SESSION_IDLE, SESSION_LOADING},
    {SESSION_CHECKING, SESSION_SUPPLYING},
    {SESSION_CHECKING, SESSION_RUNNING},
    {SESSION_CHECK_INTERRUPTED, SESSION_KILLED},
    {SESSION_SUPPLYING, SESSION_RUNNING},
    {SESSION_RUNNING, SESSION_INTERRUPTED},
    {SESSION_RUNNING, SESSION_SWEEPING},
    {SESSION_RUNNING, SESSION_SAVING},
    {SESSION_INTERRUPTED, SESSION_KILLED},
    {SESSION_INTERRUPTED, SESSION_SWEEPING},
    {SESSION_INTERRUPTED, SESSION_SAVING},
    {SESSION_SWEEPING, SESSION_SAVING},
    {SESSION_FAILOVER, SESSION_CLOSING},
};

static bool is_listed(enum session_state from, enum session_state to)
{
    for (unsigned i = 0; i < sizeof steps / sizeof *steps; i++) {
        if (steps[i][0] == from && steps[i][1] == to) {
            return true;
        }
    }
    return false;
}

static bool is_end(enum session_state from, enum session_state to)
{
    bool has_interpreter = from != SESSION_NONE && from != SESSION_WAITING;
    bool replaced = to == SESSION_IDLE || to == SESSION_FAILOVER;
    return has_interpreter && (to == SESSION_NONE || (replaced && from != SESSION_CLOSING));
}

static void only_the_steps_of_the_diagram_are_allowed(void **)
{
    for (unsigned from = 0; from < SESSION_STATE_COUNT; from++) {
        for (unsigned to = 0; to < SESSION_STATE_COUNT; to++) {
            assert_int_equal(session_life_follows(from, to),
                             is_listed(from, to) || is_end(from, to));
        }
    }
}

static void every_state_has_a_name_and_leads_back_to_none(void **)
{
    for (unsigned state = 0; state < SESSION_STATE_COUNT; state++) {
        assert_true(strlen(session_life_name(state)) > 0);
        assert_true(state == SESSION_NONE || session_life_follows(state, SESSION_NONE));
    }
}

/* What has begun is answered by what becomes of the interpreter, never by giving it up. */
static void what_has_begun_cannot_be_abandoned(void **)
{
    unsigned begun = 0;
    for (unsigned state = 0; state < SESSION_STATE_COUNT; state++) {
        assert_false(session_life_has_begun(state) && session_life_can_abandon(state));
        begun += session_life_has_begun(state);
    }
    assert_int_equal(begun, 6);
    assert_false(session_life_can_abandon(SESSION_RESTORING));
    assert_true(session_life_can_abandon(SESSION_CHECKING));
    assert_false(session_life_has_begun(SESSION_CHECKING));
    assert_false(session_life_has_begun(SESSION_FAILOVER));
    assert_true(session_life_has_begun(SESSION_SAVING));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_steps_of_the_diagram_are_allowed),
        cmocka_unit_test(every_state_has_a_name_and_leads_back_to_none),
        cmocka_unit_test(what_has_begun_cannot_be_abandoned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
