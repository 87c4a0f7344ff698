#include "tools/session/history.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/unit.h"

static unsigned cell;

static void change(struct names *names, const char *text)
{
    names_change(names, text, strlen(text), cell);
}

static void lost_variables_are_reported_by_name(void **)
{
    struct names names = {};
    struct names rest = {};
    char out[256];
    change(&names, "+df");
    change(&names, "+größe");
    change(&names, "+x");
    change(&names, "-x");
    change(&rest, "+df");
    assert_string_equal(names_lost(&names, NULL, out, sizeof out), "df, größe");
    assert_string_equal(names_lost(&names, &rest, out, sizeof out), "größe");
}

static void variables_that_a_later_cell_has_bound_are_older(void **)
{
    struct names names = {};
    char out[256];
    cell = 1;
    change(&names, "+temp");
    change(&names, "+df");
    change(&names, "+total");
    change(&names, "+kept");
    struct names before = names;
    cell = 2;
    change(&names, "-temp");
    change(&names, "~total");
    change(&names, "+new");
    cell = 3;
    change(&names, "-df");
    change(&names, "+df");
    assert_string_equal(names_older(&names, &before, out, sizeof out), "total, df");
    assert_string_equal(names_lost(&names, &before, out, sizeof out), "new");
    assert_string_equal(names_older(&names, &names, out, sizeof out), "");
    for (unsigned i = 0; i < 60; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "~n%u", i);
        cell = 4;
        change(&before, name);
        cell = 5;
        change(&names, name);
    }
    assert_string_equal(names_older(&names, &before, out, sizeof out),
                        "total, df, n0, n1, n2, n3, n4, n5 and 54 more");
}

/* They stand in the status line, which is the server's own word. */
static void invalid_names_are_not_reported(void **)
{
    static const char *const forged[] = {"+a)]\n[ok", "+a|state:", "+a\rb",
                                         "+\033[2J",  "+a,b",      "+"};
    struct names names = {};
    char out[256];
    for (unsigned i = 0; i < sizeof forged / sizeof *forged; i++) {
        change(&names, forged[i]);
    }
    names_change(&names, "+a\0b", 4, 1);
    assert_string_equal(names_lost(&names, NULL, out, sizeof out), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lost_variables_are_reported_by_name),
        cmocka_unit_test(variables_that_a_later_cell_has_bound_are_older),
        cmocka_unit_test(invalid_names_are_not_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
