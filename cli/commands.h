#pragma once
#include <jansson.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/embed.h"
#include "base/loop.h"

struct box_spec;
struct fail;
struct options;
struct own_client;
struct record;

/* Each carries out one command and returns the process's exit code. */
int command_serve(const struct options *options);
int command_run(const struct options *options);
int command_doctor(const struct options *options);
int command_schema(const struct options *options);
int command_record(const struct options *options);
int command_keep(const struct options *options);
int command_call(const struct options *options);
/* Parses its own command line, whose first word is the command. */
int command_config(const struct options *options);

/* New: each setting with its value and the source of that, without credentials. */
json_t *effective_settings(const struct options *options);
/* For doctor. */
int print_effective(const struct options *options);

/* A client in this process, over a socket whose other end the process serves itself: a call means
 * here exactly what it means to any client. It can show no form, so nobody is asked. */

/* record: of what the tools do, or NULL. Borrowed, as options. 0, or -errno with ret_fail where
 * there is a sentence. */
int own_client_new(const struct options *options, struct record *record,
                   struct own_client **ret_client, struct fail *ret_fail);

/* Ends the sandbox. NULL: nothing. */
void own_client_free(struct own_client *client);

/* Makes one call and waits for its response, new. arguments: borrowed. 0 or -errno. */
int own_client_call(struct own_client *client, const char *tool, json_t *arguments,
                    json_t **ret_response);

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

/* Blocks SIGTERM, SIGINT and SIGHUP, and watches a signalfd(2) that receives them, *ret_fd, owned
 * by the caller. 0 or -errno. */
int shutdown_watch_signals(struct loop *loop, struct loop_io *io, int *ret_fd, loop_io_fn fn,
                           void *arg);
