#pragma once
#include <jansson.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/loop.h"
#include "tools/box/tool.h"
#include "tools/files/edit.h"

/* What write_file.c and write_edit.c share. */

/* One write, from the call to its result: decodes, waits for the sandbox, opens, writes
 * in pieces, commits. An edit first reads the file, and writes the whole of it anew. */
struct write_op {
    struct tool_work work;
    struct tools *tools;
    struct rpc_call *call;
    struct server_box_waiter waiter;
    char path[LIMIT_PATH_BYTES]; /* as in the call, then the one that it leads to */
    enum wire_write_mode mode;
    json_t *arguments;
    bool respelled;        /* the path of what is edited, if need be */
    struct edit edit;      /* an edit, if it has an old_text; of the arguments */
    int source_fd;         /* the file before the edit */
    struct stat source;    /* as it was when it was read */
    struct buf edited;     /* what it becomes */
    struct buf edit_lines; /* which lines the edit changed */
    const char *bytes;
    size_t size;
    size_t done; /* of bytes */
    size_t lines;
    unsigned char *decoded;
    int fd;
    uint32_t token;
    bool existed;
    uint64_t before; /* size of the file that gets the bytes at its end */
    struct loop_task task;
};

/* --- write_file.c --- */

/* Ends the call with what is said after the path. */
void write_op_refuse(struct write_op *op, const char *said);
/* Finds the path that op->path leads to, and goes on with that. */
void write_op_resolve(struct write_op *op);
/* error: an errno value. */
void write_op_fail(struct write_op *op, int error);
/* The file that gets op->bytes is open. */
void write_op_opened(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS]);

/* --- write_edit.c --- */

/* Reads the file that is edited, and has its new text written. */
void write_edit_begin(struct write_op *op);
/* Whether the file has changed since it was read: one that was replaced or removed has a changed
 * status too. */
bool write_edit_is_late(const struct write_op *op);
