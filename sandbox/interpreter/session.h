#pragma once
#include "sandbox/protocol/frames.h"
#include "sandbox/types.h"

/* A session is one interpreter, a fork of the zygote, that runs the model's code. Data from it is
 * not trusted: frames have limits and their form is checked, but the guest chooses their
 * content. */

enum box_stream { BOX_STDOUT, BOX_STDERR };

enum box_end_kind {
    BOX_END_EXIT,   /* code */
    BOX_END_SIGNAL, /* code: the signal's number */
    /* Killed for memory: used_bytes of limit_bytes. used_bytes 0: by the limit of the enclosing
     * container or service; limit_bytes 0: by the machine's. */
    BOX_END_OOM,
    /* Killed for disk space: used_bytes of limit_bytes, or used_files of limit_files. */
    BOX_END_DISK,
    BOX_END_KILLED, /* by box_session_kill() or box_kill() */
    BOX_END_LOST,   /* it broke the protocol, or was not watched, and was killed */
    /* Landlock could not separate it from others; killed before any code ran. */
    BOX_END_REFUSED,
};

/* OOM: who has filled the memory. The order of enum wire_blame. */
enum box_blame { BOX_BLAME_ITS_OWN, BOX_BLAME_ANOTHER, BOX_BLAME_UNKNOWN };
enum { BOX_NAMES_BYTES = 400 };

struct box_end {
    enum box_end_kind kind;
    enum box_blame blame;
    int code;
    uint64_t used_bytes;
    uint64_t limit_bytes;
    uint64_t files_bytes; /* OOM: of used_bytes, in files; 0: not known */
    uint64_t used_files;  /* 0: for its bytes */
    uint64_t limit_files;
    unsigned processes;          /* that it had started and that ended with it */
    char names[BOX_NAMES_BYTES]; /* lines with the commands of the first of them */
    unsigned stalled;      /* states that did not resume, because their code hangs; they are lost */
    unsigned stalled_cell; /* the first of them */
};

struct box_session;

/* Of the state after a run. */
enum box_checkpoint {
    BOX_CHECKPOINT_NONE,
    BOX_CHECKPOINT_AWAITED, /* it may be forked, see box_session_await_checkpoint() */
    BOX_CHECKPOINT_THERE,
};

struct box_session_events {
    /* The interpreter accepts messages. */
    void (*on_ready)(void *arg);
    void (*on_message)(void *arg, const struct box_message *message);
    void (*on_output)(void *arg, enum box_stream stream, const char *bytes, size_t size);
    /* After each run the guest forks a checkpoint of its state; cell: the run's number. One that
     * was awaited is there or could not be made, or one that was there has died. Not called for one
     * that dies while it is being woken. */
    void (*on_checkpoint)(void *arg, unsigned cell, enum box_checkpoint before);
    /* The process died, or box_session_restore() killed it, and a checkpoint has replaced it: the
     * session has the state after the run with this cell number, and accepts messages. What the
     * dead process had started is gone, and its output is delivered. message: its fields are the
     * number of lost "threads", which no checkpoint has, and the files that differ from those of
     * the state, as in a result. */
    void (*on_restored)(void *arg, const struct box_end *end, unsigned cell,
                        const struct box_message *message);
    /* box_session_end_cell() has ended so many processes. names: as in box_end. */
    void (*on_cell_ended)(void *arg, unsigned processes, const char *names);
    /* A frame on the socket for calls of tools (spec.calls). */
    void (*on_call)(void *arg, const struct box_message *message);
    void (*on_slow)(void *arg, const struct box_end *end); /* on_restored or on_end is late */
    /* Last call: the process and everything that it started are gone, its output is delivered. */
    void (*on_end)(void *arg, const struct box_end *end);
};

struct box_session_options {
    const char *name;
    bool early; /* no run waits for it: the zygote may take some time */
    /* A branch is a fork of this session's interpreter, with its variables as they are now, or, if
     * cell is not 0 because the session runs a cell, as they were after this one, of which the
     * newest checkpoint is. NULL: a fork of the zygote. */
    struct box_session *parent;
    unsigned cell;
    bool raw; /* stdout is delivered as it is, and the code calls no tools */
    const struct box_session_events *events; /* borrowed until on_end */
    void *arg;
};

/* Forks an interpreter in a ready sandbox. */
[[nodiscard]] int box_session_open(struct box *box, const struct box_session_options *options,
                                   struct box_session **ret_session, struct fail *ret_fail);

/* The fields of a message to the guest. */
struct box_fields {
    struct box_field at[29]; /* the verb; then names and values, all borrowed */
    size_t count;
    char digits[14][24]; /* of values that are numbers */
};

void box_fields_add(struct box_fields *fields, const char *name, const char *bytes, size_t size);
void box_fields_add_number(struct box_fields *fields, const char *name, uint64_t number);

/* Sends one message; fields as in box_message. Queues what the guest does not read at once. 0 or
 * -errno; -EPIPE: the process has died, on_restored or on_end follows. */
int box_session_send(struct box_session *session, const struct box_field *fields, size_t count);

/* The same with a file, of which the guest gets a descriptor. fd: borrowed. -EAGAIN: not now. */
int box_session_send_file(struct box_session *session, const struct box_fields *fields, int fd);

/* Sends a frame on the socket for calls of tools. Each interpreter gets a new one with its first
 * message, and another one where code has broken it. 0 or -errno; -EPIPE: there is none. */
int box_session_reply(struct box_session *session, const struct box_field *fields, size_t count);
/* Bytes that the guest has not read of them. */
size_t box_session_unread(const struct box_session *session);

/* Delivers what the pipes hold at this moment. To be called when a result has arrived, so that
 * earlier output comes before it. */
void box_session_drain(struct box_session *session);

/* hold: stops reading the pipes until it is false again; writers block when the pipes are full. */
void box_session_hold_output(struct box_session *session, bool hold);

/* KeyboardInterrupt in the guest. */
void box_session_interrupt(struct box_session *session);

/* Makes the interpreter's signal handler, which runs also during native code, write down where it
 * is. Some milliseconds later box_session_traced() reads the text: lines of faulthandler, and
 * "interrupted" for each KeyboardInterrupt that Python code has seen. The guest could forge it. */
void box_session_trace(struct box_session *session);

/* The same for a thread that is running, whether it runs the cell or not, and in place of what was
 * written before. Another program that has replaced the interpreter ignores the request. Returns
 * false when the session has died. */
bool box_session_trace_at_work(struct box_session *session);

/* What was written since the last message was sent; in on_restored and on_end, by the dead process.
 * Returns its length; a NUL follows. */
size_t box_session_traced(const struct box_session *session, char *text, size_t size);

/* Kills the interpreter and everything that it started. on_restored or on_end follows. */
void box_session_kill(struct box_session *session);

/* Kills the processes that this cell has started, also those that have left its process group or
 * its process session, and not what earlier cells have started. The interpreter goes on.
 * on_cell_ended follows, unless the interpreter dies first. 0 or -errno. */
int box_session_end_cell(struct box_session *session, unsigned cell);

/* To be called when the result of a run has arrived: from now on, and only once, the session
 * accepts a checkpoint with that run's number; 0: none. Code could report one by itself at any
 * time. */
void box_session_await_checkpoint(struct box_session *session, unsigned cell);

/* session: NULL: there is none, nor a checkpoint. */
enum box_checkpoint box_session_checkpoint(struct box_session *session, unsigned cell);

/* Keeps the checkpoints of the cells that keeps() names, and kills the others except the newest. To
 * be called again when one that is awaited is there. */
void box_session_keep(struct box_session *session, bool (*keeps)(const void *arg, unsigned cell),
                      const void *arg);

/* Kills the newest checkpoint, which is not kept: without it a death loses the state. false: there
 * is none. */
bool box_session_give_up(struct box_session *session);

/* Kills the interpreter and everything that it started, and wakes the checkpoint of this cell. The
 * checkpoint stays: it forks another before it replaces the interpreter. That of the present state
 * is kept too. on_restored follows, with an older cell if the checkpoint dies meanwhile, or on_end.
 * 0; -ENOENT: no such checkpoint; -EPIPE as for box_session_send(). */
int box_session_restore(struct box_session *session, unsigned cell);

/* Like box_session_kill(), and kills its checkpoints too. on_end follows. */
void box_session_close(struct box_session *session);

/* Bytes that only suspended checkpoints hold, so that killing them all would free as much; 0: or
 * nothing counts them. false: unknown until processes have exited that are about to. Reads files of
 * each process in the sandbox. */
bool box_memory_of_checkpoints(const struct box *box, uint64_t *ret_bytes);
