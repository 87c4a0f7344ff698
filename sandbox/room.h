#pragma once
#include "base/fail.h"

/* The folder in which a server has the files of boxes without a root of their own. Part of sandbox.h. */

struct box_room;
struct box_spec;

/* Settles spec's isolation, where it is BOX_ISOLATION_BEST, and its memory limit by what is around the
 * server. Where the isolation is that without namespaces makes the room, else there is none, NULL: below
 * $TMPDIR, /tmp or /dev/shm, the first that will do. Points spec's view and room to it, so it outlives
 * spec. spec->workspace and spec->guest are set. It goes by box_room_close, and by a sweeper after any
 * other end. 0 or -errno */
[[nodiscard]] int box_room_open(struct box_spec *spec, struct box_room **ret_room,
                                struct fail *ret_fail);

/* room may be NULL; no box uses it. */
void box_room_close(struct box_room *room);
