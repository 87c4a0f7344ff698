#pragma once
#include "tools/box/tool.h"
#include "tools/jobs/jobs.h"

/* What jobs.c, job_end.c and tasks.c share. */

struct job {
    struct job *next;
    struct jobs *owner;
    struct run *run;
    struct job_wait *waits;
    json_t *images; /* content blocks of its figures, in which more come until it has ended */
    struct {
        const char *path; /* of those of the run, the one that is read */
        unsigned count;
        size_t bytes;
    } read;
    uint64_t ended_ns; /* 0: no result can be sent yet */
    bool at_once;      /* it becomes a job as soon as it has begun */
    bool returned;     /* by the session; what is left is to read files */
    bool reported;     /* a result has said that it ended */
    bool fetched;      /* a call has had its result */
    bool unread;       /* no result has had what it printed before it became a job */
    struct {
        char id[56]; /* "job-3-" and 32 hexadecimal digits, which nobody can guess; empty: none */
        uint64_t created_ns;
        uint64_t created_ms; /* the same moment, since 1970 */
        bool asks;           /* its client can ask the user, when it asks for the task */
    } task;
};

/* A call that waits for a run. */
struct job_wait {
    struct tool_work work;
    struct job_wait *next;
    struct job *job;
    struct rpc_call *call;
    struct loop_timer heartbeat; /* with a progress token */
    struct loop_timer over;
    uint64_t until_ns; /* when it is over at the latest; 0: never */
    uint64_t asks_ns;  /* since when the user is asked through it */
    bool is_for_task;  /* it becomes one sooner */
};

/* --- jobs.c --- */

unsigned job_seconds(const struct job *job);

/* Appends what the run waits for, or the last line that it printed, after ": ". */
void job_describe_step(const struct job *job, char *text, size_t size);

/* Ends the call with the result of a job that has ended: the first time with what it has printed
 * since the last result about it, later with all output. first: what comes before it. */
void job_send(struct job *job, struct rpc_call *call, const char *first);
/* The call no longer waits: returns it, to be ended. */
struct rpc_call *job_wait_end(struct job_wait *wait);
/* No call may wait for it. */
void job_free(struct job *job);

/* --- job_end.c --- */

/* arg: the job, whose run the session has returned: what is left is to read files. */
void job_returned(void *arg, struct run *run);

/* --- tasks.c --- */

/* Gives the job an id unless it has one. Returns false when there are no random numbers. */
bool job_name(struct job *job);
/* Makes a task of a job, and ends the call with it. Returns false, having done nothing, when there
 * are no random numbers. */
bool task_begin(struct job *job, struct rpc_call *call);
