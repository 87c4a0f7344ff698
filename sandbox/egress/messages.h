#pragma once
#include <stddef.h>
#include <stdint.h>

#include "sandbox/egress/policy.h"

/* DNS queries and responses, RFC 1035 and 3596. Pure. */

enum { DNS_A = 1, DNS_AAAA = 28 };
enum {
    DNS_MESSAGE_MOST = 4096,
    DNS_QUERY_MOST = 12 + 256 + 4,
    DNS_ADDRESSES = 256, /* a message of that size holds no more */
};

/* name: in the form that host_read() returns. Returns the length. */
size_t dns_write_query(const char *name, uint16_t type, uint16_t id, uint8_t out[DNS_QUERY_MOST]);

enum dns_result {
    DNS_STRANGE,   /* not a response to this query: ignore it */
    DNS_ANSWERED,  /* addresses, perhaps none */
    DNS_NO_NAME,   /* there is no such name */
    DNS_TRUNCATED, /* repeat the query over TCP */
    DNS_FAILED,    /* the server failed or refused */
};

struct dns_answer {
    struct egress_address addresses[DNS_ADDRESSES];
    size_t count;
    uint32_t ttl_s; /* the lowest of the alias chain */
};

/* Takes the addresses of name and of its aliases (CNAME). */
enum dns_result dns_read_answer(const uint8_t *bytes, size_t size, const char *name, uint16_t type,
                                uint16_t id, struct dns_answer *ret_answer);

/* --- requests --- */

/* Requests to a proxy, RFC 9110 and 9112: "CONNECT host:port" and "GET http://host/path". Pure.
 *
 * A connection carries one request: what follows the first body is never parsed, so that no
 * second request can hide in the first. Whatever can be read in more than one way is refused: bare
 * line feeds, folded lines, two lengths, a length beside a transfer coding, blanks in names. */

enum { REQUEST_HEAD_MOST = 16384, REQUEST_HEADERS_MOST = 100 };

struct request {
    bool tunnel;  /* CONNECT */
    bool traces;  /* TRACE, whose reply repeats the request */
    bool expects; /* a 100 before it sends its body, RFC 9110 10.1.1 */
    struct target target;
    size_t head_bytes;   /* of the received bytes */
    uint64_t body_bytes; /* bytes that follow; not of a tunnel */
};

enum request_result { REQUEST_MORE, REQUEST_WHOLE, REQUEST_BAD };

/* REQUEST_BAD: *ret_status is the HTTP status of the response, *ret_why the reason. */
enum request_result request_read(const char *bytes, size_t size, struct request *ret_request,
                                 unsigned *ret_status, const char **ret_why);

/* Writes the head for the origin: a path instead of the URI, Host from the URI, no fields meant for
 * the proxy, "Connection: close". bytes: those that request_read() read. login: NULL, or the head
 * is for an upstream proxy and keeps the URI: what that one is sent ("": nothing). Returns the
 * length, or 0 when it does not fit. */
size_t request_write_head(const struct request *request, const char *bytes, const char *login,
                          char *out, size_t size);

/* Writes the head that has an upstream proxy make a tunnel. Returns as above. */
size_t request_write_connect(const struct target *target, const char *login, char *out,
                             size_t size);
