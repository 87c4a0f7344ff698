#pragma once
#include <stdint.h>

/* Between the server (box/box.h) and the cleanup helper (programs/cleanup). */

enum cleanup_kind {
    CLEANUP_GROUPS,  /* groups of one name below several parents; kills their members */
    CLEANUP_STORE,   /* a server's package store; its siblings are other servers' stores */
    CLEANUP_SCRATCH, /* a scratch directory; its siblings may belong to anybody */
    CLEANUP_TREE,    /* any directory */
};

enum { CLEANUP_PARENTS = 3 };

/* The file that a server holds locked in its directory. SCRATCH_LOCK exists only in scratch
 * directories. */
#define STORE_LOCK "lock"
#define SCRATCH_LOCK ".sandpiper-lock"
#define SCRATCH_PREFIX "sandpiper-" /* of the names of scratch directories */

/* A message to the helper's socket, with the parents' descriptors. */
struct cleanup_request {
    uint32_t is_due; /* otherwise when the socket ends */
    uint32_t kind;
    char name[64];
};

/* The server's only request to sandpiper-tools, on a SOCK_SEQPACKET pair, with three descriptors:
 * what becomes the program's standard streams. */

enum { TOOLS_STREAMS = 3, TOOLS_TEXT_BYTES = 60 << 10, TOOLS_WORDS = 512 };

struct tools_request {
    uint32_t argument_count;
    uint32_t variable_count;
    uint32_t text_size;
    /* The current directory, the path, the arguments and the variables, a NUL behind each. */
    char text[TOOLS_TEXT_BYTES];
};

/* Sent once, when the program could not be executed or has exited. */
struct tools_reply {
    int32_t error;  /* errno value; 0: it has exited, with */
    int32_t status; /* as in waitpid(2) */
};
