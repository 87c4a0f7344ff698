#pragma once
#include <stddef.h>
#include <stdint.h>

#include "sandbox/egress/address.h"

/* Requests to a proxy, RFC 9110 and 9112: "CONNECT host:port" and "GET http://host/path". Pure.
 *
 * One request a connection: what follows the first one's body is never looked at as another, so that
 * no second request can hide in the first. What cannot be read in one way only is refused: bare line
 * feeds, folded lines, two lengths, a length beside a transfer coding, names with blanks. */

enum { REQUEST_HEAD_MOST = 16384, REQUEST_HEADERS_MOST = 100, REQUEST_STATUS_NONE = 0 };

struct request {
    bool tunnel; /* CONNECT */
    struct target target;
    size_t head_bytes;   /* of what came */
    uint64_t body_bytes; /* that follow; not of a tunnel */
};

enum request_result { REQUEST_MORE, REQUEST_WHOLE, REQUEST_BAD };

/* REQUEST_BAD: *ret_status is the HTTP status to answer with, and *ret_why says what is wrong. */
enum request_result request_read(const char *bytes, size_t size, struct request *ret_request,
                                 unsigned *ret_status, const char **ret_why);

/* Writes the head that the origin gets: path instead of URI, Host by the URI, no fields that are for
 * the proxy, "Connection: close". bytes: as request_read() took them. Returns its length, 0 when it does not
 * fit. */
size_t request_write_head(const struct request *request, const char *bytes, char *out, size_t size);
