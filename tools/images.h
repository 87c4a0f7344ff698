#pragma once
#include <jansson.h>

#include "tools/run.h"
#include "tools/workspace.h"

/* Takes images out of the box, one after the other, and makes content blocks of them. */

/* blocks: new, an array, maybe empty; NULL when there is no memory. */
typedef void (*images_fn)(void *arg, json_t *blocks);

/* paths: RUN_IMAGES, borrowed until this returns; NULL: none. What is missing, too large or no image is passed over,
 * the rest is bounded in number and bytes. Calls fn once, maybe before this returns. */
void images_take(struct workspace *workspace, const struct run_text *paths, images_fn fn,
                 void *arg);
