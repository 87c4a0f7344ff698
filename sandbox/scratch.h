#pragma once
#include <stdbool.h>
#include <sys/types.h>

/* The scratch directory holds /work and /tmp of sandboxes without their own root. unprivileged/
 * makes it; here are only types. */

struct cleanup;

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
