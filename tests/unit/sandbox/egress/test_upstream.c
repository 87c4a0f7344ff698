/* Upstream proxies as data: settings, what goes directly, and replies. */
#include "sandbox/egress/upstream.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/unit.h"

/* --- URLs --- */

static void a_url_is_read_as_libraries_read_it(void **)
{
    static const struct {
        const char *url;
        const char *shown; /* by upstream_print(), or a part of why it is unusable */
        const char *login; /* by upstream_login() */
    } rows[] = {
        {"http://proxy.example:3128", "http://proxy.example:3128", ""},
        {"proxy.example:3128", "http://proxy.example:3128", ""},
        {"HTTP://Proxy.Example./path?x#y", "http://proxy.example:80", ""},
        {" http://proxy ", "http://proxy:80", ""},
        {"[2001:db8::1]:8080", "http://[2001:db8::1]:8080", ""},
        {"http://10.1.2.3", "http://10.1.2.3:80", ""},
        {"http://Aladdin:open%20sesame@p.example", "http://Aladdin:***@p.example:80",
         "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="},
        {"http://u@p.example", "http://u:***@p.example:80", "Basic dTo="},
        {"http://u:a@b:c@p.example", "http://u:***@p.example:80", "Basic dTphQGI6Yw=="},
        {"http://u:%C3%A4@p.example", "http://u:***@p.example:80", "Basic dTrDpA=="},
        {"http://:@p.example", "http://:***@p.example:80", "Basic Og=="},
        {"socks5h://10.0.0.1:1080", "socks5h:// is not supported", NULL},
        {"https://p.example", "https:// is not supported, only http://, which", NULL},
        {"ht!tp://p.example", "it is no URL", NULL},
        {"http://", "its host or port", NULL},
        {"http://p.example:99999", "its host or port", NULL},
        {"http://127.1", "its host or port", NULL},
        {"http://u:a%0d%0ab@p.example", "a control character", NULL},
        {"http://u:100%@p.example", "write %25", NULL},
        {"http://u%3ax:y@p.example", "cannot be read", NULL},
        {"http://u:%00@p.example", "cannot be read", NULL},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct egress_upstream upstream;
        char shown[700];
        char login[UPSTREAM_LOGIN_BYTES];
        bool usable = upstream_parse(rows[i].url, &upstream);
        assert_int_equal(usable, rows[i].login != NULL);
        if (usable) {
            assert_string_equal(upstream_print(&upstream, /* user= */ true, shown, sizeof shown),
                                rows[i].shown);
            assert_string_equal(upstream_login(&upstream, login), rows[i].login);
            assert_string_equal(upstream.unusable, "");
        } else {
            assert_non_null(strstr(upstream.unusable, rows[i].shown));
            assert_null(strstr(upstream.unusable, "p.example"));
        }
    }
}

static void the_longest_login_fits(void **)
{
    struct egress_upstream upstream;
    char url[900] = "http://";
    char login[UPSTREAM_LOGIN_BYTES];
    memset(url + 7, 'u', 255);
    url[262] = ':';
    memset(url + 263, 'p', 511);
    strcpy(url + 774, "@p.example");
    assert_true(upstream_parse(url, &upstream));
    assert_int_equal(strlen(upstream_login(&upstream, login)), 6 + 4 * ((255 + 1 + 511 + 2) / 3));
    memmove(url + 264, url + 263, strlen(url + 263) + 1);
    assert_false(upstream_parse(url, &upstream));
}

/* --- settings --- */

static const char *environment; /* "name=value;name=value" */

static char *variable(const char *name)
{
    static char value[256];
    size_t size = strlen(name);
    for (const char *at = environment; *at; at += strcspn(at, ";"), at += *at == ';') {
        if (strncmp(at, name, size) == 0 && at[size] == '=') {
            (void)snprintf(value, sizeof value, "%.*s", (int)(strcspn(at, ";") - size - 1),
                           at + size + 1);
            return value;
        }
    }
    return NULL;
}

/* "SOURCE HOST:PORT" or "-". */
static const char *shown(const struct egress_upstream *upstream, char out[700])
{
    char name[600];
    if (!upstream->source[0]) {
        return "-";
    }
    (void)snprintf(out, 700, "%s %s", upstream->source,
                   upstream->unusable[0]
                       ? "unusable"
                       : upstream_print(upstream, /* user= */ false, name, sizeof name));
    return out;
}

static void flags_come_before_variables(void **)
{
    static const struct {
        const char *variables;
        const char *proxy;
        const char *no_proxy;
        const char *https;
        const char *http;
        const char *direct;
    } rows[] = {
        {"", NULL, NULL, "-", "-", ""},
        {"HTTPS_PROXY=http://a:1;NO_PROXY=x", NULL, NULL, "HTTPS_PROXY a:1", "-", "x"},
        {"HTTP_PROXY=http://a:1", NULL, NULL, "-", "HTTP_PROXY a:1", ""},
        {"HTTPS_PROXY=http://a:1;https_proxy=b:2", NULL, NULL, "https_proxy b:2", "-", ""},
        {"ALL_PROXY=a:1", NULL, NULL, "ALL_PROXY a:1", "ALL_PROXY a:1", ""},
        {"ALL_PROXY=a:1;https_proxy=", NULL, NULL, "-", "ALL_PROXY a:1", ""},
        {"HTTPS_PROXY=a:1;https_proxy=", NULL, NULL, "-", "-", ""},
        {"all_proxy=;ALL_PROXY=a:1", NULL, NULL, "-", "-", ""},
        {"ALL_PROXY=socks5h://s:1;HTTPS_PROXY=a:1;HTTP_PROXY=a:1", NULL, NULL, "HTTPS_PROXY a:1",
         "HTTP_PROXY a:1", ""},
        {"ALL_PROXY=socks5h://s:1;HTTPS_PROXY=a:1", NULL, NULL, "HTTPS_PROXY a:1",
         "ALL_PROXY unusable", ""},
        {"HTTPS_PROXY=a:1;NO_PROXY=x", "http://b:2", NULL, "--proxy b:2", "--proxy b:2", "x"},
        {"HTTPS_PROXY=a:1;NO_PROXY=x", "http://b:2", "y", "--proxy b:2", "--proxy b:2", "y"},
        {"HTTPS_PROXY=a:1;NO_PROXY=x", NULL, "", "HTTPS_PROXY a:1", "-", ""},
        {"no_proxy=;NO_PROXY=x;HTTPS_PROXY=a:1", NULL, NULL, "HTTPS_PROXY a:1", "-", ""},
        {"HTTPS_PROXY=a:1;ALL_PROXY=socks4://s:1", "off", NULL, "-", "-", ""},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        static struct egress_ways ways;
        char out[700];
        environment = rows[i].variables;
        bool any =
            ways_read(&(struct egress_settings){rows[i].proxy, rows[i].no_proxy, variable}, &ways);
        assert_int_equal(any, strcmp(rows[i].https, "-") != 0 || strcmp(rows[i].http, "-") != 0);
        assert_string_equal(shown(&ways.upstreams[EGRESS_HTTPS], out), rows[i].https);
        assert_string_equal(shown(&ways.upstreams[EGRESS_HTTP], out), rows[i].http);
        assert_string_equal(ways.direct, rows[i].direct);
    }
}

/* --- what goes directly --- */

static bool is_direct(const char *list, const char *host)
{
    static struct egress_ways ways;
    struct target target;
    (void)snprintf(ways.direct, sizeof ways.direct, "%s", list);
    assert_true(target_read(host, strlen(host), &target));
    target.port = target.port ? target.port : 443;
    return ways_is_direct(&ways, &target);
}

static void a_list_matches_what_curl_python_requests_and_go_match(void **)
{
    static const struct {
        const char *list;
        const char *host;
        bool direct;
    } rows[] = {
        {"", "a.example", false},
        {"*", "a.example", true},
        {"b.example, *", "a.example", true},
        {"example", "a.example", true},
        {".example", "a.example", true},
        {"*.example", "a.example", true},
        {"a.example", "a.example", true},
        {".a.example", "a.example", true},
        {"a.example.", "A.Example", true},
        {"A.EXAMPLE", "a.example.", true},
        {"a.example", "xa.example", false},
        {"a.example", "a.example.org", false},
        {"x b.example\ta.example", "a.example", true},
        {"x,,b.example ,a.example,", "a.example", true},
        {"a.example:443", "a.example:443", true},
        {"a.example:443", "b.a.example:443", true},
        {"a.example:8080", "a.example:443", false},
        {"10.0.0.0/8", "10.1.2.3", true},
        {"10.0.0.0/8", "11.1.2.3", false},
        {"10.1.2.3/8", "10.9.9.9", true},
        {"10.1.2.0/23", "10.1.3.255", true},
        {"10.1.2.0/23", "10.1.4.0", false},
        {"0.0.0.0/0", "10.1.4.0", true},
        {"0.0.0.0/0", "[2001:db8::1]", false},
        {"10.0.0.0/8", "ten.example", false},
        {"10.0.0.0/33", "10.0.0.1", false},
        {"::1/200,2001:db8::/129", "[2001:db8::1]", false},
        {"2001:db8::/32", "[2001:db8:1::2]", true},
        {"2001:db8::1", "[2001:db8::1]", true},
        {"[2001:db8::1]", "[2001:db8::1]:8443", true},
        {"[2001:db8::1]:8443", "[2001:db8::1]:443", false},
        {"::ffff:10.0.0.1", "10.0.0.1", true},
        {"10.0.0.1", "10.0.0.1:8443", true},
        {"10.0.0.1:1", "10.0.0.1:8443", false},
        {"nonsense/8", "10.0.0.1", false},
        {"10.0.0", "10.0.0.1", false},
        /* Of the proxy's machine these would be the loopback addresses. */
        {"", "localhost", true},
        {"", "a.localhost:8000", true},
        {"", "127.0.0.1", true},
        {"", "127.9.9.9", true},
        {"", "[::1]", true},
        {"", "[::ffff:127.0.0.1]", true},
        {"", "0.0.0.0:8000", true},
        {"", "[::]", true},
        {"", "ip6-localhost", true},
        {"", "LocalHost.LocalDomain", true},
        {"", "10.0.0.1", false},
        {"", "a.local", false},
        {"", "[::2]", false},
        {"", "notlocalhost", false},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (is_direct(rows[i].list, rows[i].host) != rows[i].direct) {
            fail_msg("\"%s\" and %s", rows[i].list, rows[i].host);
        }
    }
}

static void entries_that_match_nothing_are_named(void **)
{
    static struct egress_ways ways = {
        .direct = "a.example,10.0.0.0/33 192.168.*,<local>, *.b.example ::1/200,[::1], *,.c,*:80"};
    const char *at = ways.direct;
    const char *entry = NULL;
    size_t size = 0;
    char found[200] = "";
    while (ways_next_unreadable(&at, &entry, &size)) {
        (void)snprintf(found + strlen(found), sizeof found - strlen(found), "%.*s ", (int)size,
                       entry);
    }
    assert_string_equal(found, "10.0.0.0/33 192.168.* <local> ::1/200 *:80 ");
}

static void no_part_of_an_entry_is_taken(void **)
{
    static struct egress_ways ways;
    static char list[EGRESS_DIRECT_BYTES + 100];
    struct target target;
    environment = "";
    assert_true(target_read("50.1.2.3:443", 12, &target));
    for (size_t at = EGRESS_DIRECT_BYTES - 20; at < EGRESS_DIRECT_BYTES + 2; at++) {
        memset(list, 0, sizeof list);
        memset(list, 'a', at);
        list[60] = list[at - 1] = ',';
        strcpy(list + at, "10.1.2.0/24,*");
        (void)ways_read(&(struct egress_settings){NULL, list, variable}, &ways);
        assert_int_equal(ways.direct_cut, strlen(list) >= EGRESS_DIRECT_BYTES);
        if (ways.direct_cut) { /* "10.1.2.0/2" would match */
            assert_false(ways_is_direct(&ways, &target));
        }
    }
    memset(list, '*', sizeof list - 1);
    (void)ways_read(&(struct egress_settings){NULL, list, variable}, &ways);
    assert_string_equal(ways.direct, "");
}

static void a_tunnel_is_https_and_all_else_http(void **)
{
    static struct egress_ways ways;
    struct target target;
    environment = "HTTPS_PROXY=a:1;NO_PROXY=b.example";
    assert_true(target_read("c.example:80", 12, &target));
    assert_true(ways_read(&(struct egress_settings){.variable = variable}, &ways));
    assert_ptr_equal(ways_find(&ways, &target, true), &ways.upstreams[EGRESS_HTTPS]);
    assert_null(ways_find(&ways, &target, false));
    assert_true(target_read("b.example:443", 13, &target));
    assert_null(ways_find(&ways, &target, true));
}

/* --- replies --- */

static void a_reply_is_read_whatever_its_form(void **)
{
    static const struct {
        const char *bytes;
        enum reply_result result;
        unsigned status;
        const char *rest;
        const char *schemes;
        bool basic;
    } rows[] = {
        {"HTTP/1.1 200 OK\r\n\r\nTLS", REPLY_WHOLE, 200, "TLS", "", true},
        {"HTTP/1.0 200 Connection established\n\n", REPLY_WHOLE, 200, "", "", true},
        {"HTTP/1.1 200\r\n\r\n", REPLY_WHOLE, 200, "", "", true},
        {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 x\r\nA: b\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
         REPLY_WHOLE, 200, "", "", true},
        {"HTTP/1.1 403 \x1b[31mno\x80\r\nVia: x\r\n\r\n<html>", REPLY_WHOLE, 403, "<html>", "",
         true},
        {"HTTP/1.1 407 x\r\nProxy-Authenticate: Basic realm=\"x\"\r\n\r\n", REPLY_WHOLE, 407, "",
         "", true},
        {"HTTP/1.1 407 x\r\nProxy-Authenticate: Negotiate\r\nproxy-authenticate: NTLM\r\n\r\n",
         REPLY_WHOLE, 407, "", "Negotiate, NTLM", false},
        {"HTTP/1.1 407 x\r\nProxy-Authenticate: Digest realm=\"Basics\", qop=\"auth\"\r\n\r\n",
         REPLY_WHOLE, 407, "", "Digest", false},
        {"HTTP/1.1 407 x\r\nProxy-Authenticate: NTLM,basic realm=\"x\"\r\n\r\n", REPLY_WHOLE, 407,
         "", "NTLM", true},
        {"HTTP/1.1 407 x\r\nProxy-Authenticate: Digest realm=\"a, Basic b\\\", Basic c\", "
         "NTLM\r\n\r\n",
         REPLY_WHOLE, 407, "", "Digest, NTLM", false},
        {"HTTP/1.1 407 x\r\nProxy-Authenticate: Digest realm=\"a, NTLM\", Basic "
         "realm=\"b\"\r\n\r\n",
         REPLY_WHOLE, 407, "", "Digest", true},
        {"HTTP/1.1 401 x\r\nWWW-Authenticate: Basic realm=\"x\"\r\n\r\n", REPLY_WHOLE, 401, "", "",
         true},
        {"", REPLY_MORE},
        {"HTT", REPLY_MORE},
        {"HTTP/1.1 20", REPLY_MORE},
        {"HTTP/1.1 200 OK\r\nA: b\r\n", REPLY_MORE},
        {"HTTP/1.1 100 Continue\r\n\r\n", REPLY_MORE},
        {"SSH-2.0-x\r\n", REPLY_GARBAGE},
        {"HTTP/2 200\r\n\r\n", REPLY_GARBAGE},
        {"HTTP/1.1 2x0 OK\r\n\r\n", REPLY_GARBAGE},
        {"HTTP/1.1 2000\r\n\r\n", REPLY_GARBAGE},
        {"HTTP/1.1 099 x\r\n\r\n", REPLY_GARBAGE},
        {"\x15\x03\x01", REPLY_GARBAGE},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct upstream_reply reply = {};
        size_t size = strlen(rows[i].bytes);
        assert_int_equal(reply_read(rows[i].bytes, size, &reply), rows[i].result);
        if (rows[i].result == REPLY_WHOLE) {
            assert_int_equal(reply.status, rows[i].status);
            assert_string_equal(rows[i].bytes + reply.head_bytes, rows[i].rest);
            assert_string_equal(reply.schemes, rows[i].schemes);
            assert_int_equal(reply.takes_basic, rows[i].basic);
        }
    }
}

static void a_page_is_no_tunnel(void **)
{
    static const struct {
        const char *bytes;
        bool page;
    } rows[] = {
        {"HTTP/1.1 302 Found\r\nLocation: http://login.example/\r\n\r\n", true},
        {"HTTP/1.1 511 x\r\n\r\n", true},
        {"HTTP/1.0 200 OK\r\ncontent-type:TEXT/HTML;charset=x\r\n\r\n<html>", true},
        {"HTTP/1.1 200 OK\r\nContent-Length: 20\r\nContent-Type: text/html\r\n\r\n", true},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/html\r\n\r\n", true},
        {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Type: text/html\r\n\r\n", false},
        {"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n220 hello", false},
        {"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n<", false},
        {"HTTP/1.1 200 OK\r\nContent-Length: 20\r\nContent-Type: text/h\r\n\r\n<", false},
        {"HTTP/1.1 200 OK\r\nContent-Length:\r\nContent-Type:\r\n\r\n<", false},
        {"HTTP/1.1 403 x\r\nContent-Length: 20\r\nContent-Type: text/html\r\n\r\n<html>", false},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct upstream_reply reply = {};
        assert_int_equal(reply_read(rows[i].bytes, strlen(rows[i].bytes), &reply), REPLY_WHOLE);
        assert_int_equal(reply.is_page, rows[i].page);
    }
}

static void a_head_without_end_is_garbage(void **)
{
    static char bytes[REPLY_HEAD_MOST] = "HTTP/1.1 200 OK\r\nA: ";
    struct upstream_reply reply;
    memset(bytes + strlen(bytes), 'a', sizeof bytes - strlen(bytes));
    assert_int_equal(reply_read(bytes, sizeof bytes - 1, &reply), REPLY_MORE);
    assert_int_equal(reply_read(bytes, sizeof bytes, &reply), REPLY_GARBAGE);
}

/* --- sentences --- */

static void a_sentence_has_host_and_port_but_no_login(void **)
{
    struct egress_upstream upstream;
    struct egress_event event;
    struct target target;
    struct upstream_reply reply = {.status = 403, .takes_basic = true};
    assert_true(upstream_parse("http://domain%5Cme:s%33cret@proxy.example:3128", &upstream));
    strcpy(upstream.source, "HTTPS_PROXY");
    assert_true(target_read("a.example:8443", 14, &target));
    for (int error = UPSTREAM_REFUSES; error <= UPSTREAM_PASSWORD; error++) {
        for (reply.status = 401; reply.status <= 407; reply.status += 6) {
            upstream_explain(&upstream, (enum upstream_error)error, &reply, &target, &event);
            assert_non_null(strstr(event.text, "a.example:8443 cannot be reached: "));
            assert_non_null(strstr(event.text, " the upstream proxy proxy.example:3128 "));
            assert_null(strstr(event.text, "s3cret"));
            assert_null(strstr(event.text, "domain"));
            assert_int_equal(event.kind, EGRESS_UPSTREAM);
        }
    }
    static const char *const echoes[] = {
        "login s3cret",     "s%33cret",  "ZG9tYWluXG1lOnMzY3JldA==",
        "ZG9tYWluXG1lOnMz", "domain?me", "%64omain"};
    for (unsigned i = 0; i < sizeof echoes / sizeof *echoes; i++) {
        char head[100];
        int size = snprintf(head, sizeof head, "HTTP/1.1 403 %s\r\n\r\n", echoes[i]);
        assert_int_equal(reply_read(head, (size_t)size, &reply), REPLY_WHOLE);
        upstream_explain(&upstream, UPSTREAM_REFUSES, &reply, &target, &event);
        assert_non_null(strstr(event.text, "refuses it (403); proxies often permit only port 443"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_url_is_read_as_libraries_read_it),
        cmocka_unit_test(the_longest_login_fits),
        cmocka_unit_test(flags_come_before_variables),
        cmocka_unit_test(a_list_matches_what_curl_python_requests_and_go_match),
        cmocka_unit_test(entries_that_match_nothing_are_named),
        cmocka_unit_test(no_part_of_an_entry_is_taken),
        cmocka_unit_test(a_tunnel_is_https_and_all_else_http),
        cmocka_unit_test(a_reply_is_read_whatever_its_form),
        cmocka_unit_test(a_page_is_no_tunnel),
        cmocka_unit_test(a_head_without_end_is_garbage),
        cmocka_unit_test(a_sentence_has_host_and_port_but_no_login),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
