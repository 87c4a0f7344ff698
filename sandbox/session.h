#pragma once
#include "sandbox/box.h"
#include "sandbox/split.h"

/* Inside of the room: one session, shared by session.c (its life), session_open.c (its beginning)
 * and session_output.c (its pipes). */

enum {
    SESSION_READ = 65536,
    SESSION_PIPE_BYTES = 262144,
    SESSION_KILL_MS = 5000,  /* then the whole box goes */
    SESSION_WAKE_MS = 3000,  /* for a checkpoint to take over */
    SESSION_CLOSED_MS = 200, /* from the socket's end to the process's */
    SESSION_GUEST_FDS = 4,
};

enum session_state { SESSION_STARTING, SESSION_READY, SESSION_ENDING, SESSION_WAKING };

struct session_pipe {
    struct box_session *session;
    enum box_stream stream;
    int fd;
    struct loop_io io;
};

/* A fork of the interpreter that sleeps. */
struct session_checkpoint {
    pid_t pid; /* in the box; 0: none */
    unsigned cell;
};

struct box_session {
    struct box_session *next;
    struct box *box;
    const struct box_session_events *events;
    void *arg;
    enum session_state state;
    uint32_t tag;
    pid_t pid; /* in the box; 0 until hello */
    struct session_checkpoint checkpoint;
    int fd;
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
    bool closing;          /* no checkpoint shall take over */
    uint64_t memory_bytes; /* the watchdog's reason */
    struct box_end end;    /* of the process that the checkpoint takes over from */
    struct loop_timer timer;
};

/* session.c */
void session_on_io(void *arg, uint32_t events);

/* session_output.c */
int session_output_attach(struct box_session *session);
void session_output_close(struct box_session *session);
