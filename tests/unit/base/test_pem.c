#include "base/pem.h"

#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "tests/unit/unit.h"

/* DER sequences of 128 and 129 bytes, of which only the outer form counts. */
#define ZEROS "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
#define BEGIN "-----BEGIN CERTIFICATE-----\n"
#define END "-----END CERTIFICATE-----\n"
#define REST ZEROS "\n" ZEROS "\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
#define ONE BEGIN "MIGA\n" REST "A=\n" END
#define OTHER BEGIN "MIGB\n" REST "AA\n" END

static void only_certificates_are_taken(void **)
{
    static const struct {
        const char *text;
        const char *taken; /* or a part of the reason */
        bool valid;
    } rows[] = {
        {ONE, ONE, true},
        {ONE OTHER, ONE OTHER, true},
        {"# Name: x\nBag Attributes\n" ONE "\nsubject=CN = x\n" OTHER "end", ONE OTHER, true},
        {"-----BEGIN CERTIFICATE-----\r\nMIGA \r\n" REST "A=\r\n-----END CERTIFICATE-----\r\n", ONE,
         true},
        {BEGIN "TUlJ\nQg==\n" END, "malformed", false},
        {BEGIN END, "malformed", false},
        {BEGIN "MIGB\n" REST "A=\n" END, "malformed", false},
        {BEGIN "MIGA\n" REST "AA\n" END, "malformed", false},
        {BEGIN "MYGA\n" REST "A=\n" END, "malformed", false},
        {BEGIN "MIGA\n" REST "A\n" END, "malformed", false},
        {BEGIN "MIX/////\n" REST "A=\n" END, "malformed", false},
        {"-----BEGIN TRUSTED CERTIFICATE-----\nTUlJ\n-----END TRUSTED CERTIFICATE-----\n" ONE, ONE,
         true},
        {ONE "-----BEGIN PRIVATE KEY-----\nTUlJ\n-----END PRIVATE KEY-----\n", "private key",
         false},
        {"-----BEGIN RSA PRIVATE KEY-----\n" ONE, "private key", false},
        {"-----BEGIN CERTIFICATE-----\nTUlJ\n", "malformed", false},
        {"-----BEGIN CERTIFICATE-----\nTUlJ\n-----BEGIN PRIVATE KEY-----\n", "malformed", false},
        {"-----BEGIN CERTIFICATE-----\nrm -rf;\n-----END CERTIFICATE-----\n", "malformed", false},
        {"0\x82\x03\x21", "it is DER", false},
        {"", "no certificate", false},
        {"hello\n", "no certificate", false},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        OWNED(buf_done) struct buf out = BUF_EMPTY;
        const char *why = pem_take_certificates(rows[i].text, strlen(rows[i].text), &out);
        assert_int_equal(why == NULL, rows[i].valid);
        if (rows[i].valid) {
            assert_int_equal(buf_size(&out), strlen(rows[i].taken));
            assert_memory_equal(buf_bytes(&out), rows[i].taken, buf_size(&out));
        } else {
            assert_non_null(strstr(why, rows[i].taken));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(only_certificates_are_taken)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
