#include "rpc/cut.h"

#include <stdlib.h>
#include <string.h>

#include "rpc/message.h"
#include "tests/unit/unit.h"

/* So that most literals below are long ones, or some of them. */
static const size_t literal_bytes[] = {6, 12};

struct outcome {
    json_t *value;
    enum rpc_code code;
    const char *problem;
    struct rpc_id id;
};

static struct outcome outcome_of(struct span line, const struct cut *cut)
{
    struct outcome outcome = {};
    outcome.value = message_parse(line, cut, &outcome.code, &outcome.problem, &outcome.id);
    return outcome;
}

static void outcome_done(struct outcome *outcome)
{
    json_decref(outcome->value);
    rpc_id_done(&outcome->id);
}

/* Also the order of members, which json_equal() does not look at. */
static void assert_same(const struct outcome *got, const struct outcome *wanted)
{
    assert_int_equal(got->value != NULL, wanted->value != NULL);
    if (wanted->value) {
        char *a = json_dumps(got->value, JSON_ENCODE_ANY);
        char *b = json_dumps(wanted->value, JSON_ENCODE_ANY);
        assert_true(json_equal(got->value, wanted->value));
        assert_string_equal(a, b);
        free(a);
        free(b);
        return;
    }
    assert_int_equal(got->code, wanted->code);
    assert_string_equal(got->problem, wanted->problem);
    assert_int_equal(got->id.size, wanted->id.size);
    if (wanted->id.size > 0) {
        assert_memory_equal(got->id.token, wanted->id.token, wanted->id.size);
    }
}

/* In pieces that end at the two places, then the whole. */
static void expect_same(const char *text, size_t size, size_t first, size_t second,
                        const struct outcome *wanted)
{
    struct span line = {text, size};
    for (size_t i = 0; i < sizeof literal_bytes / sizeof *literal_bytes; i++) {
        struct cut cut = CUT_EMPTY;
        cut.literal_bytes = literal_bytes[i];
        assert_int_equal(cut_line(&cut, (struct span){text, first}, /* whole= */ false), 0);
        assert_int_equal(cut_line(&cut, (struct span){text, second}, /* whole= */ false), 0);
        assert_int_equal(cut_line(&cut, line, /* whole= */ true), 0);
        struct outcome got = outcome_of(line, &cut);
        assert_same(&got, wanted);
        outcome_done(&got);
        cut_done(&cut);
    }
}

/* Wherever the line is cut, the outcome is that of the whole one. */
static void expect_all(const char *text, size_t size)
{
    struct outcome wanted = outcome_of((struct span){text, size}, NULL);
    for (size_t first = 0; first <= size; first++) {
        expect_same(text, size, first, first, &wanted);
        expect_same(text, size, first, size, &wanted);
        expect_same(text, size, first / 2, first, &wanted);
    }
    outcome_done(&wanted);
}

static void expect_each(const char *const *lines, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        expect_all(lines[i], strlen(lines[i]));
    }
}

#define EXPECT_EACH(...)                                                                           \
    do {                                                                                           \
        const char *const lines[] = {__VA_ARGS__};                                                 \
        expect_each(lines, sizeof lines / sizeof *lines);                                          \
    } while (0)

static void strings_come_back_where_they_were(void **)
{
    EXPECT_EACH(
        "{\"id\":1,\"a\":\"long enough\",\"b\":[\"x\",\"another one\",{\"c\":\"the last\"}]}",
        "\"a string alone\"", "  [\"white space around\" , \"and behind\" ]  ",
        "{\"a\":\"\",\"b\":\"123456\",\"c\":\"12345\",\"d\":\"1234567\"}", "[]", "", " ",
        "[1, 2.5, -3e7, true, false, null, \"and a string\", 123456789012345678901234]");
}

static void escapes_are_decoded(void **)
{
    EXPECT_EACH("[\"\\\"\\\\\\/\\b\\f\\n\\r\\t and on\"]", "[\"ends with a backslash\\\\\"]",
                "[\"\\u0041\\u00e9\\u20AC\\uFFFF\"]", "[\"\\ud83d\\ude00 pair \\uDBFF\\uDFFF\"]",
                "[\"U+2028 \\u2028 and raw \xE2\x80\xA8\"]",
                "[\"raw: \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80 \x7F\"]",
                "[\"long \\u0000 with NUL\"]");
}

static void what_is_no_string_is_no_line(void **)
{
    EXPECT_EACH("[\"lone high \\ud800\"]", "[\"lone high \\ud800\\n and more\"]",
                "[\"lone low \\udc00\"]", "[\"two high \\ud800\\ud800\"]", "[\"cut off \\u12\"]",
                "[\"no escape \\x41\"]", "[\"no digits \\u12G4\"]", "[\"broken \xC3(\"]",
                "[\"surrogate \xED\xA0\x80\"]", "[\"overlong \xC0\xAF\"]",
                "[\"too far \xF4\x90\x80\x80\"]", "[\"a lone byte \x80\"]", "[\"cut \xE2\x82\"]",
                "[\"control \x01\"]", "[\"tab \t here\"]", "[\"bad \\q then good\", \"fine here\"]",
                "[\"bad \\q with a \\\" quote\", \"fine here\"]");
}

static void what_lacks_its_end_is_no_line(void **)
{
    EXPECT_EACH("[\"no end at all", "[\"no end\\", "[\"no end\\\"", "[\"bad \\q no end",
                "1 \"a string that follows", "\"one string\"\"and another\"", "[1] \"", "\"abc",
                "{\"id\":5,\"a\":\"a string\"", "[\"cut \xE2\x82", "\"\\u000", "\"\\u0000");
}

static void first_mistake_is_the_one_reported(void **)
{
    EXPECT_EACH("{\"id\":7,\"a\":1,\"a\":2,\"b\":\"bad \\q string\"}",
                "{\"id\":7,\"b\":\"bad \\q string\",\"a\":1,\"a\":2}",
                "{\"id\":\"a long id of the host's\",\"a\":1,\"a\":\"and a string\"}",
                "{\"a\":1e999,\"id\":\"a long \\u00e9 id\",\"b\":\"a string\"}",
                "{\"b\":\"a string\",\"a\":1e999,\"id\":123456789012345678901234567890}");
}

static void keys_are_no_strings(void **)
{
    EXPECT_EACH("{\"a long key\":1,\"another key\":2,\"x\":\"and a string\"}",
                "{\"a long key\":1,\"a long key\":2}", "{\"a long key\":1,\"\\u0061 long key\":2}",
                "{\"id\":3,\"a long key\" : \"of a string\", \"a long key\":1}",
                "{\"\\u00000\":1,\"a\":\"a string\"}", "{\"key \\u0000 NUL\":\"a string\"}");
}

static void nobody_forges_a_mark(void **)
{
    EXPECT_EACH("[\"\\u0000\",\"\\u00000\",\"\\u00001\",\"a string that is long\"]",
                "[\"\\u00007\"]", "{\"a\":\"\\u00000\",\"b\":\"a string that is long\"}",
                "\"\\u00000\"", "[\"\\u0001\"]", "[\"\\\\u0000\"]");
}

/* Brackets in a string do not count, also where it is not valid and where quotes stand in it. */
static void depth_is_bounded_as_ever(void **)
{
    static const char *const inner[] = {"\"[[ a string ]]\"", "\"\\q \\\" [[ bad ]]\""};
    char line[700];
    for (size_t i = 0; i < 4; i++) {
        size_t depth = 256 + i / 2;
        size_t length = strlen(inner[i % 2]);
        size_t size = 2 * depth + length;
        memset(line, '[', depth);
        memcpy(line + depth, inner[i % 2], length);
        memset(line + depth + length, ']', depth);
        struct outcome wanted = outcome_of((struct span){line, size}, NULL);
        expect_same(line, size, depth + 9, depth + 15, &wanted);
        outcome_done(&wanted);
    }
}

static void decoding_keeps_step_with_what_comes_in(void **)
{
    enum { SIZE = 100000, PIECE = 1000 };
    char *line = malloc(SIZE);
    struct cut cut = CUT_EMPTY;
    assert_non_null(line);
    memset(line, 'x', SIZE);
    line[0] = '[';
    line[1] = '"';
    line[SIZE - 2] = '"';
    line[SIZE - 1] = ']';
    for (size_t size = PIECE; size < SIZE; size += PIECE) {
        assert_int_equal(cut_line(&cut, (struct span){line, size}, /* whole= */ false), 0);
        assert_true(size < CUT_LITERAL_BYTES || cut.at == size);
    }
    assert_int_equal(cut_line(&cut, (struct span){line, SIZE}, /* whole= */ true), 0);
    assert_in_range(cut_rest(&cut).size, 5, 20);
    cut_done(&cut);
    free(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_come_back_where_they_were),
        cmocka_unit_test(escapes_are_decoded),
        cmocka_unit_test(what_is_no_string_is_no_line),
        cmocka_unit_test(what_lacks_its_end_is_no_line),
        cmocka_unit_test(first_mistake_is_the_one_reported),
        cmocka_unit_test(keys_are_no_strings),
        cmocka_unit_test(nobody_forges_a_mark),
        cmocka_unit_test(depth_is_bounded_as_ever),
        cmocka_unit_test(decoding_keeps_step_with_what_comes_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
