#pragma once
#include <stdbool.h>

/* The states of a session: of its interpreter and its current run.
 *
 *   NONE ──► WAITING ──► OPENING ──► IDLE                                  the first run starts it
 *   IDLE ──► PREINSTALLING ──► IDLE                                        with --preinstall
 *   IDLE ──► CHECKPOINTING ──► IDLE                       before a run that needs the present state
 *   IDLE ──► LOADING ──► IDLE                                              with --keep, once
 *   IDLE ──► RESTORING ──► IDLE                                            undo, restore
 *   IDLE ──► RUNNING ──result──► IDLE
 *   IDLE ──► CHECKING ──► SUPPLYING ──► RUNNING, CHECKING ──► RUNNING      with --auto-install
 *   RUNNING ──deadline or cancel──► INTERRUPTED
 *   CHECKING ──deadline──► CHECK_INTERRUPTED ──needs──► IDLE
 *   INTERRUPTED ──result──► SWEEPING ──swept──► IDLE          what the cell has started is killed
 *   RUNNING, INTERRUPTED or SWEEPING ──► SAVING ──checkpoint──► IDLE       the state gets a name
 *   INTERRUPTED or CHECK_INTERRUPTED ──time is over──► KILLED
 *   OPENING, IDLE or FAILOVER ──► CLOSING           reset, undo of the first call, fresh runs
 *
 * PREINSTALLING, CHECKPOINTING, CHECKING and SUPPLYING lead to IDLE when the run is cancelled.
 * CHECKPOINTING and SAVING also end, in IDLE, when the checkpoint is slow: the run has its result,
 * and the interpreter goes on. From OPENING on, the interpreter can end in every state: it is IDLE
 * when a checkpoint has replaced the interpreter, NONE when none has, and FAILOVER while neither is
 * done and the run, if there is one, has not begun. */

enum session_state {
    SESSION_NONE,              /* there is no interpreter */
    SESSION_WAITING,           /* for the sandbox */
    SESSION_OPENING,           /* the zygote forks the interpreter */
    SESSION_IDLE,              /* it waits for messages */
    SESSION_PREINSTALLING,     /* the run waits for the packages of --preinstall */
    SESSION_CHECKPOINTING,     /* the run waits for the checkpoint of the one before it */
    SESSION_LOADING,           /* the guest loads what an earlier server has kept */
    SESSION_RESTORING,         /* a checkpoint replaces the interpreter, for the run */
    SESSION_CHECKING,          /* the guest checks what the run imports */
    SESSION_CHECK_INTERRUPTED, /* the same after the run's time limit */
    SESSION_SUPPLYING,         /* packages that the run imports are being installed */
    SESSION_RUNNING,
    SESSION_INTERRUPTED, /* the code has not ended yet */
    SESSION_SWEEPING,    /* the result has arrived; what the cell has started has not exited */
    SESSION_SAVING,      /* the result has arrived; the checkpoint to be named has not */
    SESSION_KILLED,   /* because of the run, which gets its result when the interpreter is gone */
    SESSION_FAILOVER, /* the interpreter is ending, and no run has begun */
    SESSION_CLOSING,  /* the same, and no checkpoint will replace it */
    SESSION_STATE_COUNT,
};

const char *session_life_name(enum session_state state);

/* Whether a session may go from one state to the other. */
bool session_life_follows(enum session_state from, enum session_state to);

/* Whether the run's code has begun, as far as its result is concerned. */
bool session_life_has_begun(enum session_state state);

/* Whether a cancelled run ends at once: no code has begun, and nothing is being changed for it. */
bool session_life_can_abandon(enum session_state state);
