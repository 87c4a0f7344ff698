#include "sandbox/types.h"

#include "base/limits.h"

const struct box_paths box_paths_full = {
    .work = "/work",
    .tmp = "/tmp",
    .home = "/tmp/home",
    .output = "/tmp/output",
    .run = "/run/sandpiper",
    .data = "/data",
    .packages = "/packages",
    .staging = "/stage",
    .cache = "/cache",
    .find_links = "/find-links",
    .constraint = "/constraint",
    .certificate = "/index-cert",
};

void box_spec_init(struct box_spec *spec)
{
    *spec = (struct box_spec){.limits = {.memory_bytes = DEFAULT_MEMORY_BYTES,
                                         .disk_bytes = DEFAULT_DISK_BYTES,
                                         .disk_inodes = DEFAULT_DISK_INODES,
                                         .pids = DEFAULT_PIDS},
                              .paths = box_paths_full,
                              .packages = true,
                              .packages_bytes = DEFAULT_PACKAGES_BYTES,
                              .undo_files_bytes = DEFAULT_UNDO_FILES_BYTES};
}

bool box_spec_is_written_through(const struct box_spec *spec)
{
    return spec->workspace && !spec->cow;
}

bool box_spec_files_stay(const struct box_spec *spec)
{
    return spec->workspace && (!spec->cow || spec->store);
}

/* Files in memory count as memory: a quarter of it is left for the interpreter, so that a full disk
 * is an error that code can handle, and does not kill each later process. */
uint64_t box_spec_disk_bytes(const struct box_spec *spec)
{
    bool on_disk = spec->scratch || spec->isolation == BOX_ISOLATION_CONTAINER;
    uint64_t most = on_disk ? UINT64_MAX : spec->limits.memory_bytes / 4 * 3;
    return spec->limits.disk_bytes < most ? spec->limits.disk_bytes : most;
}

/* The keeper holds them in memory, beside what they are copies of: with a full disk an interpreter
 * needs what is left. */
uint64_t box_spec_undo_files_bytes(const struct box_spec *spec)
{
    uint64_t most = spec->limits.memory_bytes / 16;
    return spec->undo_files_bytes < most ? spec->undo_files_bytes : most;
}
