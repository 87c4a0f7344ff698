#pragma once
#include <jansson.h>
#include <stdbool.h>

struct rpc_call;
struct tools;

/* What a view reads by read_file: its data, and a part of a library's script. Returns false, having
 * done nothing, for any other path; else ends the call, maybe before this returns. Reads what no
 * call changes, so it has no place in the order of the calls, and none in the record. */
bool read_view(struct tools *tools, struct rpc_call *call, const json_t *arguments);
