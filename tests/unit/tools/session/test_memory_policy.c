#include "tools/session/history.h"

#include "tests/unit/unit.h"

enum { LIMIT = 1000, STEPS = 3 };

static void the_fuller_the_memory_the_more_steps_go(void **)
{
    static const struct {
        unsigned used;
        unsigned state;
        bool unaffordable;
        unsigned dropped;
    } rows[] = {
        {0, 0, false, 0},
        {499, 0, false, 0},
        {500, 0, false, 1},
        {749, 0, false, 1},
        {750, 0, false, STEPS},
        {500, 500, false, 1},
        {500, 501, false, STEPS}, /* no space for replacing the state */
        {100, 600, true, 1},
        {100, 901, true, STEPS},
        /* nothing counts the memory in use: twice the state is taken */
        {0, 249, false, 0},
        {0, 250, false, 1},
        {0, 333, false, 1},
        {0, 334, false, STEPS},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct checkpoint_memory memory = {LIMIT * 100, rows[i].used * 100,
                                                 rows[i].state * 100, rows[i].unaffordable};
        assert_int_equal(checkpoint_steps_to_drop(&memory, STEPS), rows[i].dropped);
        assert_int_equal(checkpoint_steps_to_drop(&memory, 0), 0);
    }
}

static void what_checkpoints_hold_makes_way(void **)
{
    static const struct {
        unsigned used;
        unsigned state;
        unsigned held;
        bool older;
        bool newest;
    } rows[] = {
        {899, 700, 199, false, false}, /* not full */
        {900, 700, 30, false, false},  /* it holds next to nothing: the code has allocated */
        {950, 700, 100, true, false},  /* the code has allocated more than it has rewritten */
        {950, 700, 125, true, true},   /* the state is being rewritten in place */
        {950, 499, 450, true, false},  /* two copies fit */
        {950, 0, 800, true, false},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct checkpoint_memory memory = {LIMIT * 100, rows[i].used * 100,
                                                 rows[i].state * 100, false};
        assert_int_equal(checkpoint_older_make_way(&memory, rows[i].held * 100), rows[i].older);
        assert_int_equal(checkpoint_makes_way(&memory, rows[i].held * 100), rows[i].newest);
    }
}

static void warns_from_four_fifths_on(void **)
{
    struct checkpoint_memory memory = {LIMIT * 100, 799 * 100, 0, false};
    assert_false(checkpoint_memory_is_short(&memory));
    memory.used_bytes = 800 * 100;
    assert_true(checkpoint_memory_is_short(&memory));
}

static void processes_bound_the_steps(void **)
{
    assert_int_equal(checkpoint_steps_most(15), 0);
    assert_int_equal(checkpoint_steps_most(16), 1);
    assert_int_equal(checkpoint_steps_most(256), 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fuller_the_memory_the_more_steps_go),
        cmocka_unit_test(what_checkpoints_hold_makes_way),
        cmocka_unit_test(warns_from_four_fifths_on),
        cmocka_unit_test(processes_bound_the_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
