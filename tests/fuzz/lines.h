#pragma once
#include <jansson.h>

struct buf;

/* Reads all available bytes of the non-blocking fd and passes on each message of each complete
 * line, those of a batch one by one. rest: the incomplete line. Aborts on a line that is not
 * JSON-RPC. */
void lines_read(struct buf *rest, int fd, void (*fn)(void *arg, const json_t *message), void *arg);
