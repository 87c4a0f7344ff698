#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "rpc/frame.h"

/* Looks at JSON text without parsing it: what must be known before jansson sees it, and what it
 * does not keep. Takes any bytes; only what it says of valid JSON has a meaning. Never recurses. */

/* Whether arrays and objects nest at most max deep. */
bool scan_depth_within(struct span text, unsigned max);

/* The raw text of a member's value, of the first with that key (in which nothing is escaped). */
bool scan_member(struct span object, const char *key, struct span *ret_value);

/* The next item of array. *at: NULL before the first. */
bool scan_next(struct span array, const char **at, struct span *ret_value);

/* Whether text is a JSON integer of any length. */
bool scan_is_integer(struct span text);

/* Appends text with ".0" behind each integer that may not fit 64 bits, so that jansson reads it as
 * a real. 0 or -ENOMEM. */
int scan_widen(struct span text, struct buf *out);
