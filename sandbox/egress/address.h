#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sandbox/types.h"

/* Internet addresses: their canonical form, their spelling, and whether a sandbox may connect to
 * them. Pure. */

enum { ADDRESS_TEXT_BYTES = 46 };

struct egress_address address_from_v4(const uint8_t bytes[4]);
bool address_is_v4(const struct egress_address *address);
bool address_equal(const struct egress_address *a, const struct egress_address *b);

/* Reads "192.0.2.1" or any form of "2001:db8::1". Of IPv4 it accepts only the plain decimal
 * spelling: programs disagree on octal and hexadecimal numbers. */
bool address_read(const char *text, struct egress_address *ret_address);
const char *address_print(const struct egress_address *address, char text[ADDRESS_TEXT_BYTES]);

/* NULL for a public address, else its kind: "a private address", … */
const char *address_error(const struct egress_address *address);

/* "NAME:PORT", "[ADDRESS]:PORT" or without a port, which then is 0. */
struct target {
    char host[EGRESS_HOST_BYTES];
    uint16_t port;
    bool literal;
    struct egress_address address;
};

bool target_read(const char *text, size_t size, struct target *ret_target);

/* A number of 1 to most digits; most: below 20. */
bool digits_read(const char *text, size_t size, size_t most, uint64_t *ret_value);
