#include "rpc/message.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "rpc/text.h"
#include "tests/unit/unit.h"

static struct span span_of(const char *text)
{
    return (struct span){text, strlen(text)};
}

/* Compares the id as it is sent back. */
static void expect_id(const json_t *got, const char *id)
{
    struct buf out = BUF_EMPTY;
    assert_int_equal(got != NULL, id != NULL);
    if (id) {
        assert_int_equal(rpc_text_dump(&out, got), 0);
        assert_int_equal(buf_append(&out, "", 1), 0);
        assert_string_equal(buf_bytes(&out), id);
    }
    buf_done(&out);
}

/* Parses one line and compares kind and id (as JSON text, NULL: none). */
static void expect(const char *line, enum message_kind kind, const char *id)
{
    enum rpc_code code = RPC_PARSE_ERROR;
    const char *problem = NULL;
    json_t *rescued = NULL;
    struct message message = {};
    json_t *value = message_parse(span_of(line), &code, &problem, &rescued, &(bool){false});
    assert_non_null(value);
    message_classify(value, &message);
    assert_int_equal(message.kind, kind);
    expect_id(message.id, id);
    json_decref(value);
}

static void expect_refused(const char *line, enum rpc_code wanted, const char *id)
{
    enum rpc_code code = RPC_PARSE_ERROR;
    const char *problem = NULL;
    json_t *rescued = NULL;
    assert_null(message_parse(span_of(line), &code, &problem, &rescued, &(bool){false}));
    assert_int_equal(code, wanted);
    assert_non_null(problem);
    expect_id(rescued, id);
    json_decref(rescued);
}

static void integers_beyond_64_bits_are_reals(void **)
{
    static const char line[] =
        "{\"id\":7,\"s\":\"99999999999999999999\",\"a\":[1,18446744073709551615,"
        "-9223372036854775808,9223372036854775807,0.12345678901234567890]}";
    enum rpc_code code = RPC_PARSE_ERROR;
    const char *problem = NULL;
    json_t *rescued = NULL;
    struct buf out = BUF_EMPTY;
    json_t *value = message_parse(span_of(line), &code, &problem, &rescued, &(bool){false});
    assert_int_equal(rpc_text_dump(&out, value), 0);
    assert_int_equal(buf_append(&out, "", 1), 0);
    assert_string_equal(buf_bytes(&out),
                        "{\"id\":7,\"s\":\"99999999999999999999\",\"a\":[1,1.8446744073709552e19,"
                        "-9.2233720368547758e18,9.2233720368547758e18,0.12345678901234568]}");
    assert_null(rescued);
    buf_done(&out);
    json_decref(value);
}

static void kinds_of_message_are_distinguished(void **)
{
    expect("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", MESSAGE_REQUEST, "1");
    expect("{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":null}", MESSAGE_NOTIFICATION, NULL);
    expect("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", MESSAGE_RESPONSE, "1");
    expect("{\"jsonrpc\":\"2.0\",\"error\":{}}", MESSAGE_RESPONSE, NULL);
    expect("{\"jsonrpc\":\"2.0\",\"id\":1}", MESSAGE_INVALID, "1");
    expect("{\"jsonrpc\":\"1.0\",\"id\":6,\"method\":\"ping\"}", MESSAGE_INVALID, "6");
    expect("{\"id\":7,\"method\":\"ping\"}", MESSAGE_INVALID, "7");
    expect("{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":5}", MESSAGE_INVALID, "9");
    expect("{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"ping\\u0000\"}", MESSAGE_INVALID, "9");
    expect("42", MESSAGE_INVALID, NULL);
}

static void ids_come_back_as_they_were(void **)
{
    expect("{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"p\"}", MESSAGE_REQUEST, "0");
    expect("{\"jsonrpc\":\"2.0\",\"id\":\"\",\"method\":\"p\"}", MESSAGE_REQUEST, "\"\"");
    expect("{\"jsonrpc\":\"2.0\",\"id\":-9223372036854775808,\"method\":\"p\"}", MESSAGE_REQUEST,
           "-9223372036854775808");
    expect(
        "{\"params\":{\"id\":[1e3,{}]},\"jsonrpc\":\"2.0\",\"id\" : 9223372036854775807 ,"
        "\"method\":\"p\"}",
        MESSAGE_REQUEST, "9223372036854775807");
    expect("{\"jsonrpc\":\"2.0\",\"id\":\"\\u0061\\u2028\",\"method\":\"p\"}", MESSAGE_REQUEST,
           "\"a\\u2028\"");
}

static void other_ids_are_invalid(void **)
{
    expect("{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"p\"}", MESSAGE_INVALID, NULL);
    expect("{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"p\"}", MESSAGE_INVALID, NULL);
    expect("{\"jsonrpc\":\"2.0\",\"id\":1.0,\"method\":\"p\"}", MESSAGE_INVALID, NULL);
    expect("{\"jsonrpc\":\"2.0\",\"id\":true,\"method\":\"p\"}", MESSAGE_INVALID, NULL);
    expect("{\"jsonrpc\":\"2.0\",\"id\":[1],\"method\":\"p\"}", MESSAGE_INVALID, NULL);
}

static void bad_text_is_a_parse_error(void **)
{
    expect_refused("this is not json", RPC_PARSE_ERROR, NULL);
    expect_refused("{\"id\":\"\xFF\"}", RPC_PARSE_ERROR, NULL);
    expect_refused("{\"id\":\"\\ud80\"}", RPC_PARSE_ERROR, NULL);
    expect_refused("[\"surrogate \xED\xA0\x80\"]", RPC_PARSE_ERROR, NULL);
    expect_refused("[\"overlong \xC0\xAF\"]", RPC_PARSE_ERROR, NULL);
    expect_refused("[\"cut \xE2\x82\"]", RPC_PARSE_ERROR, NULL);
    expect_refused("[\"control \x01\"]", RPC_PARSE_ERROR, NULL);
    expect_refused("[\"no escape \\x41\"]", RPC_PARSE_ERROR, NULL);
    expect_refused("[\"no end", RPC_PARSE_ERROR, NULL);
    expect_refused("[\"no end\\\"", RPC_PARSE_ERROR, NULL);
    expect_refused("{\"key \\u0000 NUL\":1}", RPC_PARSE_ERROR, NULL);
    expect_refused("", RPC_PARSE_ERROR, NULL);
}

static void refused_line_keeps_an_id_that_can_be_read(void **)
{
    expect_refused("{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":", RPC_PARSE_ERROR, "5");
    expect_refused("{\"id\":\"a\",\"params\":\"\\ud80\"}", RPC_PARSE_ERROR, "\"a\"");
    expect_refused("{\"params\":\"\xFF\",\"id\":7}", RPC_PARSE_ERROR, "7");
    expect_refused("{\"method\":\"ping\",\"id\":12", RPC_PARSE_ERROR,
                   NULL); /* the beginning of 123, perhaps */
    expect_refused("{\"id\":\"a\"", RPC_PARSE_ERROR, NULL);
    expect_refused(" {\"a\":[{\"id\":1}],\"b\":\"\\\"id\\\":2\",\"id\" : 8 ,", RPC_PARSE_ERROR,
                   "8");
    expect_refused("[{\"id\":1},", RPC_PARSE_ERROR, NULL);
    expect_refused("{\"id\":{\"id\":1},", RPC_PARSE_ERROR, NULL);
    expect_refused("{\"id\":1,\"result\":\"\\ud80\"}", RPC_PARSE_ERROR, NULL);
    expect_refused("{\"id\":1,\"error\":}", RPC_PARSE_ERROR, NULL);
    expect_refused("{\"id\":5,\"a\":1,\"a\":2}", RPC_INVALID_REQUEST, "5");
    expect_refused("{\"a\":1e999,\"id\":\"x\"}", RPC_INVALID_REQUEST, "\"x\"");
}

static void depth_at_the_limit_passes_one_over_fails(void **)
{
    char line[1200] = "";
    for (unsigned depth = 256; depth <= 257; depth++) {
        size_t n = 0;
        memset(line, 0, sizeof line);
        memcpy(line, "{\"id\":3,\"a\":", 12);
        n = 12;
        memset(line + n, '[', depth - 1);
        memset(line + n + depth - 1, ']', depth - 1);
        line[n + 2U * (depth - 1)] = '}';
        if (depth == 256) {
            expect(line, MESSAGE_INVALID, "3");
        } else {
            expect_refused(line, RPC_INVALID_REQUEST, "3");
        }
    }
}

static void number_of_values_is_limited(void **)
{
    for (size_t count = LIMIT_JSON_VALUES - 2; count <= LIMIT_JSON_VALUES - 1; count++) {
        struct buf line = BUF_EMPTY;
        assert_int_equal(buf_append_text(&line, "{\"id\":8,\"a\":[\",[{\""), 0);
        for (size_t i = 0; i < count - 1; i++) {
            assert_int_equal(buf_append_text(&line, ",0"), 0);
        }
        assert_int_equal(buf_append(&line, "]}", 3), 0);
        if (count < LIMIT_JSON_VALUES - 1) {
            expect(buf_bytes(&line), MESSAGE_INVALID, "8");
        } else {
            expect_refused(buf_bytes(&line), RPC_INVALID_REQUEST, "8");
        }
        buf_done(&line);
    }
}

static void errors_may_have_no_id(void **)
{
    struct buf out = BUF_EMPTY;
    assert_int_equal(message_write_error(&out, NULL, RPC_PARSE_ERROR, "no", NULL), 0);
    assert_int_equal(buf_append(&out, "", 1), 0);
    assert_string_equal(buf_bytes(&out),
                        "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32700,\"message\":\"no\"}}");
    buf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_beyond_64_bits_are_reals),
        cmocka_unit_test(kinds_of_message_are_distinguished),
        cmocka_unit_test(ids_come_back_as_they_were),
        cmocka_unit_test(other_ids_are_invalid),
        cmocka_unit_test(bad_text_is_a_parse_error),
        cmocka_unit_test(refused_line_keeps_an_id_that_can_be_read),
        cmocka_unit_test(depth_at_the_limit_passes_one_over_fails),
        cmocka_unit_test(number_of_values_is_limited),
        cmocka_unit_test(errors_may_have_no_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
