#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "base/fail.h"

struct cleanup;
struct box_spec;
struct box_scratch;

/* The scratch directory holds /work and /tmp of sandboxes without their own root. unprivileged/
 * makes it; here are only types. */

/* Which uids the processes of sandboxes without a user namespace have. All have the server's where
 * the server runs as an ordinary user, or where other uids cannot be used. */
struct uid_pool {
    uid_t guest;
    gid_t group;
    /* The supervisor's real and saved uid. Its effective uid is the guest's: it can signal and
     * trace the guest, but not the reverse. */
    uid_t supervisor;
    uid_t proxy;
    uid_t installer; /* the same in all servers of a user, because they share files */
    uid_t installer_supervisor;
    bool own; /* nobody else has the guest's uid: the kernel counts only its processes */
};

enum { SCRATCH_PATH_BYTES = 256 };

/* The user's files that installers get as copies. */
enum scratch_copy { SCRATCH_CONSTRAINT, SCRATCH_CERTIFICATE, SCRATCH_COPIES };

struct box_scratch {
    char path[SCRATCH_PATH_BYTES]; /* real path, holds the following */
    char work[SCRATCH_PATH_BYTES + 8];
    char tmp[SCRATCH_PATH_BYTES + 8];
    char home[SCRATCH_PATH_BYTES + 8];
    char output[SCRATCH_PATH_BYTES + 8];
    char run[SCRATCH_PATH_BYTES + 8];
    char installer[SCRATCH_PATH_BYTES + 8];
    char workspace[4096]; /* the user's, if it is not work */
    struct uid_pool ids;  /* of the sandboxes' processes */
    const char *name;     /* the last part of path */
    int parent_fd;
    int fd;
    int lock_fd;
    struct cleanup *cleanup; /* the cleanup helper's item */
    char copies[SCRATCH_COPIES][SCRATCH_PATH_BYTES + 32];
    bool has_installer;
};

/* The directory that holds the files of sandboxes without a root of their own. */

/* Resolves spec's isolation, if it is BOX_ISOLATION_BEST, and its memory limit, by the container or
 * service around the server. For isolation without namespaces makes the scratch directory below
 * $TMPDIR, /tmp or /dev/shm, the first that will do; otherwise returns NULL. Points spec's paths
 * and scratch to it, so it must outlive spec. spec->workspace and spec->guest must be set.
 * box_scratch_close removes it, or the cleanup helper if the server ends in any other way. 0 or
 * -errno */
[[nodiscard]] int box_scratch_open(struct box_spec *spec, struct box_scratch **ret_scratch,
                                   struct fail *ret_fail);

/* scratch may be NULL; no sandbox may use it. */
void box_scratch_close(struct box_scratch *scratch);
