#pragma once
#include <stdbool.h>
#include <sys/types.h>

/* The server's end of a sweeper (init/sweeper.c): a process that outlives the server and removes one
 * folder of it. */
struct sweeper {
    pid_t pid; /* 0: there is none */
    int fd;    /* a byte: rubbish has come; its end: the server is gone */
};

/* The file that a server holds in its room (room.c): nothing else has a file of this name. */
#define ROOM_LOCK ".sandpiper-room"

#define SWEEPER_NONE ((struct sweeper){.fd = -1})

/* program.c. Starts one for the folder name in parent_fd, which is not made yet. It first removes what ended
 * servers left in parent_fd: all but what is locked, or, where others have things there too, the rooms
 * whose names begin with prefix. prefix: NULL, nobody else has. 0 or -errno */
int sweeper_start(struct sweeper *sweeper, int parent_fd, const char *name, const char *prefix);

/* There is something new called rubbish-N in the folder. */
void sweeper_poke(const struct sweeper *sweeper);

/* Tells the sweeper that the server ends. Small folders are gone when this returns; large ones are left
 * to it, because a host gives us half a second to end. Returns false when it has ended without having
 * done its work: somebody has killed it. */
bool sweeper_finish(struct sweeper *sweeper);
