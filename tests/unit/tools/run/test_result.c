#include "tools/run/result.h"

#include <string.h>

#include "schema/schema.h"
#include "tests/unit/unit.h"
#include "tools/run/run.h"

static struct run *run;

static int set_up(void **)
{
    run = run_new("pass", 4, NULL, 0);
    return run ? 0 : -1;
}

static int tear_down(void **)
{
    run_free(run);
    return 0;
}

static void put(enum run_fact fact, const char *value)
{
    run_add(run, fact, value, strlen(value));
}

/* The structured form, which is what the schema says. */
static json_t *structured(void)
{
    struct schema_violation violations[4];
    json_auto_t *schema = schema_output("run_python");
    json_t *object = result_structured(run, true);
    assert_non_null(schema);
    assert_non_null(object);
    if (schema_validate(schema, object, violations, 4) > 0) {
        fail_msg("%s: %s", violations[0].pointer, violations[0].text);
    }
    return object;
}

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static void every_outcome_is_as_the_schema_says(void **)
{
    for (int outcome = 0; outcome < RUN_OUTCOME_COUNT; outcome++) {
        run->end.outcome = (enum run_outcome)outcome;
        run->end.process.code = 9;
        json_t *object = structured();
        assert_int_equal(json_object_get(object, "exit_code") != NULL, outcome == RUN_EXIT);
        assert_int_equal(json_object_get(object, "signal") != NULL, outcome == RUN_CRASHED);
        json_decref(object);
    }
}

static void streams_stand_apart_and_a_cut_is_reported(void **)
{
    char many[20000];
    memset(many, 'x', sizeof many);
    output_add(&run->output, 0, "out\n", 4);
    output_add(&run->errors, 1, "err\n", 4);
    json_t *object = structured();
    assert_string_equal(text_of(object, "stdout"), "out\n");
    assert_string_equal(text_of(object, "stderr"), "err\n");
    assert_true(json_is_false(json_object_get(object, "truncated")));
    json_decref(object);
    output_add(&run->errors, 1, many, sizeof many);
    (void)strcpy(run->output.file, "/tmp/o");
    object = structured();
    assert_true(json_is_true(json_object_get(object, "truncated")));
    assert_string_equal(text_of(object, "output_file"), "/tmp/o");
    json_decref(object);
}

static void files_have_their_exact_size_and_type(void **)
{
    put(RUN_FILES, "+a (1) b.png");
    put(RUN_FILE_SIZES, "1234");
    put(RUN_FILES, "-gone.txt");
    put(RUN_FILE_SIZES, "0");
    put(RUN_FILES, "~x");
    put(RUN_FILE_SIZES, "7");
    json_t *object = structured();
    const json_t *files = json_object_get(object, "files");
    assert_int_equal(json_array_size(files), 3);
    assert_string_equal(text_of(json_array_get(files, 0), "path"), "a (1) b.png");
    assert_string_equal(text_of(json_array_get(files, 0), "mime"), "image/png");
    assert_int_equal(json_integer_value(json_object_get(json_array_get(files, 0), "size")), 1234);
    assert_string_equal(text_of(json_array_get(files, 1), "change"), "removed");
    assert_string_equal(text_of(json_array_get(files, 1), "path"), "gone.txt");
    assert_string_equal(text_of(json_array_get(files, 2), "change"), "changed");
    assert_int_equal(json_integer_value(json_object_get(json_array_get(files, 2), "size")), 7);
    json_decref(object);
}

static void forged_parts_do_no_harm(void **)
{
    static const char *const odd[] = {"", "+", "+(", "-", "\n", "+a", "+ ()", "\xff"};
    for (unsigned i = 0; i < sizeof odd / sizeof *odd; i++) {
        put(RUN_FILES, odd[i]);
        put(RUN_FILE_SIZES, "99999999999999999999");
        put(RUN_VARS, odd[i]);
        put(RUN_IMAGES, odd[i]);
        put(RUN_ERROR_LINE, odd[i]);
        put(RUN_CPU_MS, "-1");
        put(RUN_JSON, odd[i]);
        json_t *object = structured();
        assert_null(json_object_get(object, "result_json"));
        json_decref(object);
    }
}

static void an_exception_is_an_object(void **)
{
    run->end.outcome = RUN_ERROR;
    put(RUN_ERROR_TYPE, "KeyError");
    put(RUN_ERROR_MESSAGE, "'k'");
    put(RUN_ERROR_CELL, "3");
    put(RUN_ERROR_LINE, "7");
    put(RUN_VALUE, "5");
    put(RUN_PEAK_BYTES, "4096");
    put(RUN_JSON, "[5, null]");
    json_t *object = structured();
    const json_t *error = json_object_get(object, "error");
    assert_string_equal(text_of(error, "message"), "'k'");
    assert_int_equal(json_integer_value(json_object_get(error, "line")), 7);
    assert_string_equal(text_of(object, "result"), "5");
    assert_int_equal(json_integer_value(json_array_get(json_object_get(object, "result_json"), 0)),
                     5);
    assert_int_equal(json_integer_value(json_object_get(object, "peak_memory_bytes")), 4096);
    json_decref(object);
}

static void the_states_have_fields_of_their_own(void **)
{
    run->end.state = RUN_STATE_RESTORED_EARLIER;
    run->end.restored_cell = 3;
    put(RUN_BACK, "back");
    put(RUN_SAVED, "saved");
    run_add_number(run, RUN_THREADS, 2);
    put(RUN_SAVE_NAME, "after");
    put(RUN_SAVE_DROPPED, "old");
    put(RUN_GONE, "df, model");
    put(RUN_MEMORY, "memory: 900 of 1024 MiB in use");
    put(RUN_BEFORE, "a call was cancelled");
    json_t *object = structured();
    const json_t *back = json_object_get(object, "went_back");
    const json_t *checkpoint = json_object_get(object, "checkpoint");
    assert_string_equal(text_of(back, "by"), "undo");
    assert_int_equal(json_integer_value(json_object_get(back, "cell")), 0);
    assert_null(json_object_get(back, "name"));
    assert_true(json_is_true(json_object_get(checkpoint, "saved")));
    assert_string_equal(text_of(checkpoint, "dropped"), "old");
    assert_int_equal(json_integer_value(json_object_get(object, "restored_cell")), 3);
    assert_int_equal(json_integer_value(json_object_get(object, "threads_lost")), 2);
    assert_string_equal(text_of(object, "gone"), "df, model");
    assert_string_equal(text_of(object, "memory"), "memory: 900 of 1024 MiB in use");
    assert_string_equal(text_of(object, "before"), "a call was cancelled");
    json_decref(object);
    put(RUN_SAVED, "not saved");
    put(RUN_UNSAVED, "not enough memory or processes");
    put(RUN_SAVE_DROPPED, "");
    put(RUN_BACK_NAME, "base");
    run->back_cell = 7;
    object = structured();
    back = json_object_get(object, "went_back");
    checkpoint = json_object_get(object, "checkpoint");
    assert_string_equal(text_of(back, "by"), "restore");
    assert_string_equal(text_of(back, "name"), "base");
    assert_true(json_is_false(json_object_get(checkpoint, "saved")));
    assert_string_equal(text_of(checkpoint, "name"), "after");
    assert_non_null(text_of(checkpoint, "reason"));
    json_decref(object);
}

static void the_record_has_the_same_facts_as_texts(void **)
{
    put(RUN_THREADS, "2");
    put(RUN_NOTES, "one");
    put(RUN_NOTES, "two");
    put(RUN_CAPPED, "3600");
    put(RUN_ERROR_LINE, "7");
    put(RUN_SAVED, "not saved");
    put(RUN_SAVE_NAME, "after");
    put(RUN_UNSAVED, "the call failed");
    put(RUN_BACK, "back");
    json_auto_t *result = json_object();
    json_auto_t *saved = json_object();
    json_auto_t *back = json_object();
    result_set_facts(run, RESULT_RECORD, "", result);
    result_set_facts(run, RESULT_RECORD, "checkpoint.", saved);
    result_set_facts(run, RESULT_RECORD, "went_back.", back);
    assert_int_equal(json_object_size(result), 3);
    assert_string_equal(text_of(result, "threads_lost"), "2");
    assert_string_equal(text_of(result, "error_line"), "7");
    assert_int_equal(json_array_size(json_object_get(result, "notes")), 2);
    assert_int_equal(json_object_size(saved), 3);
    assert_string_equal(text_of(saved, "saved"), "not saved");
    assert_string_equal(text_of(saved, "name"), "after");
    assert_string_equal(text_of(saved, "why"), "the call failed");
    assert_int_equal(json_object_size(back), 1);
    assert_string_equal(text_of(back, "text"), "back");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* Whether value has all members that the schema names, and those in them. */
static void expect_all(const json_t *schema, const json_t *value)
{
    const char *name = NULL;
    json_t *member = NULL;
    const json_t *items = json_object_get(schema, "items");
    if (items) {
        expect_all(items, json_array_get(value, 0));
    }
    json_object_foreach (json_object_get(schema, "properties"), name, member) {
        const json_t *found = json_object_get(value, name);
        if (!found) {
            fail_msg("nothing reports %s", name);
        }
        expect_all(member, found);
    }
}

static void all_that_the_schema_names_is_reported(void **)
{
    char many[30000];
    json_auto_t *schema = schema_output("run_python");
    json_auto_t *crash = NULL;
    memset(many, 'x', sizeof many);
    for (enum run_fact fact = 0; fact < RUN_FACT_COUNT; fact++) {
        put(fact, fact == RUN_FILES ? "+a" : "1");
    }
    output_add(&run->output, 0, many, sizeof many);
    (void)strcpy(run->output.file, "/tmp/o");
    run->job = 1;
    run->pending = 1;
    run->end.state = RUN_STATE_RESTORED_EARLIER;
    run->end.outcome = RUN_CRASHED;
    crash = structured();
    run->end.outcome = RUN_EXIT;
    json_t *object = structured();
    assert_int_equal(json_object_update_missing(object, crash), 0);
    assert_int_equal(json_object_set_new(object, "ended_jobs", json_string("")), 0); /* result.c */
    expect_all(schema, object);
    json_decref(object);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_outcome_is_as_the_schema_says),
        TEST(streams_stand_apart_and_a_cut_is_reported),
        TEST(files_have_their_exact_size_and_type),
        TEST(forged_parts_do_no_harm),
        TEST(an_exception_is_an_object),
        TEST(the_states_have_fields_of_their_own),
        TEST(the_record_has_the_same_facts_as_texts),
        TEST(all_that_the_schema_names_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
