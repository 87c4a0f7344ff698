#pragma once
#include "sandbox/policy/filter.h"

/* Filters of level full that the build has compiled (build-aux/make_filters.c): that takes half a
 * millisecond of each start. */
enum made_filter {
    MADE_INIT,
    MADE_NAMES,
    MADE_ARGUMENTS,
    MADE_WITH_LANDLOCK, /* by argument */
    MADE_FILTERS,
};

/* All are empty where the build could not run programs of the target. */
extern const struct filter_program made_filters[MADE_FILTERS];
