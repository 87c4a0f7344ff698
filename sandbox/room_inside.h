#pragma once
#include <sys/types.h>

#include "base/embed.h"
#include "sandbox/plan/ids.h"
#include "sandbox/sandbox.h"
#include "sandbox/start/sweeper.h"

/* Inside of the room that sandbox/ is: the folder of room.h. */

enum { ROOM_PATH_BYTES = 256 };

/* Files of the user's that errands get as copies. */
enum room_copy { ROOM_CONSTRAINT, ROOM_CERTIFICATE, ROOM_COPIES };

struct box_room {
    char path[ROOM_PATH_BYTES]; /* real; what follows lies in it */
    char work[ROOM_PATH_BYTES + 8];
    char tmp[ROOM_PATH_BYTES + 8];
    char home[ROOM_PATH_BYTES + 8];
    char output[ROOM_PATH_BYTES + 8];
    char run[ROOM_PATH_BYTES + 8];
    char errand[ROOM_PATH_BYTES + 8];
    char workspace[4096]; /* the user's, where it is that and not work */
    struct ids ids;       /* of the boxes' processes */
    const char *name;     /* the last part of path */
    int parent_fd;
    int fd;
    int lock_fd;
    struct sweeper sweeper;
    unsigned rubbish; /* how many folders were put away */
    char copies[ROOM_COPIES][ROOM_PATH_BYTES + 32];
    bool has_errand;
};

/* The folders that the next box of the sessions writes to: made anew, empty, of that user. The user's own
 * workspace is left as it is. 0 or -errno */
int room_prepare(struct box_room *room, uid_t uid, gid_t gid, struct fail *ret_fail);

/* Writes the files of an errand's program, once, and points view to them. 0 or -errno */
int room_add_errand(struct box_room *room, const struct embedded *files, struct box_view *view,
                    struct fail *ret_fail);

/* Copies a file of the user's to where errands can read it: their id may be one that has no way to it. After
 * room_add_errand(). *ret_path: the room's, the same each time. 0 or -errno */
int room_copy_file(struct box_room *room, enum room_copy copy, const char *from,
                   const char **ret_path, struct fail *ret_fail);
