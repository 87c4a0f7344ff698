#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/* One file's part of a patch for `git apply`. Pure. */

enum { PATCH_FILE_BYTES = 16 << 20 }; /* larger files are not in a patch, as are binary ones */

/* One side of a change. */
struct patch_file {
    uint32_t mode; /* st_mode; 0: there is no file */
    uint64_t size; /* 0 for a directory */
    /* The content, or a symlink's target. NULL: not read; the file is then not in the patch. Must
     * not change meanwhile. */
    const char *bytes;
};

struct patch_counts {
    uint32_t
        added; /* lines; both UINT32_MAX: the file is not in the patch, or no line would tell */
    uint32_t removed;
    bool invisible; /* an added line has characters that are not seen, or change how others are:
                       escape sequences, a return alone, no width, another direction ("Trojan
                       Source", CVE-2021-42574) */
};

/* Appends what makes new of old at path: nothing if they are equal or directories, a comment where
 * a patch of text cannot have it. out: NULL only to count. work: see diff_lines(). 0 or -ENOMEM;
 * out then has a part of it. */
[[nodiscard]] int patch_write(const char *path, const struct patch_file *old,
                              const struct patch_file *new, uint64_t *work, struct buf *out,
                              struct patch_counts *ret);
