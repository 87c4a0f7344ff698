#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "rpc/text.h"

struct loop;

/* The other side of the protocol: speaks MCP, either generation, to a server on two descriptors.
 * What comes from it is not trusted: size, depth and encoding are checked, and nothing else. */

struct rpc_client;

struct rpc_client_config {
    const char *name; /* of this client, borrowed */
    const char *version;
    unsigned silence_ms; /* until its first response it may take so long */
    bool legacy; /* begin with initialize: the server has exited when it was asked to discover */
};

struct rpc_client_events {
    /* Requests are accepted. */
    void (*on_ready)(void *arg);
    /* The server's list of tools is another one. */
    void (*on_tools_changed)(void *arg);
    /* Some of what the server has not read is written. */
    void (*on_written)(void *arg);
    /* The server asks the user: rpc_client_elicited() responds. id, params: borrowed; params may be
     * anything. */
    void (*on_elicit)(void *arg, const json_t *id, const json_t *params);
    /* Last call; only rpc_client_free() may follow. why: a clause about the server. Requests
     * without a response get none. */
    void (*on_closed)(void *arg, const char *why);
};

/* result: NULL: an error. error: a JSON-RPC error object, or NULL where the response could not be
 * read; then text says why. All are borrowed. */
typedef void (*rpc_client_fn)(void *arg, const json_t *result, const json_t *error,
                              const char *text);

/* fd_in, fd_out: owned, and become non-blocking. events: borrowed. Calls nothing before it returns.
 * 0 or -errno. */
int rpc_client_new(struct loop *loop, int fd_in, int fd_out, const struct rpc_client_config *config,
                   const struct rpc_client_events *events, void *arg,
                   struct rpc_client **ret_client);
/* client may be NULL. */
void rpc_client_free(struct rpc_client *client);

/* While a request's function is called: the text of its result. Borrowed. */
struct span rpc_client_result(const struct rpc_client *client);

/* Bytes that wait until the server reads. It is closed when there are very many. */
size_t rpc_client_unread(const struct rpc_client *client);

/* Whether the server has not responded to the first question, also when it is closed by now. */
bool rpc_client_is_probing(const struct rpc_client *client);

/* Whether it speaks 2026-07-28; false: an older revision. */
bool rpc_client_is_modern(const struct rpc_client *client);

/* params: stolen, an object, and of its own if it has a _meta; NULL: out of memory. Calls fn once,
 * unless it is cancelled or the client closes. Returns the request's number, or 0 when out of
 * memory. */
unsigned rpc_client_request(struct rpc_client *client, const char *method, json_t *params,
                            rpc_client_fn fn, void *arg);
/* content: of the form, borrowed; NULL: the user declines. New: that as an ElicitResult. */
json_t *rpc_client_elicit_result(const json_t *content);
/* Sends it as the response to on_elicit. */
void rpc_client_elicited(struct rpc_client *client, const json_t *id, const json_t *content);
/* Tells the server that nobody waits for the response any more. */
void rpc_client_cancel(struct rpc_client *client, unsigned request);
