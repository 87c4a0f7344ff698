#pragma once
#include <jansson.h>
#include <stdbool.h>

struct run;

/* New: all of a run's outcome as schema/run_python.output.json says; NULL when there is no memory.
 * has_images: image blocks come beside it. */
json_t *structured_run(const struct run *run, bool has_images);
