#pragma once
#include <stddef.h>

#include "sandbox/egress/address.h"

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
