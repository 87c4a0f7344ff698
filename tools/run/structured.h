#pragma once
#include <jansson.h>
#include <stdbool.h>

struct run;

/* New: the whole outcome of a run, by schema/run_python.output.json; NULL when out of memory.
 * has_images: the result also has image blocks. */
json_t *structured_run(const struct run *run, bool has_images);
