#pragma once
#include <stddef.h>
#include <stdint.h>

#include "sandbox/egress/address.h"

/* Questions to a name server and its answers, RFC 1035 and 3596. Pure. */

enum { DNS_A = 1, DNS_AAAA = 28 };
enum {
    DNS_MESSAGE_MOST = 4096,
    DNS_QUERY_MOST = 12 + 256 + 4,
    DNS_ADDRESSES = 256, /* a message of that size has not more */
};

/* name: as host_read() makes them. Returns the length. */
size_t dns_write_query(const char *name, uint16_t type, uint16_t id, uint8_t out[DNS_QUERY_MOST]);

enum dns_result {
    DNS_STRANGE,   /* not an answer to this question: to be passed over */
    DNS_ANSWERED,  /* addresses, perhaps none */
    DNS_NO_NAME,   /* there is no such name */
    DNS_TRUNCATED, /* to be asked again over TCP */
    DNS_FAILED,    /* the server cannot say */
};

struct dns_answer {
    struct egress_address addresses[DNS_ADDRESSES];
    size_t count;
    uint32_t ttl_s; /* the least on the way */
};

/* Takes the addresses of name, and of the names that it stands for (CNAME). */
enum dns_result dns_read_answer(const uint8_t *bytes, size_t size, const char *name, uint16_t type,
                                uint16_t id, struct dns_answer *ret_answer);
