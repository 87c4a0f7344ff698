#pragma once
#include "base/embed.h"

/* The page that shows results to people, in parts: view.css, clean.js and view.js. Also the look of a
 * record's export. */
extern const struct embedded view_catalog[];
