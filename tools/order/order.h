#pragma once
#include <jansson.h>
#include <stddef.h>

#include "base/loop.h"

struct rpc_call;
struct tools;

/* The order in which calls take effect: a call that was sent later does what it would do if its
 * client had waited for all earlier results. A call that an earlier one is in the way of is held:
 *
 *   a run      waits for earlier runs of its session, writes, installs, and reads
 *   a write    waits for earlier runs, writes and reads
 *   a read     waits for earlier writes and runs
 *   an install waits until earlier runs have begun; installs have a queue of their own
 *
 * A run that has become a job is in the way of later runs of its session only, until it ends. A run
 * that is held for longer than its call may wait (wait_s) never begins; one that is to undo,
 * restore or reset stops the job first.
 *
 * Calls about files belong to the default session. Runs of other sessions run beside them: they
 * see what was written before they were sent, and nothing waits for them. A fresh run is of no
 * session; to calls about files it is like one of the default session.
 *
 * No call waits for a run that it is not of a session with, or for an install, if that had gone on
 * for LIMIT_OVERTAKEN_MS when the call came: the run may be waiting for what a write brings, and
 * not all code needs the packages. A read waits no longer than that for any run, and its result
 * says so. */

enum order_kind {
    ORDER_READ,
    ORDER_WRITE,
    ORDER_RUN,
    ORDER_FRESH_RUN,
    ORDER_INSTALL,
    ORDER_WAIT, /* for a job; is never held, and nothing waits for it */
    ORDER_KIND_COUNT,
};

/* Begins the call. arguments: borrowed until it returns. */
typedef void (*order_fn)(struct tools *tools, struct rpc_call *call, const json_t *arguments);

struct ordered_call;

struct orders {
    struct tools *tools;
    struct ordered_call *list; /* calls without a response, in the order in which they were sent */
    unsigned held;
    struct loop_task task;
    struct loop_timer timer; /* while calls are held: their progress, and reads that overtake */
    bool ending;
};

/* Ends the calls that are held, and calls about files that init is not working on. No call begins
 * afterwards. */
void orders_end(struct orders *orders);

/* Begins the call, maybe before this returns. tool: its name, static; NULL: of none. arguments:
 * takes a reference; they name the session of a run. NULL: out of memory, ends the call. */
void orders_add(struct orders *orders, struct rpc_call *call, enum order_kind kind,
                const char *tool, json_t *arguments, order_fn begin);

/* The run of this call, which gets its result now, goes on as a job. */
void orders_set_job(struct orders *orders, const struct rpc_call *call, unsigned number);
void orders_job_ended(struct orders *orders, unsigned number);

/* The number of the run that the call made, for the status lines of those that wait for it. */
void orders_set_cell(struct orders *orders, const struct rpc_call *call, unsigned cell);

/* Members that the record's event of this call, which reads or writes a file, has too. facts:
 * stolen. */
void orders_set_facts(struct orders *orders, const struct rpc_call *call, json_t *facts);

/* The number of the job that the call has stopped before it began; 0: none. */
unsigned orders_stopped_job(const struct orders *orders, const struct rpc_call *call);

/* "waited 25 s for <cell 4>" of a call that was held; empty if it was held for less than a
 * second. */
void orders_waited(const struct orders *orders, const struct rpc_call *call, char *out,
                   size_t size);
