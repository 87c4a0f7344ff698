#pragma once
#include "sandbox/box.h"
#include "sandbox/session/split.h"

/* Inside of the room: one session, shared by session.c (its life), session_open.c (its beginning),
 * session_checkpoint.c (its copies) and session_output.c (its pipes). */

enum {
    SESSION_READ = 65536,
    SESSION_WRITE = 1 << 20, /* bytes a turn of the loop */
    SESSION_PIPE_BYTES = 262144,
    SESSION_SLOW_MS =
        5000, /* for what was killed to be gone, or a checkpoint to wake: then on_slow tells */
    SESSION_OPEN_MS = 60000,  /* for the zygote to import what is preloaded, and to fork */
    SESSION_CHECKPOINTS = 16, /* more than tools/history.h keeps, and the newest */
    SESSION_CLOSED_MS = 200,  /* from the socket's end to the process's */
    SESSION_GUEST_FDS = 4,
};

enum session_state { SESSION_STARTING, SESSION_READY, SESSION_ENDING, SESSION_WAKING };

struct session_pipe {
    struct box_session *session;
    enum box_stream stream;
    int fd;
    struct loop_io io;
};

/* A fork of the interpreter that sleeps: the state after the run with this cell number. */
struct session_checkpoint {
    pid_t pid; /* in the box; 0: the entry is free */
    unsigned cell;
    bool kept; /* beside a newer one */
};

struct box_session {
    struct box_session *next;
    struct box *box;
    const struct box_session_events *events;
    void *arg;
    enum session_state state;
    uint32_t tag;
    char *name;
    pid_t pid; /* in the box; 0 until hello */
    struct session_checkpoint checkpoints[SESSION_CHECKPOINTS];
    struct session_checkpoint *latest; /* of the present state; NULL: none */
    struct session_checkpoint *target; /* asked for by box_session_restore; else NULL */
    struct session_checkpoint *waking; /* in WAKING */
    unsigned due;                      /* runs whose checkpoint has not been told: one each */
    int fd;                            /* -1: STARTING, and the zygote was not yet asked for it */
    struct loop_io io;
    struct buf in;
    struct buf out;
    struct session_pipe pipes[2]; /* the second only with separate_streams */
    struct split split;           /* of the first, without */
    bool held;
    int trace_fd; /* memfd that the guest's signal handler writes to */
    bool exited;
    int status;
    bool swept; /* nothing with the tag is left but the checkpoint */
    bool killed;
    bool lost;
    bool refused;          /* no Landlock domain could be had for it, and no code has run in it */
    bool closing;          /* no checkpoint shall take over */
    uint64_t memory_bytes; /* the watchdog's reason */
    uint64_t disk_bytes;   /* likewise, */
    uint64_t disk_most_bytes;
    uint64_t disk_files; /* 0: it is the bytes */
    struct box_end end;  /* of the process that the checkpoint takes over from */
    struct loop_timer timer;
};

/* session.c */
/* It is of no more use: its process is killed, and a checkpoint takes over where there is one. */
void session_lose(struct box_session *session);
void session_on_io(void *arg, uint32_t events);
bool session_message_number(const struct box_message *message, const char *name,
                            uint64_t *ret_value);
/* Sends a signal to a watched process; what became of it is not asked. */
void session_signal_pid(struct box_session *session, pid_t pid, int signal);
/* Tells on_slow in SESSION_SLOW_MS, and again, until the timer is set anew. The kernel may take any time to end a
 * process, and a busy machine to wake one: that decides over no state. */
void session_wait_slowly(struct box_session *session);
/* Makes pid the session's process. fn may be NULL. 0 or -errno. */
int session_watch(struct box_session *session, link_fn fn);
/* The end, and no checkpoint takes over; all of them are killed. Frees the session. */
void session_gone(struct box_session *session);

/* session_checkpoint.c */
/* "checkpoint": a new copy sleeps. */
void session_checkpoint_made(struct box_session *session, const struct box_message *message);
/* "resumed": the one that was woken is the session. */
void session_checkpoint_resumed(struct box_session *session, const struct box_message *message);
/* Wakes the best that there is: the target, else the latest, else the newest that is kept. Without
 * any the session is gone. */
void session_checkpoint_wake(struct box_session *session);
/* The one that is being woken has broken its channel: the next one. */
void session_checkpoint_wake_failed(struct box_session *session);
/* A process of the box has ended. Returns whether it was a checkpoint. */
bool session_checkpoint_exited(struct box *box, pid_t pid);
void session_checkpoints_kill(struct box_session *session);

/* session_open.c: with all that it holds; nothing is told. */
void session_free(struct box_session *session);

/* session_output.c */
int session_output_attach(struct box_session *session);
void session_output_close(struct box_session *session);
