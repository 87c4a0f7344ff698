#include "tools/files/read_text.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "tests/unit/unit.h"

static void expect(const char *bytes, size_t size, const char *utf8)
{
    struct buf out = BUF_EMPTY;
    assert_int_equal(text_decode(text_encoding_of(bytes, size), bytes, size, &out), 0);
    assert_int_equal(buf_size(&out), strlen(utf8));
    assert_memory_equal(buf_bytes(&out), utf8, strlen(utf8));
    buf_done(&out);
}

#define EXPECT(literal, utf8) expect(literal, sizeof(literal) - 1, utf8)

static void both_orders_are_read(void **)
{
    EXPECT(
        "\xff\xfe"
        "a\0\xe9\0\xac\x20",
        "a\xc3\xa9\xe2\x82\xac");
    EXPECT("\xfe\xff\0a\0\xe9\x20\xac", "a\xc3\xa9\xe2\x82\xac");
}

static void pairs_are_one_character(void **)
{
    EXPECT("\xff\xfe\x3d\xd8\x00\xde", "\xf0\x9f\x98\x80");
}

static void broken_pairs_are_replaced(void **)
{
    EXPECT(
        "\xff\xfe\x3d\xd8"
        "a\0",
        "\xef\xbf\xbd"
        "a");
    EXPECT("\xff\xfe\x00\xde", "\xef\xbf\xbd");
    EXPECT("\xff\xfe\x3d\xd8", "\xef\xbf\xbd");
    EXPECT(
        "\xff\xfe"
        "a\0b",
        "a\xef\xbf\xbd");
}

#define KIND(literal) text_encoding_of(literal, sizeof(literal) - 1)

static void letters_among_others_are_latin_1(void **)
{
    EXPECT("caf\xe9 \x80 5, d\xe9j\xe0\n", "caf\xc3\xa9 \xe2\x82\xac 5, d\xc3\xa9j\xc3\xa0\n");
    assert_int_equal(KIND("caf\xc3\xa9"), TEXT_UTF8);
    assert_int_equal(KIND(""), TEXT_UTF8);
    assert_int_equal(KIND("\xcf\xf0\xe8\xe2\xe5\xf2 \xe8 \xef\xee\xea\xe0"),
                     TEXT_OTHER); /* cp1251 */
    assert_int_equal(KIND("\xc4\xe3\xba\xc3, GBK"), TEXT_OTHER);
    assert_int_equal(KIND("\x83\x65\x83\x58\x83\x67 SJIS"), TEXT_OTHER);
    assert_int_equal(KIND("a\x81 b"), TEXT_OTHER);
    assert_int_equal(KIND("a\0\xe9"), TEXT_OTHER);
}

/* Decodes and encodes again; then expects refused (UTF-8) to have no place in the encoding. */
static void expect_back(const char *bytes, size_t size, const char *refused)
{
    struct buf text = BUF_EMPTY;
    struct buf back = BUF_EMPTY;
    enum text_encoding encoding = text_encoding_of(bytes, size);
    size_t mark = encoding == TEXT_UTF16 ? 2 : 0;
    assert_int_equal(text_decode(encoding, bytes, size, &text), 0);
    assert_int_equal(text_encode(encoding, bytes, buf_bytes(&text), buf_size(&text), &back), 0);
    assert_int_equal(buf_size(&back), size - mark);
    assert_memory_equal(buf_bytes(&back), bytes + mark, size - mark);
    assert_int_equal(text_encode(encoding, bytes, refused, strlen(refused), &back), -EILSEQ);
    buf_done(&text);
    buf_done(&back);
}

static void text_is_encoded_as_it_was(void **)
{
    expect_back("\xff\xfe\x3d\xd8\x00\xde\xe9\0a\0", 10, "\xef\xbf\xbd");
    expect_back("\xfe\xff\xd8\x3d\xde\x00\0\xe9\0a", 10, "\xef\xbf\xbd");
    expect_back("caf\xe9 \x80 5, \xa0 \x93 x", 15, "\xc4\x85");
    char all[512];
    size_t size = 0;
    for (int c = ' '; c < 256; c++) { /* each beside a blank */
        bool is_none = c == 0x81 || c == 0x8d || c == 0x8f || c == 0x90 || c == 0x9d || c == 0x7f;
        all[size++] = is_none ? 'x' : (char)c;
        all[size++] = ' ';
    }
    expect_back(all, size, "\xd0\xb6");
}

static void base64_of_files_is_left_out(void **)
{
    char text[2200] = "<img src=\"data:image/png;base64,";
    struct buf out = BUF_EMPTY;
    memset(text + strlen(text), 'A', 1500);
    strcat(text, "\">\n<img src=\"data:image/gif;base64,R0lGOD\">\n");
    assert_int_equal(embedding_decode(text, strlen(text), &out), 0);
    assert_int_equal(buf_append(&out, "", 1), 0);
    assert_string_equal(
        buf_bytes(&out),
        "<img src=\"data:image/png;base64,[1.5 kB left out; encoding=\"text\" shows "
        "them]\">\n<img src=\"data:image/gif;base64,R0lGOD\">\n");
    assert_int_equal(embedding_decode("a;base64,b", 10, &out), -EINVAL);
    assert_int_equal(embedding_decode("", 0, &out), -EINVAL);
    buf_done(&out);
    assert_true(embedding_is("a/report.html"));
    assert_false(embedding_is("html"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_orders_are_read),
        cmocka_unit_test(pairs_are_one_character),
        cmocka_unit_test(broken_pairs_are_replaced),
        cmocka_unit_test(letters_among_others_are_latin_1),
        cmocka_unit_test(text_is_encoded_as_it_was),
        cmocka_unit_test(base64_of_files_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
