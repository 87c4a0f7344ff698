#pragma once
#include <stddef.h>
#include <stdint.h>

#include "sandbox/egress/address.h"

/* Requests to a proxy, RFC 9110 and 9112: "CONNECT host:port" and "GET http://host/path". Pure.
 *
 * A connection carries one request: what follows the first body is never parsed, so that no
 * second request can hide in the first. Whatever can be read in more than one way is refused: bare
 * line feeds, folded lines, two lengths, a length beside a transfer coding, blanks in names. */

enum { REQUEST_HEAD_MOST = 16384, REQUEST_HEADERS_MOST = 100 };

struct request {
    bool tunnel; /* CONNECT */
    struct target target;
    size_t head_bytes;   /* of the received bytes */
    uint64_t body_bytes; /* bytes that follow; not of a tunnel */
};

enum request_result { REQUEST_MORE, REQUEST_WHOLE, REQUEST_BAD };

/* REQUEST_BAD: *ret_status is the HTTP status of the response, *ret_why the reason. */
enum request_result request_read(const char *bytes, size_t size, struct request *ret_request,
                                 unsigned *ret_status, const char **ret_why);

/* Writes the head for the origin: a path instead of the URI, Host from the URI, no fields meant for
 * the proxy, "Connection: close". bytes: those that request_read() read. Returns the length, or 0
 * when it does not fit. */
size_t request_write_head(const struct request *request, const char *bytes, char *out, size_t size);
