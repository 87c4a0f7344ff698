
#include <string.h>

#include "tests/unit/unit.h"
#include "tools/install/install_request.h"

static struct install_config config;
static char text[200];

static int set_up(void **)
{
    config = (struct install_config){};
    return 0;
}

static void add(struct install_words *words, const char *word)
{
    words->at[words->count++] = word;
}

static bool allowed(const char *requirement)
{
    char name[REQUIREMENT_NAME_BYTES];
    char wrong[REQUIREMENT_TEXT_BYTES];
    assert_null(requirement_check(requirement, strlen(requirement), name, wrong));
    return install_policy_refusal(&config, name, text, sizeof text) == NULL;
}

static void without_patterns_all_are_allowed(void **)
{
    assert_true(allowed("anything"));
}

static void only_allowed_names_are_allowed(void **)
{
    add(&config.allow, "numpy,pandas, scikit-*");
    add(&config.allow, "Zope.Interface");
    assert_true(allowed("NumPy"));
    assert_true(allowed("scikit_learn"));
    assert_true(allowed("zope-interface"));
    assert_false(allowed("numpy-financial"));
    assert_non_null(strstr(text, "numpy-financial is not an allowed package"));
    assert_false(allowed("num"));
}

static void denied_wins_over_allowed_and_names_the_pattern(void **)
{
    add(&config.allow, "*");
    add(&config.deny, "py-test*,b[ao]d");
    assert_true(allowed("pytest"));
    assert_false(allowed("Py_Test.X"));
    assert_string_equal(text, "py-test-x is refused (--deny-package py-test*)");
    assert_false(allowed("bod"));
    assert_true(allowed("bid"));
}

static void empty_patterns_match_nothing(void **)
{
    add(&config.deny, ", ,");
    assert_true(allowed("a"));
    add(&config.allow, "");
    assert_false(allowed("a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(without_patterns_all_are_allowed, set_up),
        cmocka_unit_test_setup(only_allowed_names_are_allowed, set_up),
        cmocka_unit_test_setup(denied_wins_over_allowed_and_names_the_pattern, set_up),
        cmocka_unit_test_setup(empty_patterns_match_nothing, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
