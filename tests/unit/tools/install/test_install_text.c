#include "tools/install/install.h"

#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "schema/schema.h"
#include "tests/unit/unit.h"

static struct install_report report;
static struct buf text;

static int set_up(void **)
{
    report = (struct install_report){};
    text = BUF_EMPTY;
    return 0;
}

static int tear_down(void **)
{
    json_decref(report.fetched);
    json_decref(report.installed);
    buf_done(&text);
    return 0;
}

static json_t *json(const char *source)
{
    json_t *value = json_loads(source, 0, NULL);
    assert_non_null(value);
    return value;
}

static const char *composed(void)
{
    buf_clear(&text, 0);
    assert_int_equal(install_text_compose(&report, &text), 0);
    assert_int_equal(buf_append(&text, "", 1), 0);
    return buf_bytes(&text);
}

/* The structured form, which must fit the schema. */
static json_t *structured(void)
{
    struct schema_violation violations[4];
    json_auto_t *schema = schema_output("install_package");
    json_t *object = install_text_structured(&report, "text", 4);
    assert_non_null(schema);
    assert_non_null(object);
    if (schema_validate(schema, object, violations, 4) > 0) {
        fail_msg("%s: %s", violations[0].pointer, violations[0].text);
    }
    return object;
}

static void set_installed(void)
{
    report.fetched = json(
        "{\"ok\":true,"
        "\"to_install\":[{\"name\":\"six\",\"requested\":false},"
        "{\"name\":\"pandas\",\"requested\":true}],"
        "\"already\":[{\"name\":\"numpy\",\"version\":\"2.0\"}],"
        "\"replaces\":[{\"name\":\"six\",\"from\":\"1.15\",\"to\":\"1.16\"}],"
        "\"skipped\":[\"tomli; python_version<'3'\"],\"notes\":[\"a note\"]}");
    report.installed = json(
        "{\"ok\":true,\"installed\":["
        "{\"name\":\"six\",\"version\":\"1.16\",\"imports\":[\"six\"],\"bytes\":1000},"
        "{\"name\":\"pandas\",\"version\":\"2.3.1\",\"imports\":[\"pandas\"],"
        "\"bytes\":60000000}]}");
    report.duration_ns = 3800000000;
}

static void requested_packages_come_first(void **)
{
    set_installed();
    assert_string_equal(
        composed(),
        "installed pandas 2.3.1, six 1.16 (2 packages, 60 MB, 3.8 s); import as: pandas\nalready "
        "installed: numpy 2.0\nreplaced six 1.15: an interpreter that has imported it keeps the "
        "old version until it is reset (run_python with reset=true)\nskipped, not for this "
        "machine: \"tomli; python_version<'3'\"\nnote: \"a note\"\n");
    json_auto_t *object = structured();
    const json_t *first = json_array_get(json_object_get(object, "installed"), 0);
    assert_string_equal(json_string_value(json_object_get(object, "status")), "installed");
    assert_false(json_is_true(json_object_get(first, "requested")));
    assert_int_equal(json_integer_value(json_object_get(first, "size")), 1000);
}

static void installed_packages_are_reported(void **)
{
    report.fetched = json(
        "{\"ok\":true,\"already\":[{\"name\":\"a\",\"version\":\"1\"},"
        "{\"name\":\"b\",\"version\":\"2\"}]}");
    assert_string_equal(composed(), "already installed: a 1, b 2\n");
    json_auto_t *object = structured();
    assert_string_equal(json_string_value(json_object_get(object, "status")), "already_installed");
}

static void a_long_list_is_counted(void **)
{
    report.fetched = json("{\"ok\":true,\"already\":[]}");
    json_t *already = json_object_get(report.fetched, "already");
    for (unsigned i = 0; i < 20; i++) {
        (void)json_array_append_new(already, json_pack("{s:s,s:i}", "name", "p", "version", 1));
    }
    assert_non_null(strstr(composed(), ", p and 4 more\n"));
}

static void each_failure_has_its_name_a_remedy_and_changes_nothing(void **)
{
    for (int i = INSTALL_DONE + 1; i < INSTALL_FAILURE_COUNT; i++) {
        report.failure = (enum install_failure)i;
        (void)strcpy(report.message, "it is so");
        (void)strcpy(report.log, "/tmp/output/install-1.txt");
        json_auto_t *object = structured();
        const char *reason = json_string_value(json_object_get(object, "reason"));
        json_auto_t *reply = json_pack("{s:s}", "class", reason);
        assert_int_equal(install_failure_of(reply), i);
        assert_non_null(strstr(composed(), ": it is so."));
        assert_non_null(strstr(composed(), " Nothing has changed.\n"));
        const char *remedy = json_string_value(json_object_get(object, "remedy"));
        assert_true(strlen(remedy) > 10 || i == INSTALL_UNAVAILABLE);
        assert_non_null(strstr(composed(), remedy));
    }
    json_auto_t *unknown = json("{\"class\":\"surprise\"}");
    assert_int_equal(install_failure_of(unknown), INSTALL_OTHER);
    assert_int_equal(install_failure_of(NULL), INSTALL_OTHER);
}

static void a_missing_log_is_not_mentioned(void **)
{
    report.failure = INSTALL_OTHER;
    (void)strcpy(report.message, "installer killed by signal 11");
    assert_string_equal(composed(),
                        "not installed, the installer failed: installer killed by "
                        "signal 11. Nothing has changed.\n");
    json_auto_t *object = structured();
    assert_string_equal(json_string_value(json_object_get(object, "remedy")), "");
}

static void near_names_and_versions_are_offered(void **)
{
    report.failure = INSTALL_NOT_FOUND;
    (void)strcpy(report.message, "there is no pands");
    report.fetched =
        json("{\"ok\":false,\"near\":[\"pandas\",\"panda\"],\"available\":[\"1.0\",\"2.0\"]}");
    assert_string_equal(composed(),
                        "not installed, not found: there is no pands. Similar names: "
                        "pandas, panda. Available versions: 1.0, 2.0. Nothing has "
                        "changed.\n");
    json_auto_t *object = structured();
    assert_int_equal(json_array_size(json_object_get(object, "near")), 2);
}

static void a_reply_of_another_form_says_nothing(void **)
{
    static const char *const forms[] = {
        "{\"ok\":true,\"already\":{},\"notes\":3,\"skipped\":[1,null],\"replaces\":[[]]}",
        "{\"ok\":true,\"to_install\":[7],\"already\":[{}],\"notes\":[[]]}",
        "[]",
    };
    for (unsigned i = 0; i < sizeof forms / sizeof *forms; i++) {
        report.fetched = json(forms[i]);
        report.installed = json("{\"installed\":[{\"imports\":[1]},5,{\"bytes\":-4}]}");
        (void)composed();
        json_decref(structured());
        json_decref(report.fetched);
        json_decref(report.installed);
    }
    report.fetched = report.installed = NULL;
    assert_string_equal(composed(), "nothing to install\n");
}

static void lines_from_an_index_stay_one_line(void **)
{
    report.failure = INSTALL_OTHER;
    (void)strcpy(report.message, "a\x1b[2Jb");
    assert_null(strchr(composed(), '\x1b'));
    report.failure = INSTALL_DONE;
    report.fetched = json("{\"ok\":true,\"notes\":[\"x\\r\\u0007y\"]}");
    assert_non_null(strstr(composed(), "note: \"x\\r\\x07y\"\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(requested_packages_come_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(installed_packages_are_reported, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_long_list_is_counted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(each_failure_has_its_name_a_remedy_and_changes_nothing,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_missing_log_is_not_mentioned, set_up, tear_down),
        cmocka_unit_test_setup_teardown(near_names_and_versions_are_offered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_reply_of_another_form_says_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lines_from_an_index_stay_one_line, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
