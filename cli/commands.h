#pragma once
#include <jansson.h>
#include <sys/types.h>

struct options;

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

/* Of `record replay`: runs what the program pid asks for over the socket fd until it exits. Returns
 * its exit code. */
int record_replay(const struct options *options, int fd, pid_t pid);

/* New: each setting with its value and the source of that, without credentials. */
json_t *effective_settings(const struct options *options);
/* For doctor. */
int print_effective(const struct options *options);
