#pragma once
#include <stddef.h>
#include <stdint.h>

#include "sandbox/egress/address.h"

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
