#include "base/fail.h"

#include <errno.h>
#include <string.h>

#include "tests/unit/unit.h"

static void code_comes_back_negative_with_and_without_a_place(void **)
{
    struct fail fail = {};
    assert_int_equal(fail_set(&fail, ENOENT, "open %s", "x"), -ENOENT);
    assert_int_equal(fail.code, ENOENT);
    assert_string_equal(fail.text, "open x");
    assert_int_equal(fail_set(NULL, EPERM, "open %s", "x"), -EPERM);
}

static void text_that_does_not_fit_is_cut_and_ended(void **)
{
    struct fail fail = {};
    char name[2 * FAIL_TEXT];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(fail_set(&fail, EIO, "%s", name), -EIO);
    assert_int_equal(strlen(fail.text), FAIL_TEXT - 1);
}

static void description_has_the_cause_when_there_is_one(void **)
{
    char out[64];
    char small[8];
    struct fail fail = {};
    (void)fail_set(&fail, ENOENT, "open %s", "x");
    assert_ptr_equal(fail_describe(&fail, out, sizeof out), out);
    assert_string_equal(out, "open x: No such file or directory");
    assert_string_equal(fail_describe(&fail, small, sizeof small), "open x:");
    (void)fail_set(&fail, 0, "it ended");
    assert_string_equal(fail_describe(&fail, out, sizeof out), "it ended");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(code_comes_back_negative_with_and_without_a_place),
        cmocka_unit_test(text_that_does_not_fit_is_cut_and_ended),
        cmocka_unit_test(description_has_the_cause_when_there_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
