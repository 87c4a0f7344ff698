#pragma once
#include "base/loop.h"
#include "tools/servers/grants.h"

/* What a tool server writes to stderr, into the log: escaped, and without the values of its env. */

enum { TOOL_LOG_LINE_BYTES = 4096 };

struct tool_log {
    const struct tool_entry *entry;
    int fd; /* owned; -1: none */
    struct loop_io io;
    char line[TOOL_LOG_LINE_BYTES]; /* not ended */
    size_t size;
    bool skips; /* the rest of a line that was too long */
};

/* 0 or -errno */
int tool_log_begin(struct tool_log *log, struct loop *loop);
void tool_log_end(struct tool_log *log);
