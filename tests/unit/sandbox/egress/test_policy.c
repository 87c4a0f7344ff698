/* What may be reached, as data: addresses, policy, and the contents of the host's files. */
#include "sandbox/types.h"

#include <stdio.h>
#include <string.h>

#include "sandbox/egress/policy.h"
#include "tests/unit/unit.h"

static struct egress_address address(const char *text)
{
    struct egress_address read = {};
    assert_true(address_read(text, &read));
    return read;
}

static void private_addresses_are_distinguished_from_public_ones(void **)
{
    static const char *const inside[] = {
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "10.255.255.255",
        "100.64.0.1",
        "100.127.255.255",
        "100.100.100.200",
        "127.0.0.1",
        "127.255.0.1",
        "168.63.129.16",
        "169.254.1.1",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.192",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.0.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.7",
        "203.0.113.9",
        "224.0.0.1",
        "239.1.1.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:10.0.0.1",
        "::127.0.0.1",
        "::ffff:0:7f00:1",
        "64:ff9b::7f00:1",
        "64:ff9b::a00:1",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:10::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "2002:808:808::",
        "3fff::1",
        "4000::1",
        "fc00::1",
        "fd00:ec2::254",
        "fd12::1",
        "fe80::1",
        "febf::1",
        "fec0::1",
        "ff02::1",
        "8000::1",
    };
    static const char *const outside[] = {
        "1.1.1.1",           "8.8.8.8",        "9.255.255.255",    "11.0.0.0",
        "93.184.215.14",     "100.63.255.255", "100.128.0.0",      "126.255.255.255",
        "128.0.0.0",         "169.253.0.1",    "172.15.0.1",       "172.32.0.0",
        "192.167.0.1",       "192.169.0.1",    "198.17.0.1",       "198.20.0.1",
        "223.255.255.25",    "::ffff:8.8.8.8", "64:ff9b::808:808", "2001:200::1",
        "2606:4700::6810:1", "2a00:1450::1",   "3ffe::1",
    };
    for (unsigned i = 0; i < sizeof inside / sizeof *inside; i++) {
        struct egress_address one = address(inside[i]);
        if (!address_error(&one)) {
            fail_msg("%s passes for public", inside[i]);
        }
    }
    for (unsigned i = 0; i < sizeof outside / sizeof *outside; i++) {
        struct egress_address one = address(outside[i]);
        if (address_error(&one)) {
            fail_msg("%s passes for %s", outside[i], address_error(&one));
        }
    }
}

static void a_host_has_one_form(void **)
{
    static const struct {
        const char *text;
        const char *host;
        uint16_t port;
    } good[] = {
        {"Index.example", "index.example", 0},
        {"index.example.:443", "index.example", 443},
        {"xn--bcher-kva.example:1", "xn--bcher-kva.example", 1},
        {"a_b.example", "a_b.example", 0},
        {"localhost:65535", "localhost", 65535},
        {"192.0.2.1:80", "192.0.2.1", 80},
        {"[2001:DB8:0:0::1]:80", "2001:db8::1", 80},
        {"[::ffff:192.0.2.1]", "192.0.2.1", 0},
    };
    static const char *const bad[] = {
        "",
        ".",
        "a..b",
        "-a.example",
        "a-.example",
        "a b",
        "a@b",
        "a/b",
        "a:0",
        "a:65536",
        "a:1x",
        "a:",
        "a:-1",
        "127.1",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "2130706433",
        "1.2.3.4.5",
        "127.0.0.1.",
        "1.2.3.256",
        "[::1",
        "[a]:80",
        "[127.0.0.1]:80",
        "::1",
        "[::1%lo]",
        "b\xc3\xbc.example",
        "a.0x7f",
        "[::1]80",
        "a:80:80",
        "a\t",
    };
    struct target target;
    char longest[300];
    for (unsigned i = 0; i < sizeof good / sizeof *good; i++) {
        if (!target_read(good[i].text, strlen(good[i].text), &target)) {
            fail_msg("%s is not taken", good[i].text);
        }
        assert_string_equal(target.host, good[i].host);
        assert_int_equal(target.port, good[i].port);
    }
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (target_read(bad[i], strlen(bad[i]), &target)) {
            fail_msg("%s is taken for %s", bad[i], target.host);
        }
    }
    assert_false(target_read("a\0.example", 10, &target));
    memset(longest, 'a', sizeof longest);
    assert_false(target_read(longest, 64, &target));
    for (unsigned i = 60; i < sizeof longest; i += 60) {
        longest[i] = '.';
    }
    assert_true(target_read(longest, 253, &target));
    assert_false(target_read(longest, 254, &target));
}

static bool permits(const struct egress_policy *policy, const char *text,
                    struct egress_event *event)
{
    struct target target;
    assert_true(target_read(text, strlen(text), &target));
    return policy_find(policy, &target, event) >= 0;
}

static bool leads(const struct egress_policy *policy, const char *text, const char *one,
                  const char *other, struct egress_event *event)
{
    struct target target;
    const struct egress_address both[] = {address(one), address(other)};
    assert_true(target_read(text, strlen(text), &target));
    return policy_allows_addresses(policy, &target, both, 2, event);
}

static void a_policy_names_hosts_and_ports(void **)
{
    struct egress_policy policy = {.flag = "--allow-host"};
    struct egress_event event = {};
    struct fail fail = {};
    assert_int_equal(egress_policy_add(&policy, "A.example", &fail), 0);
    assert_int_equal(egress_policy_add(&policy, "a.example:443", &fail), 0);
    assert_int_equal(policy.count, 1);
    assert_int_equal(egress_policy_add(&policy, "b.example:8080", &fail), 0);
    assert_int_equal(egress_policy_add(&policy, "[::1]:80", &fail), 0);
    assert_true(permits(&policy, "a.EXAMPLE:443", &event));
    assert_true(permits(&policy, "a.example.:80", &event));
    assert_true(permits(&policy, "b.example:8080", &event));
    assert_true(permits(&policy, "[0::0:1]:80", &event));
    static const char *const refused[] = {"a.example:8080",  "b.example:443", "x.a.example:443",
                                          "a.example.b:443", "8.8.8.8:80",    "example:443",
                                          "aa.example:443",  "[2600::2]:80"};
    for (unsigned i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_false(permits(&policy, refused[i], &event));
        assert_int_equal(event.kind, EGRESS_REFUSED_HOST);
    }
    static const char *const inner[] = {"127.0.0.1:80",     "localhost:80",
                                        "[::2]:80",         "169.254.169.254:80",
                                        "10.1.2.3:443",     "a.localhost:80",
                                        "ip6-localhost:80", "localhost.localdomain:80",
                                        "printer.local:80", "metadata.google.internal:80",
                                        "0.0.0.0:80",       "[::]:80"};
    for (unsigned i = 0; i < sizeof inner / sizeof *inner; i++) {
        assert_false(permits(&policy, inner[i], &event));
        assert_int_equal(event.kind, EGRESS_REFUSED_ADDRESS);
    }
    assert_false(permits(&policy, "[2600::2]:80", &event));
    assert_string_equal(event.host, "2600::2");
    assert_int_equal(event.port, 80);
    assert_string_equal(
        event.text,
        "[2600::2]:80 is not an allowed host (a.example, "
        "b.example:8080, ::1:80); the user can allow it: --allow-host [2600::2]:80");
    assert_true(egress_policy_add(&policy, "https://a.example", &fail) < 0);
    assert_non_null(strstr(fail.text, "--allow-host takes NAME"));
    for (unsigned i = 0; i < EGRESS_ROWS; i++) {
        char word[32];
        (void)snprintf(word, sizeof word, "h%u.example", i);
        int r = egress_policy_add(&policy, word, &fail);
        assert_int_equal(r < 0, i >= EGRESS_ROWS - 3);
    }
}

static void a_name_leads_to_public_addresses_or_to_named_ones(void **)
{
    struct egress_policy policy = {.flag = "--allow-host"};
    struct egress_event event = {};
    struct fail fail = {};
    assert_int_equal(egress_policy_add(&policy, "a.example", &fail), 0);
    assert_int_equal(egress_policy_add(&policy, "localhost:80", &fail), 0);
    assert_true(leads(&policy, "a.example:443", "93.184.215.14", "2606:4700::1", &event));
    assert_false(leads(&policy, "a.example:443", "93.184.215.14", "10.1.2.3", &event));
    assert_int_equal(event.kind, EGRESS_REFUSED_ADDRESS);
    assert_string_equal(event.text,
                        "a.example:443 resolves to 10.1.2.3, a private address; the user can allow "
                        "that address: --allow-host 10.1.2.3:443");
    assert_false(leads(&policy, "a.example:443", "127.0.0.1", "93.184.215.14", &event));
    assert_int_equal(egress_policy_add(&policy, "10.1.2.3:443", &fail), 0);
    assert_true(leads(&policy, "a.example:443", "93.184.215.14", "10.1.2.3", &event));
    assert_false(leads(&policy, "a.example:80", "93.184.215.14", "10.1.2.3", &event));
    assert_true(leads(&policy, "10.1.2.3:443", "10.1.2.3", "10.1.2.3", &event));
    assert_true(leads(&policy, "localhost:80", "127.0.0.1", "::1", &event));
    assert_false(leads(&policy, "localhost:80", "127.0.0.1", "169.254.169.254", &event));
}

static void a_host_of_an_index_may_be_anywhere_but_a_metadata_service(void **)
{
    struct egress_policy policy = {.flag = "--index-host", .any_address = true};
    struct egress_event event = {};
    struct fail fail = {};
    assert_int_equal(egress_policy_add(&policy, "a.example:443", &fail), 0);
    assert_true(leads(&policy, "a.example:443", "10.1.2.3", "203.0.113.9", &event));
    assert_true(leads(&policy, "a.example:443", "127.0.0.1", "fd00::1", &event));
    assert_false(leads(&policy, "a.example:443", "10.1.2.3", "169.254.169.254", &event));
    assert_non_null(strstr(event.text, "the address of a metadata service"));
    assert_false(permits(&policy, "10.1.2.3:443", &event));
    assert_false(permits(&policy, "b.example:443", &event));
}

static void resolv_conf_names_servers(void **)
{
    struct egress_resolvers resolvers;
    resolvers_of_text(
        "# nameserver 1.1.1.1\nsearch example\n nameserver\t9.9.9.9 \n"
        "nameserver fe80::1%eth0\nnameserver 2620:fe::fe\nnameserver 8.8.8.8\n"
        "nameserver 1.0.0.1",
        &resolvers);
    assert_int_equal(resolvers.count, 3);
    const char *const expected[] = {"9.9.9.9", "2620:fe::fe", "8.8.8.8"};
    for (unsigned i = 0; i < 3; i++) {
        struct egress_address one = address(expected[i]);
        assert_true(address_equal(&resolvers.servers[i], &one));
    }
    resolvers_of_text("", &resolvers);
    assert_int_equal(resolvers.count, 1);
    struct egress_address own = address("127.0.0.1");
    assert_true(address_equal(&resolvers.servers[0], &own));
}

static void hosts_file_knows_names(void **)
{
    static const char text[] =
        "127.0.0.1 localhost\n10.0.0.5\tDB.example db # web.example\n"
        "nonsense web.example\n::1 localhost\n10.0.0.6 db.example";
    struct egress_known known;
    known_of_text(text, "db.example", &known);
    assert_int_equal(known.count, 2);
    struct egress_address last = address("10.0.0.6");
    assert_true(address_equal(&known.addresses[1], &last));
    known_of_text(text, "web.example", &known);
    assert_int_equal(known.count, 0);
    known_of_text(text, "localhost", &known);
    assert_int_equal(known.count, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(private_addresses_are_distinguished_from_public_ones),
        cmocka_unit_test(a_host_has_one_form),
        cmocka_unit_test(a_policy_names_hosts_and_ports),
        cmocka_unit_test(a_name_leads_to_public_addresses_or_to_named_ones),
        cmocka_unit_test(a_host_of_an_index_may_be_anywhere_but_a_metadata_service),
        cmocka_unit_test(resolv_conf_names_servers),
        cmocka_unit_test(hosts_file_knows_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
