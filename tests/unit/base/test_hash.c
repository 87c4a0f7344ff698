#include "base/hash.h"

#include <string.h>

#include "tests/unit/unit.h"

/* The examples of FIPS 180-2, appendix B. */
static void examples_of_the_standard(void **)
{
    static const char two[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    char text[SHA256_TEXT];
    assert_string_equal(sha256_of("abc", 3, text),
                        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_string_equal(sha256_of(two, strlen(two), text),
                        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    assert_string_equal(sha256_of("", 0, text),
                        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

static void pieces_of_any_size_have_the_hash_of_the_whole(void **)
{
    unsigned char bytes[300];
    char whole[SHA256_TEXT];
    char text[SHA256_TEXT];
    for (unsigned i = 0; i < sizeof bytes; i++) {
        bytes[i] = (unsigned char)(i * 7);
    }
    for (size_t size = 0; size <= sizeof bytes; size++) {
        (void)sha256_of(bytes, size, whole);
        for (size_t piece = 1; piece < 131; piece += 13) {
            struct sha256 hash;
            sha256_init(&hash);
            for (size_t at = 0; at < size; at += piece) {
                sha256_add(&hash, bytes + at, size - at < piece ? size - at : piece);
            }
            assert_string_equal(sha256_end(&hash, text), whole);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples_of_the_standard),
        cmocka_unit_test(pieces_of_any_size_have_the_hash_of_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
