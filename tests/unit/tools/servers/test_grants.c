#include "tools/servers/grants.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/unit.h"

static char error[TOOLS_ERROR_BYTES];

static struct tools_file *parse(const char *text)
{
    error[0] = '\0';
    return tools_file_parse("tools.json", text, strlen(text), error);
}

/* A file with one server s whose entry has these members. */
static struct tools_file *parse_entry(const char *members)
{
    char text[1024];
    (void)snprintf(text, sizeof text, "{\"mcpServers\": {\"s\": {%s}}}", members);
    struct tools_file *file = parse(text);
    assert_non_null(file);
    return file;
}

static enum grant_verdict check(const struct tools_file *file, const char *tool, bool reads,
                                const char *arguments)
{
    const struct grant *by = NULL;
    json_t *value = json_loads(arguments, 0, NULL);
    enum grant_verdict verdict = grants_check(&file->entries[0], tool, reads, value, &by);
    json_decref(value);
    return verdict;
}

static void files_that_are_wrong_as_a_whole_are_refused_with_the_place(void **)
{
    static const char *const rows[][2] = {
        {"{\n\"mcpServers\": {,}}", "tools.json:2: not valid JSON"},
        {"{\"mcpServers\": {\"a\": {\"command\": \"x\"}, \"a\": {\"command\": \"y\"}}}",
         "duplicate"},
        {"{\"mcpServer\": {}}", "must have an object \"mcpServers\", it has \"mcpServer\""},
        {"[]", "mcpServers"},
        {"{\"mcpServers\": []}", "mcpServers"},
        {"", "not valid JSON"},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_null(parse(rows[i][0]));
        if (!strstr(error, rows[i][1])) {
            fail_msg("%s: %s", rows[i][0], error);
        }
    }
}

static void entries_that_are_not_understood_are_off_with_a_sentence_and_grant_nothing(void **)
{
    static const char *const rows[][2] = {
        {"\"args\": []", "command is missing"},
        {"\"command\": \"x\", \"url\": \"http://a\"", "url"},
        {"\"command\": \"x\", \"toolz\": {}", "unknown key \"toolz\""},
        {"\"command\": \"x\", \"type\": \"http\"", "stdio"},
        {"\"command\": \"x\", \"args\": [1]", "args"},
        {"\"command\": \"x\", \"env\": {\"A\": 1}", "\"A\""},
        {"\"command\": \"x\", \"cwd\": \"here\"", "absolute"},
        {"\"command\": \"x\", \"trust_hints\": \"yes\"", "trust_hints"},
        {"\"command\": \"x\", \"trust_hints\": true, \"ask\": true",
         "\"tools\": {\"*\": {\"ask\": true}}"},
        {"\"command\": \"x\", \"start_s\": 0", "start_s must be"},
        {"\"command\": \"x\", \"start_s\": 601", "start_s must be"},
        {"\"command\": \"x\", \"start_s\": \"9\"", "start_s must be"},
        {"\"command\": \"x\", \"tools\": [\"a\"]", "tools must be an object"},
        {"\"command\": \"x\", \"tools\": {\"t\": true}", "\"t\" must be an object"},
        {"\"command\": \"x\", \"tools\": {\"t\": {\"max_call\": 3}}", "unknown key \"max_call\""},
        {"\"command\": \"x\", \"tools\": {\"t\": {\"max_calls\": \"3\"}}", "max_calls"},
        {"\"command\": \"x\", \"tools\": {\"t\": {\"max_calls\": -1}}", "max_calls"},
        {"\"command\": \"x\", \"tools\": {\"t\": {\"max_calls\": 1.5}}", "max_calls"},
        {"\"command\": \"x\", \"tools\": {\"t\": {\"when\": {\"a\": \"b\"}}}", "list of strings"},
        {"\"command\": \"x\", \"tools\": {\"t\": {\"when\": {\"a\": []}}}", "list of strings"},
        {"\"command\": \"x\", \"tools\": {\"t\": {\"when\": {\"a\": [1]}}}", "list of strings"},
        {"\"command\": \"x\", \"tools\": {\"t\": {\"when\": {}}}", "when"},
        {"\"command\": \"x\", \"tools\": {\"t\": {\"when\": []}}", "when"},
        {"\"command\": \"x\", \"tools\": {\"t\": {\"ask\": \"yes\"}}", "ask of \"t\""},
        {"\"command\": \"x\", \"tools\": {\"t\": {}, \"u\": {\"x\": 1}}", "unknown key \"x\""},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tools_file *file = parse_entry(rows[i][0]);
        if (!strstr(file->entries[0].off, rows[i][1])) {
            fail_msg("%s: %s", rows[i][0], file->entries[0].off);
        }
        assert_int_equal(check(file, "t", true, "{}"), GRANT_NONE);
        tools_file_free(file);
    }
}

static void an_asterisk_is_the_only_special_character(void **)
{
    static const struct {
        const char *pattern;
        const char *tool;
        bool matches;
    } rows[] = {
        {"search_*", "search_issues", true},
        {"search_*", "search_", true},
        {"search_*", "Search_x", false},
        {"search_*", "my_search_x", false},
        {"*", "", true},
        {"*", "x", true},
        {"a*b*c", "a-b-b-c", true},
        {"a*b*c", "acb", false},
        {"a?", "ab", false},
        {"a?", "a?", true},
        {"[a]", "a", false},
        {"a.c", "abc", false},
        {"**", "x", true},
        {"*x", "aax", true},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        char members[200];
        (void)snprintf(members, sizeof members, "\"command\": \"x\", \"tools\": {\"%s\": {}}",
                       rows[i].pattern);
        struct tools_file *file = parse_entry(members);
        if ((check(file, rows[i].tool, false, "{}") == GRANT_GIVEN) != rows[i].matches) {
            fail_msg("%s %s", rows[i].pattern, rows[i].tool);
        }
        tools_file_free(file);
    }
}

static void an_exact_name_stands_alone_and_patterns_apply_together(void **)
{
    struct tools_file *file = parse_entry(
        "\"command\": \"x\", \"tools\": {\"a*\": {\"max_calls\": 2}, \"*c\": {\"max_calls\": 1}, "
        "\"abd\": {\"max_calls\": 5}}");
    struct tool_entry *entry = &file->entries[0];
    grants_count(entry, "abc"); /* counts for both patterns */
    assert_int_equal(check(file, "abc", false, "{}"), GRANT_EXHAUSTED);
    assert_int_equal(check(file, "ab", false, "{}"), GRANT_GIVEN);
    grants_count(entry, "ab"); /* which are shared by all tools that they match */
    assert_int_equal(check(file, "ab", false, "{}"), GRANT_EXHAUSTED);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(check(file, "abd", false, "{}"), GRANT_GIVEN);
        grants_count(entry, "abd");
    }
    assert_int_equal(check(file, "abd", false, "{}"), GRANT_EXHAUSTED);
    tools_file_free(file);
}

static void one_pattern_that_asks_is_enough(void **)
{
    struct tools_file *file = parse_entry(
        "\"command\": \"x\", \"tools\": {\"a*\": {\"ask\": true}, \"*c\": {\"ask\": false}, "
        "\"abd\": {}}");
    assert_true(grants_ask(&file->entries[0], "abc"));
    assert_false(grants_ask(&file->entries[0], "xc"));
    assert_false(grants_ask(&file->entries[0], "abd")); /* an exact name stands alone */
    tools_file_free(file);
}

static void when_wants_the_argument_present_a_string_and_equal_byte_for_byte(void **)
{
    struct tools_file *file = parse_entry(
        "\"command\": \"x\", \"tools\": {\"t\": {\"when\": {\"repo\": [\"me/a\", "
        "\"me/b\"]}}}");
    assert_int_equal(check(file, "t", true, "{\"repo\": \"me/b\"}"), GRANT_GIVEN);
    static const char *const refused[] = {
        "{}",
        "{\"repo\": \"Me/b\"}",
        "{\"repo\": \"me/b \"}",
        "{\"repo\": [\"me/b\"]}",
        "{\"repo\": null}",
        "{\"repo\": true}",
        "{\"Repo\": \"me/b\"}",
    };
    for (unsigned i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_int_equal(check(file, "t", true, refused[i]), GRANT_WHEN);
    }
    tools_file_free(file);
}

static void hints_count_only_where_the_file_trusts_them(void **)
{
    struct tools_file *file = parse_entry("\"command\": \"x\"");
    assert_int_equal(check(file, "t", true, "{}"), GRANT_NONE);
    tools_file_free(file);
    file = parse_entry("\"command\": \"x\", \"trust_hints\": true");
    assert_int_equal(check(file, "t", true, "{}"), GRANT_GIVEN);
    assert_int_equal(check(file, "t", false, "{}"), GRANT_NONE);
    tools_file_free(file);
}

static void a_description_fits_whatever_the_file_has(void **)
{
    char text[4096] = "{\"mcpServers\": {";
    char out[120];
    for (unsigned i = 0; i < 30; i++) {
        size_t used = strlen(text);
        (void)snprintf(text + used, sizeof text - used,
                       "%s\"server%u\": {\"command\": \"x\", \"tools\": {\"search_*\": {}, \"b\": "
                       "{\"max_calls\": 3}}}",
                       i ? ", " : "", i);
    }
    size_t used = strlen(text);
    (void)snprintf(text + used, sizeof text - used, "}}");
    struct tools_file *file = parse(text);
    assert_non_null(file);
    tools_file_describe(file, out, sizeof out);
    assert_string_equal(out,
                        "server0: search_*, b (at most 3 calls); server1: search_*, b (at most "
                        "3 calls) and 28 more");
    tools_file_summarise(file, out, 60);
    assert_string_equal(out, "server0 (2 granted) and 29 more");
    tools_file_free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_that_are_wrong_as_a_whole_are_refused_with_the_place),
        cmocka_unit_test(entries_that_are_not_understood_are_off_with_a_sentence_and_grant_nothing),
        cmocka_unit_test(an_asterisk_is_the_only_special_character),
        cmocka_unit_test(an_exact_name_stands_alone_and_patterns_apply_together),
        cmocka_unit_test(one_pattern_that_asks_is_enough),
        cmocka_unit_test(when_wants_the_argument_present_a_string_and_equal_byte_for_byte),
        cmocka_unit_test(hints_count_only_where_the_file_trusts_them),
        cmocka_unit_test(a_description_fits_whatever_the_file_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
