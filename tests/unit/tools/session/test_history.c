#include "tools/session/history.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/unit.h"

/* A call that makes the state of this cell and one variable. */
static void call(struct history *history, unsigned cell, const char *change)
{
    history_push(history);
    history->now.cell = cell;
    names_change(&history->now.names, change, strlen(change), 1);
}

static void undo_goes_back_call_by_call(void **)
{
    struct history history = {};
    assert_false(history_pop(&history));
    for (unsigned cell = 1; cell <= HISTORY_STEPS + 2; cell++) {
        call(&history, cell, "+x");
    }
    for (unsigned cell = HISTORY_STEPS + 1; cell > 1; cell--) {
        assert_true(history_pop(&history));
        assert_int_equal(history.now.cell, cell);
    }
    assert_false(history_pop(&history));
    assert_true(history.cut);
}

static void a_name_is_replaced_and_the_oldest_goes(void **)
{
    struct history history = {};
    char dropped[HISTORY_NAME_BYTES];
    char name[8] = "name-a";
    for (unsigned i = 0; i < HISTORY_NAMED; i++) {
        call(&history, i + 1, "+x");
        name[5] = (char)('a' + i);
        history_name(&history, name, dropped);
        assert_string_equal(dropped, "");
    }
    history_name(&history, "name-b", dropped);
    assert_string_equal(dropped, "");
    assert_int_equal(history_find(&history, "name-b")->cell, HISTORY_NAMED);
    history_name(&history, "other", dropped);
    assert_string_equal(dropped, "name-a");
    assert_null(history_find(&history, "name-a"));
    assert_int_equal(history.named_count, HISTORY_NAMED);
}

static void a_lost_checkpoint_ends_undo_at_that_step(void **)
{
    struct history history = {};
    char name[HISTORY_NAME_BYTES];
    call(&history, 1, "+a");
    history_name(&history, "one", name);
    call(&history, 2, "+b");
    call(&history, 3, "+c");
    assert_string_equal(history_forget(&history, 1, name), "one");
    assert_null(history_find(&history, "one"));
    assert_int_equal(history.steps, 1);
    assert_true(history_pop(&history));
    assert_int_equal(history.now.cell, 2);
    assert_string_equal(history.now.names.text, "a b");
}

static void the_states_of_earlier_cells_are_found(void **)
{
    struct history history = {};
    char name[HISTORY_NAME_BYTES];
    call(&history, 1, "+a");
    history_name(&history, "one", name);
    call(&history, 2, "+b");
    assert_null(history_of_cell(&history, 2));
    assert_non_null(history_of_cell(&history, 1));
    assert_non_null(history_of_cell(&history, 0));
}

static void change(struct names *names, const char *text)
{
    names_change(names, text, strlen(text), 1);
}

static void names_follow_the_changes(void **)
{
    struct names names = {};
    char text[256];
    change(&names, "+df");
    change(&names, "+model");
    change(&names, "+d");
    change(&names, "~df");
    change(&names, "-model");
    change(&names, "-unknown");
    change(&names, "+");
    assert_string_equal(names.text, "df d");
    assert_string_equal(names_lost(&names, NULL, text, sizeof text), "df, d");
    struct names rest = {};
    change(&rest, "+df");
    assert_string_equal(names_lost(&names, &rest, text, sizeof text), "d");
    assert_string_equal(names_lost(&rest, &names, text, sizeof text), "");
}

static void many_names_are_counted(void **)
{
    struct names names = {};
    char text[256];
    for (unsigned i = 0; i < 500; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "+v%03u", i);
        change(&names, name);
    }
    assert_string_equal(names_lost(&names, NULL, text, sizeof text),
                        "v000, v001, v002, v003, v004, v005, v006, v007 and 492 more");
    char small[48];
    assert_string_equal(names_lost(&names, NULL, small, sizeof small),
                        "v000, v001, v002 and 497 more");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(undo_goes_back_call_by_call),
        cmocka_unit_test(a_name_is_replaced_and_the_oldest_goes),
        cmocka_unit_test(a_lost_checkpoint_ends_undo_at_that_step),
        cmocka_unit_test(the_states_of_earlier_cells_are_found),
        cmocka_unit_test(names_follow_the_changes),
        cmocka_unit_test(many_names_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
