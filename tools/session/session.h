#pragma once
#include "tools/box/tool.h"
#include "tools/run/run.h"

/* Sessions by name: each has an interpreter of its own. */

struct sessions;

#define SESSION_DEFAULT "default" /* the name of the session that calls without one use */

int sessions_new(struct loop *loop, struct server_box *server_box, struct sessions **ret_sessions);
/* Frees unfinished runs without calling on_done. */
void sessions_free(struct sessions *sessions);

struct install_config;
struct installs;
struct record;

/* Lets sessions install packages. *ret_installs: to be freed before the sessions. 0 or -ENOMEM. */
int sessions_new_installs(struct sessions *sessions, const struct install_config *config,
                          struct record *record, struct installs **ret_installs);
/* Starts the installation of --preinstall. */
void sessions_preinstall(struct sessions *sessions);
/* Why --preinstall failed, if no result has reported it; else empty. */
const char *sessions_preinstall_error(const struct sessions *sessions);

/* --keep */
struct keep_config {
    const char *directory; /* resolved; it need not exist. NULL: none. Borrowed */
    uint64_t bytes;        /* of one session */
    unsigned days;         /* after which a state that nothing has loaded is removed; 0: never */
};

/* Lets sessions come back that an earlier server has kept. Before the first run. */
void sessions_keep_init(struct sessions *sessions, const struct keep_config *config);
/* The server ends: saves what has changed, as far as the time suffices. Runs the loop. */
void sessions_save_last(struct sessions *sessions, unsigned most_ms);

struct tool_servers;

/* Lets code call tools of these servers. Borrowed; before the first run. */
void sessions_set_tool_servers(struct sessions *sessions, struct tool_servers *servers);

/* Starts the interpreter of the default session, so that the first call finds it. */
void sessions_warm_up(struct sessions *sessions);

/* Starts a run, and takes it on success; its session must have no other. -EMFILE: too many
 * sessions. */
int sessions_run(struct sessions *sessions, const char *name, struct run *run);

/* The files of what is too long for a result. */
struct overflows *sessions_overflows(struct sessions *sessions);

/* write_file has written path, relative to the workspace. */
void sessions_note_written(struct sessions *sessions, const char *path);

/* In how many of them code runs, or is about to. */
unsigned sessions_running(const struct sessions *sessions);

/* hold: reads no output of the interpreters until it is false again; code blocks in its writes. */
void sessions_hold_output(struct sessions *sessions, bool hold);

/* Cancels a run. Its on_done follows. */
void sessions_cancel(struct sessions *sessions, struct run *run);

/* Interrupts a run as its time limit does; one that has not begun does not begin. Its on_done
 * follows. */
void sessions_stop(struct sessions *sessions, struct run *run);

/* The run that has become the job of that number and has not ended, borrowed, or NULL. */
struct run *sessions_job(const struct sessions *sessions, int64_t number);

/* A longer time limit for a run; a shorter one changes nothing: to wait is not to interrupt. */
void sessions_extend(struct sessions *sessions, struct run *run, uint64_t timeout_ms);

/* The run's time stands still, LIMIT_ELICITATION_MS at most, or goes on. */
void sessions_stop_clock(struct sessions *sessions, struct run *run, bool stop);

/* Puts what a job prints, and has printed, into a file: job-1.txt, unless it has one already. */
void sessions_write_output(struct sessions *sessions, struct run *run);
