#pragma once
#include <stdbool.h>
#include <sys/types.h>

/* Whose rights the processes of boxes without a user namespace have. As an ordinary user, and where other
 * ids cannot be given or would not do, all have the server's. */
struct ids {
    uid_t guest;
    gid_t group;
    uid_t
        guard; /* the real and saved uid of its guardian, whose effective one is the guest's: so it can
                    signal the guest and look into it, and not the reverse */
    uid_t broker;
    uid_t errand; /* in all servers of a user, for they have files in common */
    uid_t errand_guard;
    bool own; /* nobody else has the guest's: the kernel counts its processes alone */
};

/* Whether everybody may go where path leads, and read there. */
bool ids_all_reach(const char *path);

/* workspace: NULL, or a folder of the user's: code works as its owner. needed: paths, closed by NULL, of
 * programs and folders that code must reach, for there is no other view. */
void ids_choose(const char *workspace, const char *const *needed, struct ids *ret_ids);
