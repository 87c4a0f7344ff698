#include "sandbox/interpreter/process.h"

#include <string.h>

#include "base/buf.h"
#include "tests/unit/unit.h"

#define HEAD                                                                                       \
    "\0\x1b"                                                                                       \
    "err\0"

/* "o" or "e" before the bytes of each part; joins consecutive parts of one stream. */
struct received {
    struct buf text;
    int stream;
};

static void receive(void *arg, enum box_stream stream, const char *bytes, size_t size)
{
    struct received *received = arg;
    if (received->stream != (int)stream) {
        (void)buf_append(&received->text, stream == BOX_STDERR ? "e" : "o", 1);
        received->stream = (int)stream;
    }
    (void)buf_append(&received->text, bytes, size);
}

/* The result does not depend on the sizes of the pieces. */
static void expect(const char *bytes, size_t size, const char *expected, size_t expected_size)
{
    for (size_t piece = 1; piece <= size; piece++) {
        struct received received = {.text = BUF_EMPTY, .stream = -1};
        struct split split = {};
        for (size_t at = 0; at < size; at += piece) {
            split_feed(&split, bytes + at, size - at < piece ? size - at : piece, receive,
                       &received);
        }
        split_flush(&split, receive, &received);
        assert_int_equal(buf_size(&received.text), expected_size);
        assert_memory_equal(buf_bytes(&received.text), expected, expected_size);
        buf_done(&received.text);
    }
}

#define EXPECT(BYTES, EXPECTED) expect(BYTES, sizeof(BYTES) - 1, EXPECTED, sizeof(EXPECTED) - 1)

static void frames_are_stderr_and_the_rest_is_stdout(void **)
{
    EXPECT("plain", "oplain");
    EXPECT("a\n" HEAD
           "\x03\0"
           "xyz"
           "b\n",
           "oa\nexyzob\n");
    EXPECT(HEAD
           "\x01\0"
           "x" HEAD
           "\x01\0"
           "y",
           "exy");
    EXPECT(HEAD
           "\0\0"
           "b",
           "ob");
}

static void what_only_looks_like_a_head_is_output(void **)
{
    EXPECT(
        "\0\0\x1b"
        "er",
        "o\0\0\x1b"
        "er");
    EXPECT(
        "a\0\x1b"
        "erX" HEAD
        "\x01\0"
        "x",
        "oa\0\x1b"
        "erXex");
    EXPECT("\0" HEAD
           "\x01\0"
           "x",
           "o\0ex");
    EXPECT(HEAD "\x09", "o" HEAD "\x09");
}

static void a_frame_without_its_end_ends_with_the_data(void **)
{
    struct received received = {.text = BUF_EMPTY, .stream = -1};
    struct split split = {};
    split_feed(&split,
               HEAD
               "\x04\0"
               "ab",
               SPLIT_HEAD + 2, receive, &received);
    split_flush(&split, receive, &received);
    split_feed(&split,
               "cd" HEAD
               "\x01\0"
               "z",
               2 + SPLIT_HEAD + 1, receive, &received);
    assert_int_equal(buf_size(&received.text), 8);
    assert_memory_equal(buf_bytes(&received.text), "eabocdez", 8);
    buf_done(&received.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_are_stderr_and_the_rest_is_stdout),
        cmocka_unit_test(what_only_looks_like_a_head_is_output),
        cmocka_unit_test(a_frame_without_its_end_ends_with_the_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
