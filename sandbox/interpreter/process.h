#pragma once
#include "sandbox/box/box.h"
#include "sandbox/interpreter/session.h"

struct box_packages;

/* One session, shared by process.c (states, checkpoints), open.c (start) and
 * control.c (connections). */

enum {
    SESSION_READ = 65536,
    SESSION_WRITE = 1 << 20, /* bytes in one turn of the loop */
    SESSION_PIPE_BYTES = 262144,
    /* For killed processes to be gone, or a checkpoint to resume; then on_slow is called. */
    SESSION_SLOW_MS = 5000,
    SESSION_OPEN_MS = 60000,   /* for the zygote to import preloaded modules, and to fork */
    SESSION_BRANCH_MS = 20000, /* for a session to fork */
    SESSION_CHECKPOINTS = 16,  /* more than tools/session/history.h keeps, and the newest */
    SESSION_GUEST_FDS = 5,
};

/* In this order, which comparisons in the code use. Up to READY the process exists or will exist;
 * up to EXITED the server takes its messages. */
enum process_state {
    PROCESS_QUEUED,   /* waits for a socket pair, or for the zygote */
    PROCESS_FORKING,  /* the zygote has the request */
    PROCESS_WATCHING, /* the process has sent hello; init was asked to watch it */
    PROCESS_READY,
    PROCESS_EXITED, /* reading its last messages */
    /* init was asked to kill everything with the tag; its response and the exit are due */
    PROCESS_KILLING,
    PROCESS_SWEEPING, /* only init's response is due */
    PROCESS_REAPING,  /* only the exit is due */
    PROCESS_WAKING,   /* only checkpoints are left; one was woken */
    PROCESS_STATES
};

enum process_event {
    PROCESS_BEGIN,   /* the zygote was asked for the process */
    PROCESS_HELLO,   /* the process has sent its pid */
    PROCESS_WATCHED, /* init watches it */
    PROCESS_UNKNOWN, /* init does not know it: no exit will be reported */
    PROCESS_EXIT,
    PROCESS_KILL,
    PROCESS_SWEPT, /* init has killed everything with the tag */
    PROCESS_RESUMED,
    PROCESS_FAILED, /* the woken checkpoint has exited, or will never resume */
    PROCESS_EVENTS
};

struct session_pipe {
    struct box_session *session;
    enum box_stream stream;
    int fd;
    struct loop_io io;
};

/* One pipe that carries both streams of a guest in the order of writing: output through sys.stderr
 * is framed (guest/streams.py), everything else is stdout. Code that forges frames only mislabels
 * its own output. */

enum { SPLIT_MAGIC = 6, SPLIT_HEAD = SPLIT_MAGIC + 2 }; /* followed by the frame's size, u16 */

struct split {
    unsigned char held[SPLIT_HEAD]; /* possible head of a frame */
    size_t held_size;
    size_t left; /* bytes of the frame still to come */
};

/* A suspended fork of the interpreter: the state after this cell. */
struct session_checkpoint {
    pid_t pid; /* in the sandbox; 0: free entry */
    unsigned cell;
    bool kept; /* also when a newer one exists */
};

struct connection {
    int fd; /* -1: none */
    struct loop_io io;
    struct buf in;
    struct buf out; /* what the socket has not taken */
};

/* What is known of the end of a session's process: zeros while it lives. */
struct session_death {
    int status;         /* as in waitpid(2); 0 until the exit */
    struct box_end end; /* its kind: EXIT until another reason is known */
    bool over;          /* all that is known is known */
    unsigned looks;     /* at checkpoints that have been woken since */
};

/* The checkpoint being woken. */
struct session_wake {
    unsigned looks;
    unsigned idle; /* of the last looks */
    uint64_t first_ms;
    uint64_t cpu_ms;
};

struct box_session {
    struct box_session *next;
    struct box *box;
    const struct box_session_events *events;
    void *arg;
    enum process_state state;
    uint32_t tag;
    char *name;
    struct box_session *parent; /* of a branch that has not begun; NULL: none, or it has ended */
    unsigned branch_cell; /* the state of the parent that it starts from; 0: the present one */
    bool is_branch;
    bool early; /* see box_session_open() */
    bool raw;   /* the same */
    pid_t pid;  /* in the sandbox; 0 until hello */
    struct session_checkpoint checkpoints[SESSION_CHECKPOINTS];
    struct session_checkpoint *latest; /* of the current state; NULL: none */
    struct session_checkpoint *target; /* for box_session_restore(); else NULL */
    struct session_checkpoint *waking; /* in WAKING */
    struct session_wake wake;
    unsigned awaited;             /* the cell whose checkpoint is accepted; 0: none */
    struct connection control;    /* none in QUEUED */
    struct session_pipe pipes[2]; /* the second only with separate_streams */
    struct split split;           /* of the first, without separate_streams */
    bool held;
    unsigned signals;        /* that init has not sent yet */
    int trace_fd;            /* memfd that the guest's signal handler writes to */
    struct connection calls; /* of tools */
    bool calls_due; /* one is awaited: nothing is sent to the interpreter before it has that */
    struct session_death death;
    struct loop_timer timer;
};

/* --- process.c: events of the zygote's sandbox --- */
void process_exited(struct box *box, pid_t pid, int status);
void process_memory_killed(struct box *box, const struct wire_reply *reply);
void process_disk_killed(struct box *box, const struct wire_reply *reply);

/* open.c */
/* Requests a socket pair for the next session in advance. */
void process_want_pair(struct box *box);
/* Starts sessions that wait for a socket pair or for the zygote, as far as both are there. */
void process_begin_waiting(struct box *box);
/* The zygote has died, and with it the forks requested of it. */
void zygote_died(struct box *box);
/* The interpreter that would fork these branches has ended. */
void process_lose_branches(struct box_session *parent);

/* process.c */
/* The only function that changes the state, by the table in process.c. Ignores an event that means
 * nothing in the current state. May end and free the session. */
void process_step(struct box_session *session, enum process_event event);
/* The same, for an event that ends a live process. */
void process_stop(struct box_session *session, enum process_event event, enum box_end_kind cause);
struct box_session *process_by_pid(struct box *box, pid_t pid);
/* The interpreter is unusable: kills it, and a checkpoint replaces it where there is one. */
void process_lose(struct box_session *session);
/* Sends a signal to a watched process of the session. 0 or -errno. */
int process_signal_pid(struct box_session *session, pid_t pid, int signal, init_client_fn fn,
                       void *arg);

/* control.c */
void connection_close(struct connection *connection);
/* Takes messages from now on. 0 or -errno. */
int process_listen(struct box_session *session);
/* The process has exited: takes what the socket still holds, maybe a result or a new checkpoint. */
void process_read_last(struct box_session *session);
/* Drops the unread data. Nothing writes to the socket any more. */
void process_discard(struct box_session *session);
/* 0: no pid that could belong to a session. */
pid_t process_message_pid(const struct box_message *message, const char *name);
/* Makes pid the session's process. If init does not know it, the session ends it, or a checkpoint
 * replaces it. 0 or -errno. */
int process_watch(struct box_session *session);

/* "checkpoint": there is a new one. */
void checkpoint_made(struct box_session *session, const struct box_message *message);
/* "resumed": the woken checkpoint is the session's process. */
void checkpoint_resumed(struct box_session *session, const struct box_message *message);

/* open.c: frees the session without an event. */
void process_free(struct box_session *session);

/* control.c */
/* There is a socket pair for calls, or there will be none. */
void calls_pair_made(struct box *box, bool failed);
void calls_close(struct box_session *session);
int pipes_attach(struct box_session *session);
void pipes_close(struct box_session *session);

typedef void (*split_fn)(void *arg, enum box_stream stream, const char *bytes, size_t size);

/* Calls fn for each part of one stream. */
void split_feed(struct split *split, const char *bytes, size_t size, split_fn fn, void *arg);

/* All that was in the pipe has been read: held bytes were output. A frame is one write of at most
 * PIPE_BUF, which pipe(7) never tears, so one without its end was forged, and what comes next is no
 * part of it. */
void split_flush(struct split *split, split_fn fn, void *arg);

/* What box.c needs of the interpreters in a sandbox: the zygote, and the sessions forked from
 * it. */

extern const struct box_role zygote_role;

/* What the sessions' sandbox shows and runs. packages: NULL, or open. */
void zygote_content(const struct box_spec *spec, const struct box_packages *packages,
                    struct plan_content *content);

/* The sandbox has no processes left: ends all sessions. */
void session_end_all(struct box *box);
