#pragma once
#include <stdint.h>

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
