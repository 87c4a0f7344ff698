#pragma once
#include "tools/jobs/jobs.h"
#include "tools/jobs/tasks.h"

/* What jobs.c, job_end.c, jobs_text.c and tasks.c share. */

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

bool job_is_running(const struct job *job);
unsigned jobs_count_running(const struct jobs *jobs);
/* NULL: there is none of that number. */
struct job *jobs_find(const struct jobs *jobs, unsigned number);

/* --- tasks.c --- */
/* Gives the job an id unless it has one. Returns false when there are no random numbers. */
bool job_name(struct job *job);

/* --- jobs_text.c --- */
unsigned job_seconds(const struct job *job);
/* Appends the lines about jobs that have ended, which no result has said yet. */
void jobs_append_ended(struct jobs *jobs, struct buf *text);
/* Appends "4 jobs are running (1, 2, 5, 7)". */
void jobs_append_running(const struct jobs *jobs, struct buf *text);
/* "[running: job 1, 25 s of at most 300 s, 212 MiB | wait: ... ]" */
int job_append_status(const struct job *job, struct buf *text);
/* No further job may begin. */
void jobs_refuse_another(const struct jobs *jobs, struct rpc_call *call);
/* There is no such job: lists those there are. */
void jobs_refuse_number(const struct jobs *jobs, struct rpc_call *call, uint64_t number);

/* --- job_end.c --- */
/* arg: the job, whose run the session has returned: what is left is to read files. */
void job_returned(void *arg, struct run *run);

/* --- jobs.c --- */

/* Appends what the run waits for, or the last line that it printed, after ": ". */
void job_describe_step(const struct job *job, char *text, size_t size);

/* Ends the call with the result of a job that has ended: the first time with what it has printed
 * since the last result about it, later with all output. first: what comes before it. */
void job_send(struct job *job, struct rpc_call *call, const char *first);
/* The call no longer waits: returns it, to be ended. */
struct rpc_call *job_wait_end(struct job_wait *wait);
/* No call may wait for it. */
void job_free(struct job *job);
