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

/* The same for a name that is known to lead to no public address, wherever it is resolved. */
const char *name_error(const char *host);
/* Whether host is domain or a name in it. Both: in their canonical form. */
bool name_is_below(const char *host, const char *domain);

/* "NAME:PORT", "[ADDRESS]:PORT" or without a port, which then is 0. */
struct target {
    char host[EGRESS_HOST_BYTES];
    uint16_t port;
    bool literal;
    struct egress_address address;
};

bool target_read(const char *text, size_t size, struct target *ret_target);

enum { TARGET_BYTES = EGRESS_HOST_BYTES + 10 };

/* "host:port", with brackets where it needs them. Returns text. */
const char *target_print(const struct target *target, char text[TARGET_BYTES]);

/* A number of 1 to most digits; most: below 20. */
bool digits_read(const char *text, size_t size, size_t most, uint64_t *ret_value);

/* --- policy --- */

/* What a policy decides about a request and about the addresses of its name. Pure. */

/* Returns the row that allows the target, or -1 with an event that lists what is allowed. */
int policy_find(const struct egress_policy *policy, const struct target *target,
                struct egress_event *ret_event);

/* Whether a target that a row allows may be connected to all of these addresses. An address that is
 * not public must itself be named as an address; "localhost" names the loopback addresses. */
bool policy_allows_addresses(const struct egress_policy *policy, const struct target *target,
                             const struct egress_address *addresses, size_t count,
                             struct egress_event *ret_event);

/* Fills an event for target. text: the sentence that follows "HOST:PORT ". */
__attribute__((format(printf, 4, 5))) void event_set(struct egress_event *event,
                                                     enum egress_event_kind kind,
                                                     const struct target *target, const char *fmt,
                                                     ...);

/* word: "NAME", "NAME:PORT", "192.0.2.1:80", "[2001:db8::1]:80"; without a port: 443 and 80. Does
 * not add a host twice. 0 or -errno with a sentence. */
int egress_policy_add(struct egress_policy *policy, const char *word, struct fail *ret_fail);
/* The same for a host that the user has allowed when asked. */
int egress_policy_allow(struct egress_policy *policy, const char *word, struct fail *ret_fail);
