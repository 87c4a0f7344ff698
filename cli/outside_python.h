#pragma once
#include "base/embed.h"

struct box_spec;

/* A program of ours in Python that runs outside of the sandbox, with the user's own interpreter
 * (box_python_outside()) and the standard streams. Nothing is written to a disk; neither variables,
 * the current directory nor the user's packages take part in its imports, and no code of a model
 * runs in it. What the sandbox can influence is hostile input to it, as to everything here. */
struct outside_program {
    const char *name;           /* of the command, for messages */
    const struct embedded *zip; /* __main__.py and modules: build-aux/python_zip.py */
    const char *const *words;   /* sys.argv[1:]; a NULL ends them */
};

/* Becomes the program: its exit status is the process's. Returns only where that is impossible,
 * with the exit status for that, after saying why. Descriptors that have no CLOEXEC stay open. */
int outside_python_run(const struct box_spec *spec, const struct outside_program *program);
