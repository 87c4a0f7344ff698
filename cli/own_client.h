#pragma once
#include <jansson.h>

struct fail;
struct options;
struct record;

/* A client in this process, over a socket whose other end the process serves itself: a call means
 * here exactly what it means to any client. It can show no form, so nobody is asked. */
struct own_client;

/* record: of what the tools do, or NULL. Borrowed, as options. 0, or -errno with ret_fail where
 * there is a sentence. */
int own_client_new(const struct options *options, struct record *record,
                   struct own_client **ret_client, struct fail *ret_fail);

/* Ends the sandbox. NULL: nothing. */
void own_client_free(struct own_client *client);

/* Makes one call and waits for its response, new. arguments: borrowed. 0 or -errno. */
int own_client_call(struct own_client *client, const char *tool, json_t *arguments,
                    json_t **ret_response);
