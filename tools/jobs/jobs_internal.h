#pragma once
#include "tools/jobs/jobs.h"
#include "tools/jobs/tasks.h"

/* What jobs.c and tasks.c share. */

struct job {
    struct job *next;
    struct jobs *owner;
    struct run *run;
    struct job_wait *waits;
    json_t *images;    /* content blocks, once it has ended */
    uint64_t ended_ns; /* 0: no result can be sent yet */
    bool at_once;      /* it becomes a job as soon as it has begun */
    bool returned;     /* by the session; what is left is to read files */
    bool reported;     /* a result has said that it ended */
    bool fetched;      /* a call has had its result */
    bool unread;       /* no result has had what it printed before it became a job */
    struct task task;
};

unsigned job_seconds(const struct job *job);

/* Appends what the run waits for, or the last line that it printed, after ": ". */
void job_describe_step(const struct job *job, char *text, size_t size);

/* Ends the call with the result of a job that has ended: the first time with what it has printed
 * since the last result about it, later with all output. first: what comes before it. */
void job_send(struct job *job, struct rpc_call *call, const char *first);
