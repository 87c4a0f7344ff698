#pragma once
#include "sandbox/types.h"

struct box_packages;

/* --- installers: programs of ours, each in its own sandbox --- */

struct box_installer;

/* Everything is borrowed until on_end. Paths are the host's; NULL: not shown. */
struct box_installer_spec {
    const struct embedded *program; /* files for run; a row without a name ends them */
    const char *main;               /* the file that the interpreter runs, */
    const char *argument;           /* with this argument, or none: NULL */
    const char *request;            /* standard input; NULL: box_installer_request() sends it */
    size_t request_size;
    const struct egress_policy *egress; /* what it may reach; NULL: no network */
    bool cache;                         /* the user's servers share the download cache at /cache */
    const char *find_links;             /* a directory, at /find-links */
    const char *constraint;             /* a file, at /constraint */
    const char *cert;                   /* a file, at /index-cert */
    uint64_t time_limit_ms;
};

enum box_installer_outcome {
    BOX_INSTALLER_EXITED, /* code */
    BOX_INSTALLER_SIGNAL, /* code: the signal's number */
    BOX_INSTALLER_OOM,    /* killed for memory */
    BOX_INSTALLER_DISK,   /* killed for what it wrote to the staging directory */
    BOX_INSTALLER_TIMEOUT,
    BOX_INSTALLER_CANCELLED,
    BOX_INSTALLER_LOST,   /* killed: it exceeded the limit for its lines */
    BOX_INSTALLER_NO_BOX, /* no sandbox; see why */
};

struct box_installer_end {
    enum box_installer_outcome outcome;
    int code;
    bool out_of_memory;  /* one of its processes was killed for memory, whatever the outcome */
    uint64_t used_bytes; /* OOM: of memory; DISK: of the staging directory; 0: unknown */
    uint64_t limit_bytes;
    const struct fail *why;
};

/* Arguments are borrowed for the call. */
struct box_installer_events {
    /* A line that the program writes to descriptor 3, without its end; at most
     * LIMIT_INSTALLER_LINE_BYTES. Not called for the first line, with which the program reports
     * that it has started. */
    void (*on_line)(void *arg, const char *line, size_t size);
    void (*on_log)(void *arg, const char *bytes, size_t size); /* its stdout and stderr */
    /* What the installer's egress proxy refused; may be NULL. */
    void (*on_egress)(void *arg, const struct egress_event *event);
    /* Last call: nothing of it runs any more, and the installer is freed. */
    void (*on_end)(void *arg, const struct box_installer_end *end);
};

/* Starts its own sandbox: with the interpreter and limits of the packages' spec, their layers, a
 * writable /stage, and no workspace. The program receives the request when the sandbox has passed
 * the self-test. 0: on_end will be called, not before this returns. -errno: see ret_fail. */
[[nodiscard]] int box_installer_start(struct box_packages *packages,
                                      const struct box_installer_spec *installer_spec,
                                      const struct box_installer_events *events, void *arg,
                                      struct box_installer **ret_installer, struct fail *ret_fail);

/* Sends the request that its spec has got since the start, and begins the time limit anew. */
void box_installer_request(struct box_installer *installer);

/* Kills all of it at once; on_end follows. */
void box_installer_cancel(struct box_installer *installer);

/* Kills it without an event. installer may be NULL. Not to be called from its events. */
void box_installer_free(struct box_installer *installer);
