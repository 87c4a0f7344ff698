#include "tools/install/install_request.h"

#include <string.h>

#include "tests/unit/unit.h"

static char name[REQUIREMENT_NAME_BYTES];
static char text[REQUIREMENT_TEXT_BYTES];

static const char *check(const char *requirement)
{
    return requirement_check(requirement, strlen(requirement), name, text);
}

static void names_extras_versions_and_markers_are_taken(void **)
{
    static const char *const rows[][2] = {
        {"pandas", "pandas"},
        {" Zope.Interface ", "zope-interface"},
        {"a", "a"},
        {"ruamel.yaml==0.18.*", "ruamel-yaml"},
        {"discord.py", "discord-py"},
        {"web-py", "web-py"},
        {"foo__bar-.baz", "foo-bar-baz"},
        {"requests[security, socks] >= 2.8.1, == 2.8.*", "requests"},
        {"requests [] (>=2,<3)", "requests"},
        {"name~=1.0.post1,!=1.1,===weird+local.1", "name"},
        {"x>=1!2.0", "x"},
        {"tomli; python_version < '3.11' and os_name == \"posix\"", "tomli"},
        {"a[b];extra=='c/d@e'", "a"},
        {"a<2,", "a"},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (check(rows[i][0])) {
            fail_msg("%s: %s", rows[i][0], text);
        }
        assert_string_equal(name, rows[i][1]);
    }
}

static void urls_paths_and_options_are_refused_with_the_reason(void **)
{
    static const char *const rows[][2] = {
        {"-r requirements.txt", "option"},
        {"--index-url=http://evil.example/simple", "option"},
        {"-e .", "option"},
        {"  --pre", "option"},
        {"./local.whl", "path"},
        {"~/x", "path"},
        {"../x", "path"},
        {"/tmp/evil-1.0-py3-none-any.whl", "path"},
        {"evil-1.0-py3-none-any.whl/x", "path"},
        {"git+https://example.org/x.git", "URL"},
        {"pip @ https://example.org/pip.whl", "URL"},
        {"pip@file:///etc/passwd", "URL"},
        {"pandas @ 1.2", "name==1.2"},
        {"C:\\x", "path"},
        {"pip install pandas", "command"},
        {"uv pip install pandas", "command"},
        {"pandas numpy", "separate item"},
        {"pandas, numpy", "separate item"},
        {"pandas\n--index-url x", "separate item"},
        {"pandas=1.2", "name==1.2"},
        {"requirements.txt", "send its lines"},
        {"Requirements-Dev.TXT==1.0", "send its lines"},
        {"requirements.in", "send its lines"},
        {"pyproject.toml", "send its lines"},
        {"setup.cfg", "send its lines"},
        {"setup.py", "send its lines"},
        {"uv.lock", "send its lines"},
        {"environment.yml", "send its lines"},
        {"environment.yaml[x]", "send its lines"},
        {"pandas-2.0-py3-none-any.whl", "send its lines"},
        {"pandas-2.0.tar.gz", "send its lines"},
        {"pandas.tgz", "send its lines"},
        {"pandas.tar.bz2[x]", "send its lines"},
        {"package.json", "send its lines"},
        {"Pipfile", "send its lines"},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *why = check(rows[i][0]);
        if (!why || !strstr(why, rows[i][1])) {
            fail_msg("%s: %s", rows[i][0], why ? why : "taken");
        }
    }
}

static void malformed_requirements_are_refused(void **)
{
    static const char *const rows[] = {
        "",      " ",     "[x]",   "a[",        "a[b",    "a[b c]", "a[,]",   "a[-x]",
        "a==",   "a>=,1", "a(",    "a(>=1",     "a>=1)",  "a;",     "a ; ",   "-",
        "_a",    "a_",    "a==1;", "a==1 b==2", "a>=1 x", "a#b",    "a%0a",   "p\xc3\xa4ndas",
        "a\x7f", "a\x01", "a$(x)", "a`id`",     "a|b",    "a&b",    "a{1}",   "a:b",
        "!pip",  "%pip",  "a>1<2", "a[b]c[d]",  "a<>1",   "a==1,,", "a==1,x", "*",
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!check(rows[i])) {
            fail_msg("taken: %s", rows[i]);
        }
    }
}

static void length_is_bounded_and_nul_is_refused(void **)
{
    char long_one[REQUIREMENT_BYTES];
    memset(long_one, 'x', sizeof long_one - 1);
    long_one[sizeof long_one - 1] = '\0';
    assert_non_null(check(long_one)); /* as a name */
    memcpy(long_one, "x==1;", 5);
    assert_null(check(long_one));
    assert_non_null(requirement_check(long_one, sizeof long_one, name, text));
    assert_non_null(requirement_check("a\0b", 3, name, text));
    memset(long_one, 'x', 128);
    long_one[128] = '\0';
    assert_null(check(long_one));
    assert_int_equal(strlen(name), 128);
    memset(long_one, 'x', 129);
    long_one[129] = '\0';
    assert_non_null(check(long_one));
}

static void a_refusal_shows_no_control_characters(void **)
{
    const char *why = check("a\x1b[31m\nb");
    assert_non_null(why);
    for (const char *at = why; *at; at++) {
        assert_true(*at >= ' ' && *at <= '~');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_extras_versions_and_markers_are_taken),
        cmocka_unit_test(urls_paths_and_options_are_refused_with_the_reason),
        cmocka_unit_test(malformed_requirements_are_refused),
        cmocka_unit_test(length_is_bounded_and_nul_is_refused),
        cmocka_unit_test(a_refusal_shows_no_control_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
