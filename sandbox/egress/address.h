#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sandbox/egress.h"

/* Internet addresses: their one form, their spelling, and whether a box may be led to them. Pure. */

enum { ADDRESS_TEXT_BYTES = 46 };

struct egress_address address_from_v4(const uint8_t bytes[4]);
bool address_is_v4(const struct egress_address *address);
bool address_equal(const struct egress_address *a, const struct egress_address *b);

/* Reads "192.0.2.1" or, in any of its forms, "2001:db8::1". Only the plain decimal spelling of IPv4
 * counts: what is octal or hexadecimal to one program is something else to the next. */
bool address_read(const char *text, struct egress_address *ret_address);
const char *address_print(const struct egress_address *address, char text[ADDRESS_TEXT_BYTES]);

/* NULL for a public address, else what it is: "a private address", … */
const char *address_trouble(const struct egress_address *address);

/* Reads a host as it stands in requests and flags, without brackets, into its one form. Returns false
 * for what is neither a name by RFC 1123 (underscores allowed) nor an address. */
bool host_read(const char *text, size_t size, char ret_host[EGRESS_HOST_BYTES], bool *ret_literal,
               struct egress_address *ret_address);

/* "NAME:PORT", "[ADDRESS]:PORT" or without a port, which is 0 then. */
struct target {
    char host[EGRESS_HOST_BYTES];
    uint16_t port;
    bool literal;
    struct egress_address address;
};

bool target_read(const char *text, size_t size, struct target *ret_target);
