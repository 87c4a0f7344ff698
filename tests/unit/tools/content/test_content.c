#include "tools/content/content.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "tests/unit/unit.h"

/* RFC 4648, section 10, and bytes that use the alphabet's last characters. */
static const struct {
    const char *plain;
    size_t size;
    const char *encoded;
} vectors[] = {
    {"", 0, ""},
    {"f", 1, "Zg=="},
    {"fo", 2, "Zm8="},
    {"foo", 3, "Zm9v"},
    {"foob", 4, "Zm9vYg=="},
    {"fooba", 5, "Zm9vYmE="},
    {"foobar", 6, "Zm9vYmFy"},
    {"\0\0\0", 3, "AAAA"},
    {"\xff\xff\xff", 3, "////"},
    {"\xfb\xef\xbe", 3, "++++"},
    {"\xff", 1, "/w=="},
};

/* bytes: space for all. Returns how many there are, or -EINVAL. */
static int decode_to(const char *text, size_t size, unsigned char *bytes)
{
    size_t count = 0;
    int r = content_base64_decode(text, size, bytes, &count);
    return r < 0 ? r : (int)count;
}

static int decode(const char *text, size_t size)
{
    unsigned char bytes[64];
    return decode_to(text, size, bytes);
}

static void vectors_go_both_ways(void **)
{
    for (unsigned i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        struct buf out = BUF_EMPTY;
        unsigned char bytes[64];
        size_t size = strlen(vectors[i].encoded);
        assert_int_equal(content_base64_encode(vectors[i].plain, vectors[i].size, &out), 0);
        assert_int_equal(buf_size(&out), strlen(vectors[i].encoded));
        if (buf_size(&out) > 0) {
            assert_memory_equal(buf_bytes(&out), vectors[i].encoded, buf_size(&out));
        }
        assert_int_equal(decode_to(vectors[i].encoded, size, bytes), vectors[i].size);
        assert_memory_equal(bytes, vectors[i].plain, vectors[i].size);
        buf_done(&out);
    }
}

static void every_byte_comes_back(void **)
{
    unsigned char plain[769];
    for (size_t i = 0; i < sizeof plain; i++) {
        plain[i] = (unsigned char)(i * 7 + i / 256);
    }
    for (size_t length = sizeof plain - 4; length <= sizeof plain; length++) {
        struct buf out = BUF_EMPTY;
        unsigned char bytes[sizeof plain + 3];
        assert_int_equal(buf_append_text(&out, "before"), 0);
        assert_int_equal(content_base64_encode(plain, length, &out), 0);
        buf_consume(&out, 6);
        assert_int_equal(decode_to(buf_bytes(&out), buf_size(&out), bytes), length);
        assert_memory_equal(bytes, plain, length);
        buf_done(&out);
    }
}

static void white_space_and_missing_padding_are_ignored(void **)
{
    assert_int_equal(decode(" Z m\r\n8\t= \n", 11), 2);
    assert_int_equal(decode("Zg", 2), 1);
    assert_int_equal(decode("Zm8", 3), 2);
    assert_int_equal(decode("Zg = =", 6), 1);
    assert_int_equal(decode("\n", 1), 0);
}

static void invalid_base64_is_refused(void **)
{
    static const char *const bad[] = {"Z",     "Zm9vY",  "=",     "====",     "Z===",
                                      "Zg=",   "Zg===",  "Zm8==", "Zm9v=",    "Zg==Zg",
                                      "Zg=g=", "Zg=g",   "Zm9-",  "Zm9_",     "Zm9vé",
                                      "Zm,v",  "Zg==\1", "[]",    "Zm9v\x80", "Zg==Zg=="};
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (decode(bad[i], strlen(bad[i])) != -EINVAL) {
            fail_msg("%s was taken", bad[i]);
        }
    }
    assert_int_equal(decode("Zm9\0", 4), -EINVAL);
    assert_int_equal(decode("\0", 1), -EINVAL);
}

static void sizes_read_as_people_write_them(void **)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } sizes[] = {
        {0, "0 B"},
        {999, "999 B"},
        {1000, "1.0 kB"},
        {1234, "1.2 kB"},
        {9949, "9.9 kB"},
        {9950, "10 kB"},
        {18000, "18 kB"},
        {999499, "999 kB"},
        {999500, "1.0 MB"},
        {1200000, "1.2 MB"},
        {UINT64_C(999500000), "1.0 GB"},
        {UINT64_C(61) * 1000 * 1000 * 1000, "61 GB"},
        {UINT64_C(2500) * 1000 * 1000 * 1000, "2.5 TB"},
        {UINT64_MAX, "18446744 TB"},
    };
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char out[16];
        assert_string_equal(content_size(sizes[i].bytes, out), sizes[i].text);
    }
}

static void blocks_have_the_form_of_the_protocol(void **)
{
    json_t *block = content_text("a\xff", 2);
    assert_string_equal(json_string_value(json_object_get(block, "type")), "text");
    assert_string_equal(json_string_value(json_object_get(block, "text")), "a\xEF\xBF\xBD");
    assert_int_equal(json_object_size(block), 2);
    json_decref(block);
    block = content_image("foob", 4, "image/png");
    assert_string_equal(json_string_value(json_object_get(block, "type")), "image");
    assert_string_equal(json_string_value(json_object_get(block, "data")), "Zm9vYg==");
    assert_string_equal(json_string_value(json_object_get(block, "mimeType")), "image/png");
    json_decref(block);
}

/* The beginning of a WebP image, RFC 9649, 2.5: what follows is not checked. */
static const char *webp(unsigned width, unsigned height, unsigned size, char out[30])
{
    static const char head[] = "RIFF____WEBPVP8 ____...\x9d\x01\x2a____";
    memcpy(out, head, sizeof head - 1);
    for (unsigned i = 0; i < 4; i++) {
        out[4 + i] = (char)((size - 8) >> 8 * i);
    }
    for (unsigned i = 0; i < 2; i++) {
        out[26 + i] = (char)(width >> 8 * i);
        out[28 + i] = (char)(height >> 8 * i);
    }
    return out;
}

static void an_image_fits_by_its_type_end_and_sides(void **)
{
    char image[30];
    assert_true(content_image_fits(webp(1568, 1, 30, image), 30));
    assert_false(content_image_fits(webp(1569, 1, 30, image), 30));
    assert_false(content_image_fits(webp(1, 16000, 30, image), 30));
    assert_false(content_image_fits(webp(0, 1, 30, image), 30));
    assert_false(content_image_fits(webp(9, 9, 31, image), 30));
    assert_false(content_image_fits("no image, but long enough to be one", 35));
    char *large = calloc(1, LIMIT_IMAGES_BYTES + 1);
    assert_non_null(large);
    memcpy(large, webp(9, 9, LIMIT_IMAGES_BYTES, image), 30);
    assert_true(content_image_fits(large, LIMIT_IMAGES_BYTES));
    assert_false(content_image_fits(large, LIMIT_IMAGES_BYTES + 1));
    free(large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_go_both_ways),
        cmocka_unit_test(every_byte_comes_back),
        cmocka_unit_test(white_space_and_missing_padding_are_ignored),
        cmocka_unit_test(invalid_base64_is_refused),
        cmocka_unit_test(sizes_read_as_people_write_them),
        cmocka_unit_test(blocks_have_the_form_of_the_protocol),
        cmocka_unit_test(an_image_fits_by_its_type_end_and_sides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
