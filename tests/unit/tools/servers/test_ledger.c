#include "tools/servers/tool_channel.h"

#include "base/buf.h"
#include "base/own.h"
#include "tests/unit/unit.h"

static void expect_listed(struct ledger *ledger, enum ledger_scope scope, unsigned cell,
                          unsigned newest, const char *expected)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    ledger_take_back(ledger, scope, cell, newest, " | ", &text);
    assert_int_equal(buf_append(&text, "", 1), 0);
    assert_string_equal(buf_bytes(&text), expected);
}

static void expect_taken_back(struct ledger *ledger, unsigned cell, const char *expected)
{
    expect_listed(ledger, LEDGER_UNDO, cell, /* newest= */ cell > 0, expected);
}

static void a_hint_that_comes_or_goes_hides_no_call(void **)
{
    struct ledger ledger = {};
    assert_true(ledger_add(&ledger, 1, "s.add", false));
    assert_true(ledger_add(&ledger, 1, "s.add", true));
    assert_true(ledger_add(&ledger, 2, "s.rows", true));
    assert_true(ledger_add(&ledger, 3, "s.later", true));
    assert_true(ledger_add(&ledger, 3, "s.later", false));
    ledger_responded(&ledger, 1, "s.add", 1);
    expect_taken_back(&ledger, 1,
                      "unknown: s.later \xC3\x97"
                      "2");
    expect_taken_back(&ledger, 0,
                      "not undone: s.add \xC3\x97"
                      "1 | unknown: s.add \xC3\x97"
                      "1");
    ledger_done(&ledger);
}

static void what_an_undo_has_taken_back_stays_so_with_later_ones(void **)
{
    struct ledger ledger = {};
    assert_true(ledger_add(&ledger, 1, "s.rows", true));
    assert_true(ledger_add(&ledger, 2, "s.first", false));
    expect_taken_back(&ledger, 1,
                      "unknown: s.first \xC3\x97"
                      "1");
    assert_true(ledger_add(&ledger, 4, "s.second", false));
    expect_taken_back(&ledger, 3,
                      "unknown: s.second \xC3\x97"
                      "1");
    expect_taken_back(&ledger, 1, "");
    ledger_done(&ledger);
}

#define ONCE                                                                                       \
    " \xC3\x97"                                                                                    \
    "1"

static void a_state_has_the_calls_that_led_to_it_and_no_others(void **)
{
    struct ledger ledger = {};
    assert_true(ledger_add(&ledger, 2, "s.two", false));
    const unsigned two = ledger.newest;
    expect_listed(&ledger, LEDGER_UNDO, 1, 0, "unknown: s.two" ONCE);
    assert_true(ledger_add(&ledger, 4, "s.four", false)); /* 3 has no calls */
    const unsigned four = ledger.newest;
    expect_listed(&ledger, LEDGER_SINCE, 3, 0, "unknown: s.four" ONCE);
    expect_listed(&ledger, LEDGER_UNDO, 4, four, "");
    expect_listed(&ledger, LEDGER_UNDO, 1, 0, "unknown: s.four" ONCE);
    expect_listed(&ledger, LEDGER_SINCE, 2, two, "unknown: s.four" ONCE);
    expect_listed(&ledger, LEDGER_SINCE, 4, four, "unknown: s.two" ONCE);
    ledger_done(&ledger);
}

/* What it forgets then is which cell has made a call, never the call. */
static void a_full_ledger_refuses_no_call(void **)
{
    enum { FULL = 1 << 16 };
    struct ledger ledger = {};
    for (unsigned cell = 1; cell <= FULL; cell++) {
        assert_true(ledger_add(&ledger, cell, "s.add", false));
    }
    assert_true(ledger_add(&ledger, FULL + 1, "s.add", false));
    assert_true(ledger_add(&ledger, FULL + 1, "s.other", false));
    ledger_responded(&ledger, FULL + 1, "s.other", 1);
    expect_listed(&ledger, LEDGER_UNDO, FULL, ledger.newest - 1,
                  "not undone: s.other" ONCE
                  " | unknown: s.add \xC3\x97"
                  "2");
    expect_listed(&ledger, LEDGER_SINCE, 0, 0,
                  "not undone: s.other" ONCE
                  " | unknown: s.add \xC3\x97"
                  "65537");
    ledger_done(&ledger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_ledger_refuses_no_call),
        cmocka_unit_test(a_hint_that_comes_or_goes_hides_no_call),
        cmocka_unit_test(a_state_has_the_calls_that_led_to_it_and_no_others),
        cmocka_unit_test(what_an_undo_has_taken_back_stays_so_with_later_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
