#pragma once
#include <jansson.h>

struct buf;

/* Reads what fd has, which must not block, and hands out the messages of each whole line, also those of
 * a batch one by one. rest: the line that is not yet whole. Aborts on a line that is no JSON of JSON-RPC. */
void lines_read(struct buf *rest, int fd, void (*fn)(void *arg, const json_t *message), void *arg);
