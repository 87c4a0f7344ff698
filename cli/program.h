#pragma once
#include <limits.h>

#include "base/buf.h"
#include "tools/run/run.h"

struct options;

/* The program of `sandpiper run`, as its sandbox will see it. */
struct program {
    struct run_program run; /* points into the rest */
    struct buf argv;
    char file[PATH_MAX];
    char directory[PATH_MAX];
};

/* Finds where the program's file and the current directory are in the sandbox: at their place, if
 * the user shows them by --workspace or --mount, else the file is alone in the workspace in memory
 * (in /tmp, if the workspace is a directory of the user's). To be called when the spec's paths are
 * final. 0 or -errno. */
int program_locate(struct program *program, const struct options *options);

void program_done(struct program *program);
