#include "tools/session/session_internal.h"

#include "tests/unit/unit.h"

static struct lost_threads lost;
static struct run run;

static int set_up(void **)
{
    lost = (struct lost_threads){};
    run = (struct run){.end.duration_ns = 10000000000};
    return 0;
}

/* What the result of a call has that ended so, after so much processor time. */
static void ends(enum run_outcome outcome, const char *cpu_ms, const char *native,
                 const char *python)
{
    run.end.outcome = outcome;
    run_addf(&run, RUN_CPU_MS, "%s", cpu_ms);
    lost_threads_report(&lost, &run);
    assert_string_equal(run_fact(&run, RUN_NATIVE_LOST), native);
    assert_string_equal(run_fact(&run, RUN_THREADS), python);
    for (unsigned i = 0; i < RUN_FACT_COUNT; i++) {
        run_add(&run, i, "", 0);
        free(run.facts[i].data);
        run.facts[i] = (struct run_text){};
    }
}

static void resume(bool is_back)
{
    const struct box_field fields[] = {{"resumed", 7},  {"threads", 7}, {"5", 1}, {"native", 6},
                                       {"polars 4", 8}, {"python", 6},  {"2", 1}};
    lost_threads_take(&lost, &(struct box_message){fields, 7}, is_back);
}

static void the_first_result_names_them(void **)
{
    resume(true);
    ends(RUN_CRASHED, "", "polars 4", "5");
    ends(RUN_OK, "10", "", "");
}

static void a_call_that_waits_until_its_limit_names_them_again(void **)
{
    resume(true);
    ends(RUN_OK, "10", "polars 4", "5");
    ends(RUN_TIMEOUT, "1000", "polars 4", "2");
    ends(RUN_TIMEOUT, "", "polars 4", "2");    /* it was killed */
    ends(RUN_TIMEOUT, "1001", "polars 4", ""); /* threads of Python are waited for without work */
}

static void a_branch_names_them_as_it_begins(void **)
{
    resume(false);
    ends(RUN_OK, "10", "", "5");
    resume(true);
    resume(false);
    ends(RUN_OK, "10", "polars 4", "10");
}

static void what_has_threads_again_lacks_none(void **)
{
    resume(true);
    lost_threads_take(&lost, &(struct box_message){&(struct box_field){"begun", 5}, 1}, false);
    ends(RUN_TIMEOUT, "", "", "");
}

/* Names of libraries are the code's. */
static void names_are_quoted(void **)
{
    const struct box_field fields[] = {{"begun", 5}, {"native", 6}, {"a | state: kept", 15}};
    lost_threads_take(&lost, &(struct box_message){fields, 3}, true);
    ends(RUN_OK, "", "\"a \\x7c state: kept\"", "");
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_first_result_names_them),
        TEST(a_call_that_waits_until_its_limit_names_them_again),
        TEST(a_branch_names_them_as_it_begins),
        TEST(what_has_threads_again_lacks_none),
        TEST(names_are_quoted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
