#pragma once
#include <stddef.h>

#include "sandbox/egress/address.h"

/* What a policy says to a request and to the addresses that its name has. Pure. */

/* The row that allows the target, or -1 with an event that says what is. */
int policy_find(const struct egress_policy *policy, const struct target *target,
                struct egress_event *ret_event);

/* Whether all of these addresses may be connected to, for a target that a row allows. One that is not
 * public must be named itself, as an address; "localhost" names the loopback ones. */
bool policy_allows_addresses(const struct egress_policy *policy, const struct target *target,
                             const struct egress_address *addresses, size_t count,
                             struct egress_event *ret_event);

/* Fills an event for target. text: its sentence behind "HOST:PORT ". */
__attribute__((format(printf, 4, 5))) void event_set(struct egress_event *event,
                                                     enum egress_event_kind kind,
                                                     const struct target *target, const char *fmt,
                                                     ...);

/* "host:port", with brackets where it needs them. */
const char *target_print(const struct target *target, char text[EGRESS_HOST_BYTES + 10]);
