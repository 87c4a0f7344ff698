#pragma once
#include <jansson.h>

#include "tools/box/server_sandbox.h"
#include "tools/run/run.h"

/* Reads images from the sandbox, one after the other, into content blocks. */

/* blocks: new, an array, maybe empty; NULL when out of memory. */
typedef void (*images_fn)(void *arg, json_t *blocks);

/* paths: RUN_IMAGES, borrowed until this returns; NULL: none. Skips what is missing, too large or
 * not an image, names what is damaged, and bounds the number and bytes of the others. Calls fn
 * once, maybe before this returns. */
void images_take(struct server_box *server_box, const struct run_text *paths, images_fn fn,
                 void *arg);
