#pragma once
#include "base/fail.h"
#include "tools/run.h"
#include "tools/workspace.h"

/* Sessions by name: each has an interpreter of its own and runs its calls one after the other. */

struct sessions;

int sessions_new(struct loop *loop, struct workspace *workspace, struct sessions **ret_sessions);
/* Runs that are not done are freed without a word. */
void sessions_free(struct sessions *sessions);

struct installs;
struct spills;

/* Packages can be installed; installs: borrowed until sessions_free(). */
void sessions_set_installs(struct sessions *sessions, struct installs *installs);
/* Begins with those of --preinstall. */
void sessions_preinstall(struct sessions *sessions);
/* Why these could not be installed, where no result has told it; else empty. */
const char *sessions_preinstall_trouble(const struct sessions *sessions);
/* The files of long outputs. */
struct spills *sessions_spills(struct sessions *sessions);

/* Starts the interpreter of the default session, so that the first call finds it. */
void sessions_warm_up(struct sessions *sessions);

/* Queues a run; takes it on success. -EMFILE: too many sessions, -EBUSY: too many calls wait. */
int sessions_run(struct sessions *sessions, const char *name, struct run *run);

/* The run's on_done follows, with RUN_CANCELLED where it had not begun. */
void sessions_cancel(struct sessions *sessions, struct run *run);
