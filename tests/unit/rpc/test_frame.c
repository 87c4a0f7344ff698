#include "rpc/message.h"

#include <string.h>

#include "tests/unit/unit.h"

enum { MAX = 8 };

static void feed(struct frame *frame, const char *bytes, size_t size)
{
    char *space = NULL;
    assert_int_equal(frame_reserve(frame, size, &space), 0);
    memcpy(space, bytes, size);
    frame_commit(frame, size);
}

static void expect_line(struct frame *frame, bool at_end, const char *text)
{
    struct span line = {};
    assert_int_equal(frame_next(frame, MAX, at_end, &line), FRAME_LINE);
    assert_int_equal(line.size, strlen(text));
    assert_memory_equal(line.bytes, text, line.size);
}

static void expect(struct frame *frame, bool at_end, enum frame_result result)
{
    struct span line = {};
    assert_int_equal(frame_next(frame, MAX, at_end, &line), result);
}

static void line_in_pieces_comes_whole(void **)
{
    struct frame frame = {};
    feed(&frame, "ab", 2);
    expect(&frame, false, FRAME_NONE);
    feed(&frame, "c\nd", 3);
    expect_line(&frame, false, "abc");
    expect(&frame, false, FRAME_NONE);
    feed(&frame, "\n", 1);
    expect_line(&frame, false, "d");
    expect(&frame, true, FRAME_NONE);
    frame_done(&frame);
}

static void line_at_the_limit_passes_one_over_fails(void **)
{
    struct frame frame = {};
    feed(&frame, "12345678\r\n123456789\nok\n", 23);
    expect_line(&frame, false, "12345678");
    expect(&frame, false, FRAME_TOO_LONG);
    expect_line(&frame, false, "ok");
    frame_done(&frame);
}

static void endless_line_is_reported_once_and_not_kept(void **)
{
    struct frame frame = {};
    for (int i = 0; i < 10000; i++) {
        feed(&frame, "xxxxxxxxxxxxxxxx", 16);
        expect(&frame, false, FRAME_NONE);
    }
    assert_in_range(frame.in.capacity, 1, 1024);
    feed(&frame, "xx\nnext\n", 8);
    expect(&frame, false, FRAME_TOO_LONG);
    expect_line(&frame, false, "next");
    frame_done(&frame);
}

/* each: how many bytes come at a time. */
static void expect_outline(const char *line, size_t each, const char *outline)
{
    struct frame frame = {};
    struct span kept = {};
    enum frame_result result = FRAME_NONE;
    for (size_t at = 0; at < strlen(line); at += each) {
        assert_int_equal(result, FRAME_NONE);
        size_t left = strlen(line) - at;
        feed(&frame, line + at, left < each ? left : each);
        result = frame_next(&frame, MAX, false, &kept);
    }
    assert_int_equal(result, FRAME_TOO_LONG);
    assert_int_equal(kept.size, strlen(outline));
    assert_memory_equal(kept.bytes, outline, kept.size);
    frame_done(&frame);
}

static void outline_holds_own_members_alone(void **)
{
    char line[2000] = "\xEF\xBB\xBF{\"params\":{\"id\":7,\"a\":[\"]}\\\"{\"]},\"long\":\"";
    size_t size = strlen(line);
    memset(line + size, 'x', 300);
    (void)strcpy(line + size + 300, "\",\"id\":\"\\\"}\"}\n");
    for (size_t each = 1; each <= strlen(line); each += each < 20 ? 1 : 50) {
        expect_outline(line, each, "{\"params\":{},\"long\":,\"id\":\"\\\"}\"}");
    }
}

static void outline_with_too_many_members_is_empty(void **)
{
    char line[2100] = "{\"id\":1";
    for (size_t size = strlen(line); size < 2000; size += 6) {
        (void)strcpy(line + size, ",\"a\":0");
    }
    (void)strcat(line, "}\n");
    expect_outline(line, 50, "");
}

static void endless_line_is_reported_at_the_end_too(void **)
{
    struct frame frame = {};
    feed(&frame, "xxxxxxxxxxxxxxxx", 16);
    expect(&frame, false, FRAME_NONE);
    expect(&frame, true, FRAME_TOO_LONG);
    expect(&frame, true, FRAME_NONE);
    frame_done(&frame);
}

static void byte_order_mark_crlf_and_blank_lines_are_skipped(void **)
{
    struct frame frame = {};
    static const char bytes[] = "\xEF\xBB\xBF{}\r\n\r\n \t\n\n[]\n";
    feed(&frame, bytes, sizeof bytes - 1);
    expect_line(&frame, false, "{}");
    expect_line(&frame, false, "[]");
    expect(&frame, false, FRAME_NONE);
    frame_done(&frame);
}

static void line_at_the_limit_passes_however_it_was_cut(void **)
{
    static const char bytes[] =
        "\xEF\xBB\xBF"
        "12345678\r\n12345678\r\n123456789\r\n";
    struct frame frame = {};
    for (size_t i = 0; i + 1 < sizeof bytes; i++) {
        feed(&frame, bytes + i, 1);
        if (i == 12 || i == 22) {
            expect_line(&frame, false, "12345678");
        } else {
            expect(&frame, false, i == 33 ? FRAME_TOO_LONG : FRAME_NONE);
        }
    }
    frame_done(&frame);
}

static void last_line_needs_no_line_feed(void **)
{
    struct frame frame = {};
    feed(&frame, "a\nbc", 4);
    expect_line(&frame, false, "a");
    expect(&frame, false, FRAME_NONE);
    expect_line(&frame, true, "bc");
    expect(&frame, true, FRAME_NONE);
    frame_done(&frame);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(line_in_pieces_comes_whole),
        cmocka_unit_test(line_at_the_limit_passes_one_over_fails),
        cmocka_unit_test(endless_line_is_reported_once_and_not_kept),
        cmocka_unit_test(outline_holds_own_members_alone),
        cmocka_unit_test(outline_with_too_many_members_is_empty),
        cmocka_unit_test(endless_line_is_reported_at_the_end_too),
        cmocka_unit_test(byte_order_mark_crlf_and_blank_lines_are_skipped),
        cmocka_unit_test(line_at_the_limit_passes_however_it_was_cut),
        cmocka_unit_test(last_line_needs_no_line_feed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
