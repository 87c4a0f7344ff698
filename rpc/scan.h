#pragma once
#include <stdbool.h>

#include "rpc/frame.h"

/* Checks JSON text without parsing it: what must be known before jansson gets it, and what can
 * still be read of a line that jansson refuses. Takes any bytes. Never recurses. */

enum scan_size { SCAN_FITS, SCAN_TOO_DEEP, SCAN_TOO_MANY };

/* Whether arrays and objects nest at most depth_limit deep, and whether there are at most
 * values_limit of them and of commas together. */
enum scan_size scan_size(struct span text, unsigned depth_limit, size_t values_limit);

/* Where the value of an object's own member begins, up to the end of the text: the first one with
 * that key, in which nothing is escaped. */
bool scan_member(struct span object, const char *key, struct span *ret_rest);
