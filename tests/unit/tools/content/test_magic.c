#include "tools/content/content.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/unit.h"

/* On the heap and without a byte more, so that the sanitizer reports a read past the end. */
static struct magic look(const char *bytes, size_t size)
{
    char *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    struct magic magic = magic_of(copy, size);
    free(copy);
    return magic;
}

#define LOOK(literal) look(literal, sizeof(literal) - 1)

static void text_is_text(void **)
{
    assert_int_equal(LOOK("").kind, MAGIC_TEXT);
    assert_int_equal(LOOK("a").kind, MAGIC_TEXT);
    assert_int_equal(LOOK("\033[31mred\033[0m\r\n\ttab").kind, MAGIC_TEXT);
    assert_int_equal(LOOK("gr\xfc\xdf"
                          "e")
                         .kind,
                     MAGIC_TEXT);
    assert_int_equal(LOOK("\xef\xbb\xbftext").kind, MAGIC_TEXT);
}

static void letters_of_a_signature_may_begin_a_text(void **)
{
    assert_int_equal(LOOK("ID3 is a tag format").kind, MAGIC_TEXT);
    assert_int_equal(LOOK("OggSomething").kind, MAGIC_TEXT);
    assert_int_equal(LOOK("BM: a title of some length").kind, MAGIC_TEXT);
    assert_string_equal(LOOK("ID3\3\0\0\0\0").name, "MP3 audio");
}

static void known_files_are_named(void **)
{
    assert_string_equal(LOOK("SQLite format 3\0\020\0").name, "SQLite database");
    assert_string_equal(LOOK("PK\3\4\024\0").name, "ZIP archive");
    assert_string_equal(LOOK("\x1f\x8b\x08\0\0").name, "gzip-compressed data");
    assert_string_equal(LOOK("%PDF-1.7\n").name, "PDF document");
    assert_string_equal(LOOK("\x80\x04\x95\0").name, "Python pickle");
    assert_string_equal(LOOK("\x93NUMPY\1\0v\0").name, "NumPy array (.npy)");
    assert_string_equal(LOOK("\x89HDF\r\n\x1a\n\0").name, "HDF5 file");
    assert_null(LOOK("\1\2\3\0\0").name);
    assert_int_equal(LOOK("\1\2\3\0\0").kind, MAGIC_BINARY);
    assert_int_equal(LOOK("\1\2\3\4\5\6\7\x10").kind, MAGIC_BINARY); /* no NUL, and no text */
}

static void images_are_classified_by_what_clients_show(void **)
{
    assert_int_equal(LOOK("\x89PNG\r\n\x1a\n").kind, MAGIC_IMAGE);
    assert_int_equal(LOOK("\xff\xd8\xff\xe0").kind, MAGIC_IMAGE);
    assert_int_equal(LOOK("GIF89a\x10\0\x10\0").kind, MAGIC_IMAGE);
    assert_int_equal(LOOK("RIFF\x10\0\0\0WEBPVP8 ").kind, MAGIC_IMAGE);
    assert_int_equal(LOOK("RIFF\x10\0\0\0WAVEfmt ").kind, MAGIC_BINARY);
    assert_int_equal(LOOK("II*\0\x08\0\0\0").kind, MAGIC_PICTURE);
    assert_int_equal(LOOK("BM\x36\x10\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0").kind, MAGIC_PICTURE);
}

static void utf16_is_known_by_its_mark(void **)
{
    assert_int_equal(LOOK("\xff\xfe"
                          "a\0")
                         .kind,
                     MAGIC_UTF16);
    assert_int_equal(LOOK("\xfe\xff\0a").kind, MAGIC_UTF16);
    assert_int_equal(LOOK("\xff\xfe\0\0a\0\0\0").kind, MAGIC_BINARY); /* UTF-32 */
}

static void measure(const char *bytes, size_t size, uint32_t width, uint32_t height)
{
    uint32_t w = 0;
    uint32_t h = 0;
    char *copy = malloc(size);
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    assert_int_equal(magic_measure(copy, size, &w, &h), width > 0);
    assert_int_equal(w, width);
    assert_int_equal(h, height);
    free(copy);
}

#define MEASURE(literal, width, height) measure(literal, sizeof(literal) - 1, width, height)

static void images_are_measured(void **)
{
    MEASURE("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\1\x2c\0\0\2\1\x08", 300, 513);
    MEASURE("GIF89a\x10\1\x20\0", 272, 32);
    MEASURE("RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x0f\1\0\x1f\0\0", 272, 32);
    MEASURE("RIFF\0\0\0\0WEBPVP8L\x0a\0\0\0\x2f\x0f\xc1\x07\0\0\0\0\0\0", 272, 32);
    MEASURE("RIFF\0\0\0\0WEBPVP8 \x0a\0\0\0\0\0\0\x9d\1\x2a\x10\1\x20\0", 272, 32);
    /* an APP0 segment, fill bytes, then the frame */
    MEASURE("\xff\xd8\xff\xe0\0\4ab\xff\xff\xc2\0\x11\x08\0\x20\1\x10\3\0\0", 272, 32);
}

static void a_truncated_image_has_no_size(void **)
{
    MEASURE("\x89PNG\r\n\x1a\n", 0, 0);
    MEASURE("\xff\xd8\xff\xe0\xff\xff", 0, 0);
    MEASURE("\xff\xd8\xff\xe0\0\0\xff\xe0\0\0\xff\xe0\0", 0, 0);
    MEASURE("RIFF\0\0\0\0WEBPVP8X", 0, 0);
    MEASURE("GIF", 0, 0);
}

static bool is_whole(const char *bytes, size_t size)
{
    char *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    bool whole = magic_is_whole(copy, size);
    free(copy);
    return whole;
}

/* Also with any byte left out, or with one more. */
static void damage_is_seen(const char *bytes, size_t size)
{
    char copy[256];
    assert_true(size < sizeof copy);
    assert_true(is_whole(bytes, size));
    memcpy(copy, bytes, size);
    copy[size] = 0;
    assert_false(is_whole(copy, size + 1));
    for (size_t i = 4; i < size; i++) {
        memcpy(copy, bytes, i);
        memcpy(copy + i, bytes + i + 1, size - i - 1);
        assert_false(is_whole(copy, size - 1));
        assert_false(is_whole(bytes, i));
    }
}

static void a_damaged_image_is_seen(void **)
{
    static const char png[] =
        "\x89PNG\r\n\x1a\n"
        "\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\0\0\0\0\x3a\x7e\x9b\x55"
        "\0\0\0\nIDAT\x78\x9c\x63\x60\0\0\0\2\0\1\x48\xaf\xa4\x71"
        "\0\0\0\0IEND\xae\x42\x60\x82";
    damage_is_seen(png, sizeof png - 1);
    /* two colours, a comment, an image of one pixel with colours of its own */
    static const char gif[] =
        "GIF89a\1\0\1\0\x80\0\0abcdef\x21\xfe\2hi\0"
        "\x2c\0\0\0\0\1\0\1\0\x80ghijkl\2\2\x44\1\0\x3b";
    damage_is_seen(gif, sizeof gif - 1);
    static const char jpeg[] = "\xff\xd8\xff\xe0....................\xff\xd9";
    assert_true(is_whole(jpeg, sizeof jpeg - 1));
    assert_false(is_whole(jpeg, sizeof jpeg - 2));
    assert_false(is_whole("", 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_text),
        cmocka_unit_test(letters_of_a_signature_may_begin_a_text),
        cmocka_unit_test(known_files_are_named),
        cmocka_unit_test(images_are_classified_by_what_clients_show),
        cmocka_unit_test(utf16_is_known_by_its_mark),
        cmocka_unit_test(images_are_measured),
        cmocka_unit_test(a_truncated_image_has_no_size),
        cmocka_unit_test(a_damaged_image_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
