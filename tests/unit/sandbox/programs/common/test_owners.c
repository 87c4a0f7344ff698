/* Which session has to go when all together use too much memory. */
#include "sandbox/programs/common/memory.h"

#include "tests/unit/unit.h"

enum { NOISE = 10, IDLE = 1, GROWS, WORKS };

static struct owners before;

static void look(struct owners *now, unsigned idle, unsigned grows, unsigned works)
{
    *now = (struct owners){};
    owners_add(now, IDLE, 100, idle);
    for (unsigned i = 0; i < grows / 10; i++) {
        owners_add(now, GROWS, (pid_t)(200 + i), 10);
    }
    owners_add(now, WORKS, 300, works);
    owners_grow(now, &before, NOISE);
    before = *now;
}

static int begin(void **state)
{
    (void)state;
    before = (struct owners){};
    return 0;
}

static uint32_t culprit(const struct owners *now)
{
    return owners_culprit(now, &before)->tag;
}

static void the_largest_goes_where_nothing_is_known_of_growth(void **state)
{
    struct owners now;
    (void)state;
    look(&now, 500, 300, 20);
    assert_int_equal(culprit(&now), IDLE);
}

static void one_that_keeps_what_it_has_stays(void **state)
{
    struct owners now;
    (void)state;
    look(&now, 500, 100, 20);
    look(&now, 500, 200, 20);
    assert_int_equal(culprit(&now), GROWS);
    assert_int_equal(owners_culprit(&now, &before)->largest_pid, 219);
}

static void of_those_that_grow_the_largest_goes(void **state)
{
    struct owners now;
    (void)state;
    look(&now, 500, 100, 20);
    look(&now, 500, 200, 90);
    assert_int_equal(culprit(&now), GROWS);
}

static void slow_growth_adds_up(void **state)
{
    struct owners now;
    (void)state;
    look(&now, 500, 100, 20);
    for (unsigned i = 1; i < 5; i++) {
        look(&now, 500, 100, 20 + i * 4);
    }
    assert_int_equal(culprit(&now), WORKS);
}

static void one_whose_processes_were_killed_still_grows(void **state)
{
    struct owners now;
    (void)state;
    look(&now, 300, 100, 20);
    look(&now, 300, 200, 20);
    look(&now, 300, 180, 35);
    assert_int_equal(culprit(&now), GROWS);
}

static void growth_of_earlier_is_forgotten(void **state)
{
    struct owners now;
    (void)state;
    look(&now, 100, 100, 20);
    look(&now, 500, 100, 20);
    look(&now, 500, 120, 20);
    assert_int_equal(culprit(&now), GROWS);
}

static void more_sessions_than_it_knows_are_counted_together(void **state)
{
    static struct owners now;
    (void)state;
    now = (struct owners){};
    for (unsigned tag = 1; tag <= 2 * OWNERS; tag++) {
        owners_add(&now, tag, (pid_t)tag, 1);
    }
    assert_int_equal(now.count, OWNERS);
    assert_int_equal(owners_culprit(&now, &before)->bytes, OWNERS + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_largest_goes_where_nothing_is_known_of_growth, begin),
        cmocka_unit_test_setup(one_that_keeps_what_it_has_stays, begin),
        cmocka_unit_test_setup(of_those_that_grow_the_largest_goes, begin),
        cmocka_unit_test_setup(slow_growth_adds_up, begin),
        cmocka_unit_test_setup(one_whose_processes_were_killed_still_grows, begin),
        cmocka_unit_test_setup(growth_of_earlier_is_forgotten, begin),
        cmocka_unit_test_setup(more_sessions_than_it_knows_are_counted_together, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
