#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "tools/run/run.h"

/* New: the whole outcome of a run, by schema/run_python.output.json; NULL when out of memory.
 * has_images: the result also has image blocks. */
json_t *structured_run(const struct run *run, bool has_images);

/* The same for people, with what the code has shown in forms that only they get. */
json_t *structured_view(const struct run *run, bool has_images);

/* The same for a job that goes on. printed: what it has printed. */
json_t *structured_running(const struct run *run, const struct output *printed, const char *status);

/* New: a fact as text, or the items of a list; NULL: there is none. */
json_t *structured_fact(const struct run *run, enum run_fact fact);

/* New: the value of the last expression; NULL if it is no JSON. */
json_t *structured_value(const struct run *run);
