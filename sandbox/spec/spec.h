#pragma once
#include "sandbox/types.h"

/* The request for a sandbox: its defaults, and what follows from it. */

/* Where code finds its files in a sandbox with its own root. */
extern const struct box_paths box_paths_full;

void box_spec_init(struct box_spec *spec);

/* Whether /work is the user's directory itself, in which they may work at the same moment. */
bool box_spec_is_written_through(const struct box_spec *spec);

/* Whether the files of /work are there after the sandbox, in the user's directory or in a store. */
bool box_spec_files_stay(const struct box_spec *spec);

/* Size of the tmpfs with the workspace and /tmp: may be less than requested, as a part of the
 * memory. */
uint64_t box_spec_disk_bytes(const struct box_spec *spec);

/* What copies of files for `undo` may take: less than requested, as a part of the memory. */
uint64_t box_spec_undo_files_bytes(const struct box_spec *spec);
