#include "sandbox/protocol/frames.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "tests/unit/unit.h"

enum { FIELDS = 8 };

static struct box_field fields[FIELDS];
static size_t count;
static size_t size;

static void append_u32(struct buf *buf, uint32_t value)
{
    const unsigned char bytes[] = {(unsigned char)value, (unsigned char)(value >> 8),
                                   (unsigned char)(value >> 16), (unsigned char)(value >> 24)};
    assert_int_equal(buf_append(buf, bytes, sizeof bytes), 0);
}

static void append_field(struct buf *buf, const char *text)
{
    append_u32(buf, (uint32_t)strlen(text));
    assert_int_equal(buf_append_text(buf, text), 0);
}

static enum channel_result next(const struct buf *in)
{
    return channel_next(in, fields, FIELDS, &count, &size);
}

static void expect_field(size_t index, const char *text)
{
    assert_int_equal(fields[index].size, strlen(text));
    assert_memory_equal(fields[index].data, text, strlen(text));
}

static void frame_is_read_as_it_was_written(void **)
{
    struct buf wire = BUF_EMPTY;
    const struct box_field sent[] = {{"run", 3}, {"code", 4}, {NULL, 0}};
    assert_int_equal(channel_encode(&wire, sent, 3), 0);
    assert_int_equal(channel_encode(&wire, sent, 1), 0);
    assert_int_equal(next(&wire), CHANNEL_MESSAGE);
    assert_int_equal(count, 3);
    assert_int_equal(size, 4 + 4 + 3 + 4 + 4 + 4);
    expect_field(0, "run");
    expect_field(1, "code");
    expect_field(2, "");
    buf_consume(&wire, size);
    assert_int_equal(next(&wire), CHANNEL_MESSAGE);
    assert_int_equal(count, 1);
    buf_consume(&wire, size);
    assert_int_equal(buf_size(&wire), 0);
    buf_done(&wire);
}

static void sizes_on_the_wire_are_little_endian(void **)
{
    struct buf wire = BUF_EMPTY;
    const struct box_field sent[] = {{"ab", 2}};
    assert_int_equal(channel_encode(&wire, sent, 1), 0);
    assert_int_equal(buf_size(&wire), 10);
    assert_memory_equal(buf_bytes(&wire), "\6\0\0\0\2\0\0\0ab", 10);
    buf_done(&wire);
}

static void frame_in_pieces_comes_when_it_is_whole(void **)
{
    struct buf whole = BUF_EMPTY;
    struct buf wire = BUF_EMPTY;
    const struct box_field sent[] = {{"verb", 4}, {"n", 1}, {"value", 5}};
    assert_int_equal(channel_encode(&whole, sent, 3), 0);
    for (size_t i = 0; i < buf_size(&whole); i++) {
        assert_int_equal(next(&wire), CHANNEL_NONE);
        assert_int_equal(buf_append(&wire, buf_bytes(&whole) + i, 1), 0);
    }
    assert_int_equal(next(&wire), CHANNEL_MESSAGE);
    expect_field(2, "value");
    buf_done(&wire);
    buf_done(&whole);
}

/* The head alone refuses it: nothing waits for, or allocates, the size that it announces. */
static void frame_over_the_limit_is_refused_at_once(void **)
{
    static const uint32_t sizes[] = {LIMIT_FRAME_IN_BYTES + 1, INT32_MAX, UINT32_MAX};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct buf wire = BUF_EMPTY;
        append_u32(&wire, sizes[i]);
        assert_int_equal(next(&wire), CHANNEL_BROKEN);
        buf_done(&wire);
    }
    struct buf wire = BUF_EMPTY;
    append_u32(&wire, LIMIT_FRAME_IN_BYTES);
    assert_int_equal(next(&wire), CHANNEL_NONE);
    buf_done(&wire);
}

static void field_that_leaves_its_frame_is_refused(void **)
{
    static const uint32_t lies[] = {4, 5, 0x7fffffff, 0xfffffffc, UINT32_MAX};
    for (unsigned i = 0; i < sizeof lies / sizeof *lies; i++) {
        struct buf wire = BUF_EMPTY;
        append_u32(&wire, 4 + 3);
        append_u32(&wire, lies[i]);
        /* What follows the frame is another frame's, also if it would suffice. */
        assert_int_equal(buf_append_text(&wire, "abcdefghij"), 0);
        assert_int_equal(next(&wire), CHANNEL_BROKEN);
        buf_done(&wire);
    }
}

static void frame_that_ends_inside_of_a_size_is_refused(void **)
{
    for (uint32_t extra = 1; extra < 4; extra++) {
        struct buf wire = BUF_EMPTY;
        append_u32(&wire, 10 + extra);
        append_field(&wire, "v");
        append_field(&wire, "n");
        append_u32(&wire, 0);
        assert_int_equal(next(&wire), CHANNEL_BROKEN);
        buf_done(&wire);
    }
}

static void verb_without_its_pairs_is_refused(void **)
{
    struct buf wire = BUF_EMPTY;
    append_u32(&wire, 0);
    assert_int_equal(next(&wire), CHANNEL_BROKEN);
    buf_clear(&wire, 1024);
    append_u32(&wire, 10);
    append_field(&wire, "v");
    append_field(&wire, "n");
    assert_int_equal(next(&wire), CHANNEL_BROKEN);
    buf_done(&wire);
}

static void fields_up_to_the_limit_pass_one_over_fails(void **)
{
    for (uint32_t fields_sent = FIELDS - 1; fields_sent <= FIELDS + 1; fields_sent += 2) {
        struct buf wire = BUF_EMPTY;
        append_u32(&wire, 4 * fields_sent);
        for (uint32_t i = 0; i < fields_sent; i++) {
            append_field(&wire, "");
        }
        assert_int_equal(next(&wire), fields_sent < FIELDS ? CHANNEL_MESSAGE : CHANNEL_BROKEN);
        buf_done(&wire);
    }
}

static void frame_too_large_to_send_leaves_the_queue_as_it_was(void **)
{
    struct buf wire = BUF_EMPTY;
    const struct box_field one = {"v", 1};
    /* Never read, because the sizes alone decide. */
    const struct box_field huge[] = {{"v", 10}, {"n", SIZE_MAX - 3}};
    const struct box_field sum[] = {{"v", LIMIT_FRAME_OUT_BYTES / 2},
                                    {"n", LIMIT_FRAME_OUT_BYTES / 2}};
    assert_int_equal(channel_encode(&wire, &one, 1), 0);
    size_t before = buf_size(&wire);
    assert_int_equal(channel_encode(&wire, huge, 2), -EMSGSIZE);
    assert_int_equal(channel_encode(&wire, sum, 2), -EMSGSIZE);
    assert_int_equal(buf_size(&wire), before);
    buf_done(&wire);
}

static void value_is_found_by_its_whole_name_and_only_as_a_name(void **)
{
    const struct box_field parts[] = {{"verb", 4}, {"a", 1},    {"name", 4}, {"name", 4},
                                      {"one", 3},  {"name", 4}, {"two", 3}};
    const struct box_message message = {parts, 7};
    struct box_field value = {};
    assert_true(box_message_get(&message, "name", &value));
    assert_memory_equal(value.data, "one", 3);
    assert_false(box_message_get(&message, "nam", &value));
    assert_false(box_message_get(&message, "verb", &value));
    assert_false(box_message_get(&message, "two", &value));
    assert_memory_equal(value.data, "one", 3);
}

static void a_number_is_digits_of_64_bits(void **)
{
    const struct box_field parts[] = {{"verb", 4},
                                      {"one", 3},
                                      {"42", 2},
                                      {"two", 3},
                                      {"4x", 2},
                                      {"big", 3},
                                      {"18446744073709551616", 20},
                                      {"empty", 5},
                                      {"", 0},
                                      {"long", 4},
                                      {"000000000000000000000000042", 27}};
    const struct box_message message = {parts, sizeof parts / sizeof *parts};
    static const char *const wrong[] = {"two", "big", "empty", "long", "none"};
    assert_int_equal(box_message_number(&message, "one", 7), 42);
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(box_message_number(&message, wrong[i], 7), 7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frame_is_read_as_it_was_written),
        cmocka_unit_test(sizes_on_the_wire_are_little_endian),
        cmocka_unit_test(frame_in_pieces_comes_when_it_is_whole),
        cmocka_unit_test(frame_over_the_limit_is_refused_at_once),
        cmocka_unit_test(field_that_leaves_its_frame_is_refused),
        cmocka_unit_test(frame_that_ends_inside_of_a_size_is_refused),
        cmocka_unit_test(verb_without_its_pairs_is_refused),
        cmocka_unit_test(fields_up_to_the_limit_pass_one_over_fails),
        cmocka_unit_test(frame_too_large_to_send_leaves_the_queue_as_it_was),
        cmocka_unit_test(value_is_found_by_its_whole_name_and_only_as_a_name),
        cmocka_unit_test(a_number_is_digits_of_64_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
