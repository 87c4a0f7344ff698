#include "rpc/peer.h"

#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "tests/unit/unit.h"

#define PARENT "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

/* Whether a part is taken, beside a traceparent that is valid. */
static bool takes(const char *name, const char *value)
{
    json_t *meta = json_pack("{s:s}", "traceparent", PARENT);
    (void)json_object_set_new(meta, name, json_string(value));
    json_t *trace = rpc_trace_new(meta);
    bool taken = json_object_get(trace, name) != NULL;
    assert_true(!taken || json_equal(json_object_get(trace, name), json_object_get(meta, name)));
    json_decref(trace);
    json_decref(meta);
    return taken;
}

static void expect(const char *name, const char *const *texts, bool wanted)
{
    for (; *texts; texts++) {
        if (takes(name, *texts) != wanted) {
            fail_msg("%s: %s", name, *texts);
        }
    }
}

static void a_traceparent_has_the_form_of_the_w3c(void **)
{
    static const char *const good[] = {
        PARENT, "00-00000000000000000000000000000001-0000000000000001-00",
        "fe-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff", NULL};
    static const char *const bad[] = {"",
                                      "00",
                                      PARENT "-",
                                      PARENT "0",
                                      " " PARENT,
                                      PARENT "\n",
                                      "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                                      "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
                                      "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
                                      "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
                                      "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                                      "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0g",
                                      "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-001",
                                      NULL};
    expect("traceparent", good, true);
    expect("traceparent", bad, false);
}

static void a_tracestate_has_the_form_of_the_w3c(void **)
{
    static const char *const good[] = {"a=1",
                                       "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
                                       "tenant@system=x y",
                                       "1a_-*/@=~!\"",
                                       "a=1 ,\tb=2 , ,",
                                       ",a=1",
                                       NULL};
    static const char *const bad[] = {"",           ",",      "a",         "a=",    "=1",
                                      "A=1",        "-a=1",   "a=1,a=2",   "a=b=c", "a=\x01",
                                      "a=\xC3\xA9", "a=1\tb", "a=1;b=2\n", "a = 1", NULL};
    expect("tracestate", good, true);
    expect("tracestate", bad, false);
}

static void a_tracestate_is_bounded(void **)
{
    char text[33 * 6 + 1] = "";
    for (unsigned i = 0; i < 33; i++) {
        size_t size = strlen(text);
        (void)snprintf(text + size, sizeof text - size, "%sk%u=1", i > 0 ? "," : "", i);
        assert_int_equal(takes("tracestate", text), i < 32);
    }
    char key[256 + 3] = "";
    memset(key, 'k', 257);
    memcpy(key + 256, "=1", 3);
    assert_true(takes("tracestate", key));
    char longer[512] = "k";
    (void)strcat(longer, key);
    assert_false(takes("tracestate", longer));
    memset(longer, 'v', 258);
    memcpy(longer, "k=", 2);
    longer[258] = '\0';
    assert_true(takes("tracestate", longer));
    longer[258] = 'v';
    longer[259] = '\0';
    assert_false(takes("tracestate", longer));
}

static void baggage_has_the_form_of_the_w3c(void **)
{
    static const char *const good[] = {"a=1",
                                       "a=",
                                       "a = 1 ; p ; q = 2 , b=%20",
                                       "userId=alice,serverNode=DF%2028,isProduction=false",
                                       "!#=:/=<>",
                                       NULL};
    static const char *const bad[] = {
        "",      "a",    ",",      "a=1,",       "=1",   "a=1;",  "a=1;;p",   "a=\"1\"",
        "a=1 2", "a=\\", "a=\x7f", "a=\xC3\xA9", "a@=1", "a=1\n", "a=1\nb=2", NULL};
    expect("baggage", good, true);
    expect("baggage", bad, false);
}

static void a_part_is_as_long_as_the_limit_at_most(void **)
{
    char text[LIMIT_TRACE_BYTES + 2];
    memset(text, 'x', sizeof text);
    text[1] = '=';
    text[LIMIT_TRACE_BYTES] = '\0';
    assert_true(takes("baggage", text));
    text[LIMIT_TRACE_BYTES] = 'x';
    text[LIMIT_TRACE_BYTES + 1] = '\0';
    assert_false(takes("baggage", text));
}

static void each_part_stands_alone_but_a_tracestate(void **)
{
    json_t *meta = json_pack("{s:s, s:s, s:s, s:s}", "traceparent", "00-1", "tracestate", "a=1",
                             "baggage", "b=2", "other", "c=3");
    json_t *wanted = json_pack("{s:s}", "baggage", "b=2");
    json_t *trace = rpc_trace_new(meta);
    assert_true(json_equal(trace, wanted));
    json_decref(trace);
    json_decref(wanted);
    json_decref(meta);
    assert_null(rpc_trace_new(NULL));
}

static void what_is_no_plain_text_is_left_out(void **)
{
    json_t *meta = json_pack("{s:[s], s:s%, s:i}", "traceparent", PARENT, "baggage", "a=1\0b",
                             (size_t)5, "tracestate", 1);
    assert_null(rpc_trace_new(meta));
    json_decref(meta);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_traceparent_has_the_form_of_the_w3c),
        cmocka_unit_test(a_tracestate_has_the_form_of_the_w3c),
        cmocka_unit_test(a_tracestate_is_bounded),
        cmocka_unit_test(baggage_has_the_form_of_the_w3c),
        cmocka_unit_test(a_part_is_as_long_as_the_limit_at_most),
        cmocka_unit_test(each_part_stands_alone_but_a_tracestate),
        cmocka_unit_test(what_is_no_plain_text_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
