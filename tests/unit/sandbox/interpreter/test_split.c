#include "sandbox/session/split.h"

#include <string.h>

#include "base/buf.h"
#include "tests/unit/unit.h"

#define HEAD                                                                                       \
    "\0\x1b"                                                                                       \
    "err\0"

/* "o" and "e" before the bytes of each stretch, stretches of one stream joined. */
struct heard {
    struct buf text;
    int stream;
};

static void hear(void *arg, enum box_stream stream, const char *bytes, size_t size)
{
    struct heard *heard = arg;
    if (heard->stream != (int)stream) {
        (void)buf_append(&heard->text, stream == BOX_STDERR ? "e" : "o", 1);
        heard->stream = (int)stream;
    }
    (void)buf_append(&heard->text, bytes, size);
}

/* The same comes out whatever the sizes of the pieces. */
static void expect(const char *bytes, size_t size, const char *expected, size_t expected_size)
{
    for (size_t piece = 1; piece <= size; piece++) {
        struct heard heard = {.text = BUF_EMPTY, .stream = -1};
        struct split split = {};
        for (size_t at = 0; at < size; at += piece) {
            split_feed(&split, bytes + at, size - at < piece ? size - at : piece, hear, &heard);
        }
        split_flush(&split, hear, &heard);
        assert_int_equal(buf_size(&heard.text), expected_size);
        assert_memory_equal(buf_bytes(&heard.text), expected, expected_size);
        buf_done(&heard.text);
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

static void a_frame_without_its_end_stays_open(void **)
{
    struct heard heard = {.text = BUF_EMPTY, .stream = -1};
    struct split split = {};
    split_feed(&split,
               HEAD
               "\x04\0"
               "ab",
               SPLIT_HEAD + 2, hear, &heard);
    split_flush(&split, hear, &heard);
    split_feed(&split, "cdz", 3, hear, &heard);
    assert_int_equal(buf_size(&heard.text), 7);
    assert_memory_equal(buf_bytes(&heard.text), "eabcdoz", 7);
    buf_done(&heard.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_are_stderr_and_the_rest_is_stdout),
        cmocka_unit_test(what_only_looks_like_a_head_is_output),
        cmocka_unit_test(a_frame_without_its_end_stays_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
