#include "tools/install/install_request.h"

#include <string.h>

#include "tests/unit/unit.h"

static struct index_url url;

static void parse(const char *text)
{
    const char *why = index_url_parse(text, &url);
    if (why) {
        fail_msg("%s: %s", text, why);
    }
}

static void host_and_port_are_found(void **)
{
    static const struct {
        const char *text;
        const char *host;
        unsigned port;
    } rows[] = {
        {"https://example.org/simple", "example.org", 443},
        {"http://example.org", "example.org", 80},
        {"http://127.0.0.1:3141/root/", "127.0.0.1", 3141},
        {"https://[::1]:8443/simple/", "::1", 8443},
        {"https://[2001:db8::2]/", "2001:db8::2", 443},
        {"http://a/b@c:1/", "a", 80},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        parse(rows[i].text);
        assert_string_equal(url.host, rows[i].host);
        assert_int_equal(url.port, rows[i].port);
        assert_string_equal(url.clean, rows[i].text);
        assert_string_equal(url.login, "");
    }
}

static void credentials_are_split_off_and_decoded(void **)
{
    parse("https://user:pa%40ss%3Aword@host:8080/simple");
    assert_string_equal(url.clean, "https://host:8080/simple");
    assert_string_equal(url.login, "user");
    assert_string_equal(url.password, "pa@ss:word");
    assert_string_equal(url.password_encoded, "pa%40ss%3Aword");
    assert_string_equal(url.host, "host");
    assert_int_equal(url.port, 8080);
    parse("https://token@host/");
    assert_string_equal(url.login, "token");
    assert_string_equal(url.password, "");
    parse("https://a:b@c:d@host/x");
    assert_string_equal(url.host, "host");
    assert_string_equal(url.password, "b@c:d");
    assert_string_equal(url.clean, "https://host/x");
}

static void an_invalid_index_is_refused_and_not_repeated(void **)
{
    static const char *const rows[] = {
        "",
        "ftp://secret@host/",
        "file:///secret",
        "host/simple",
        "https://",
        "https:///simple",
        "https://u:secret@/simple",
        "https://u:secret@host:0/",
        "https://u:secret@host:65536/",
        "https://u:secret@host:12x/",
        "https://u:secret@host:/",
        "https://u:secret%0a@host/",
        "https://u:secret%2@host/",
        "https://u:secret%zz@host/",
        "https://:secret@host/",
        "https://u:secret@[::1/",
        "https://u:secret@127.1/",
        "https://u:secret@host/?q",
        "https://u:secret@host/ x",
        "https://u:secret@host/\n",
        "https://u:s\303\251cret@host/",
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *why = index_url_parse(rows[i], &url);
        if (!why || strstr(why, "secret")) {
            fail_msg("%s: %s", rows[i], why ? why : "taken");
        }
    }
    char long_one[1100] = "https://host/";
    memset(long_one + 13, 'x', sizeof long_one - 14);
    long_one[sizeof long_one - 1] = '\0';
    assert_non_null(index_url_parse(long_one, &url));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_and_port_are_found),
        cmocka_unit_test(credentials_are_split_off_and_decoded),
        cmocka_unit_test(an_invalid_index_is_refused_and_not_repeated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
