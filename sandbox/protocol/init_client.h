#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "sandbox/protocol/init_protocol.h"

/* The server's connection to init, or to its process monitor: requests with their responses, and
 * events. */

/* Receives the response to a request, or ECONNRESET as error when the connection ends. fds: -1
 * where there is none; descriptors that it does not take (take_fd) are closed. */
typedef void (*init_client_fn)(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS]);

struct init_client_request;
struct init_client_packet;

struct init_client {
    int fd;                    /* -1: none */
    init_client_fn on_event;   /* set before init_client_start() */
    void (*on_end)(void *arg); /* the peer has closed its end; may be NULL */
    void *arg;
    struct loop_io io;
    struct loop_task
        task; /* sends requests after the loop's turn: waking init must not delay a response */
    uint32_t last_id;
    struct init_client_request *requests;
    struct init_client_packet *out; /* what has not been sent yet */
    struct init_client_packet **out_end;
};

/* fd: taken. 0 or -errno */
int init_client_start(struct init_client *client, struct loop *loop, int fd);
/* Ends every request with ECONNRESET. Idempotent. */
void init_client_close(struct init_client *client);

/* Sends a request. fn: called once, later; may be NULL. 0 or -errno */
int init_client_send(struct init_client *client, struct wire_request *request, init_client_fn fn,
                     void *arg);
/* Responses to arg's requests call nothing: what it points to is about to be freed. */
void init_client_forget(struct init_client *client, const void *arg);
/* Sends a request that has no response. 0 or -errno */
int init_client_post(struct init_client *client, const struct wire_request *request);
