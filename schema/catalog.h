#pragma once
#include "base/embed.h"

/* The files NAME.input.json, in order; ends with a NULL name. Generated at build time. */
extern const struct embedded schema_catalog[];

/* The files NAME.output.json, one for each input file. Ends with a NULL name. */
extern const struct embedded schema_outputs[];
