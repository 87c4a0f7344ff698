#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/embed.h"
#include "base/fail.h"

/* Packages, and the errands that install them. Part of sandbox.h. */

struct loop;
struct box_spec;
struct egress_event;
struct egress_policy;
struct box_packages;

/* --- packages, see packages.c --- */

/* A server's installed packages: folders of the host, the layers 1 … N, which each box of the server
 * shows read-only at /packages/1 … /packages/N, and a stage, in which errands put together the next
 * one. A layer is never changed, and goes with the server. */

/* Touches nothing yet: the first box or errand that needs the folders makes them. 0 or -ENOMEM */
[[nodiscard]] int box_packages_new(struct loop *loop, const struct box_spec *spec,
                                   struct box_packages **ret_packages, struct fail *ret_fail);

/* Has all of it removed, the download cache excepted. packages may be NULL; no box uses them. */
void box_packages_free(struct box_packages *packages);

/* NULL, or why there is no place for packages and what to do. */
const char *box_packages_trouble(const struct box_packages *packages);

/* The folder with the layers, as the code in a box sees it. */
const char *box_packages_path(const struct box_packages *packages);

/* N: the layers 1 … N are there. */
unsigned box_packages_layers(const struct box_packages *packages);

struct box_layer_made {
    unsigned number;
    uint64_t bytes;
    uint64_t files;
};

/* Looks whether /stage/new holds nothing but files and folders, within the limits, and makes it the
 * next layer: whole, or not at all. The stage is empty afterwards, either way. No errand is running.
 * 0 or -errno with a sentence: -EINVAL what is in it, -EDQUOT it is too much. */
[[nodiscard]] int box_packages_commit(struct box_packages *packages,
                                      struct box_layer_made *ret_layer, struct fail *ret_fail);

/* Empties the stage. */
void box_packages_discard(struct box_packages *packages);

/* --- errands: a program of ours in a box of its own --- */

struct box_errand;

/* All is borrowed until on_end. Paths are of the host, NULL: not shown. */
struct box_errand_spec {
    const struct embedded *program; /* files for its view's run, closed by a row without name */
    const char *main;               /* the one that the interpreter runs, */
    const char *argument;           /* with this argument, or none: NULL */
    const char *request;            /* its standard input */
    size_t request_size;
    const struct egress_policy *egress; /* what it may reach; NULL: no network */
    bool cache;             /* the download cache is at /cache, which servers of this user share */
    const char *find_links; /* a folder, at /find-links */
    const char *constraint; /* a file, at /constraint */
    const char *cert;       /* a file, at /index-cert */
    uint64_t time_limit_ms;
};

enum box_errand_outcome {
    BOX_ERRAND_EXITED, /* code */
    BOX_ERRAND_SIGNAL, /* code: the signal's number */
    BOX_ERRAND_OOM,    /* killed for memory */
    BOX_ERRAND_DISK,   /* killed for what it wrote to the stage */
    BOX_ERRAND_TIMEOUT,
    BOX_ERRAND_CANCELLED,
    BOX_ERRAND_LOST,   /* it wrote lines without end, and was killed */
    BOX_ERRAND_NO_BOX, /* why */
};

struct box_errand_end {
    enum box_errand_outcome outcome;
    int code;
    bool out_of_memory;  /* something of it was killed for that, whatever the outcome */
    uint64_t used_bytes; /* OOM: of memory; DISK: of the stage; 0: not known */
    uint64_t limit_bytes;
    const struct fail *why;
};

/* What is passed is borrowed for the call. */
struct box_errand_events {
    /* A line of what the program writes to descriptor 3, without its end; at most LIMIT_ERRAND_LINE_BYTES.
     * Its first line, which says that it is there, is not passed on. */
    void (*on_line)(void *arg, const char *line, size_t size);
    void (*on_log)(void *arg, const char *bytes, size_t size); /* its stdout and stderr */
    /* What its broker refused; may be NULL. */
    void (*on_egress)(void *arg, const struct egress_event *event);
    /* Last call: nothing of it runs any more, and the errand is freed. */
    void (*on_end)(void *arg, const struct box_errand_end *end);
};

/* Starts a box of its own: with interpreter and limits of the spec that packages were made with, their
 * layers, /stage writable, and no workspace. The program gets the request when the box is proven like
 * any other. 0: on_end will be called, not before this returns. -errno: ret_fail says why not. */
[[nodiscard]] int box_errand_start(struct box_packages *packages,
                                   const struct box_errand_spec *errand_spec,
                                   const struct box_errand_events *events, void *arg,
                                   struct box_errand **ret_errand, struct fail *ret_fail);

/* Kills all of it at once; on_end follows. */
void box_errand_cancel(struct box_errand *errand);

/* Kills it without a word. errand may be NULL. Not from within its events. */
void box_errand_free(struct box_errand *errand);
