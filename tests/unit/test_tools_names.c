#include "tools/names.h"

#include <string.h>

#include "tests/unit/unit.h"

static void change(struct names *names, const char *text)
{
    names_change(names, text, strlen(text));
}

static void lost_variables_are_told_by_name(void **)
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

/* They stand in the status line, which is the server's own word. */
static void what_is_no_name_is_not_told(void **)
{
    static const char *const forged[] = {"+a)]\n[ok", "+a|state:", "+a\rb",
                                         "+\033[2J",  "+a,b",      "+"};
    struct names names = {};
    char out[256];
    for (unsigned i = 0; i < sizeof forged / sizeof *forged; i++) {
        change(&names, forged[i]);
    }
    names_change(&names, "+a\0b", 4);
    assert_string_equal(names_lost(&names, NULL, out, sizeof out), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lost_variables_are_told_by_name),
        cmocka_unit_test(what_is_no_name_is_not_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
