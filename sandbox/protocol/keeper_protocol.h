#pragma once
#include <stdint.h>

#include "base/limits.h"

/* Requests of the server to the keeper (programs/keeper), and what it responds, in the messages of
 * init_protocol.h. States of the workspace's files have numbers, and so have the sessions that own
 * them. */

enum keep_op {
    KEEP_PATH,    /* path: a filter for the next request; maybe several */
    KEEP_BEGIN,   /* begin: a call begins */
    KEEP_END,     /* end: it has ended. The filters are the call's own paths. Response: kept, fd:
                     WIRE_KEPT_UNKEPT, WIRE_KEPT_ROW */
    KEEP_NOTE,    /* path: in the workspace; a file tool has written it */
    KEEP_FOLLOW,  /* with --cow: the user's files are to be what they are now */
    KEEP_SWITCH,  /* switching. Response: kept, fd: the other letters */
    KEEP_STATES,  /* states */
    KEEP_LIST,    /* list. Response: fd: struct change_record of each; the patch */
    KEEP_DISCARD, /* Response: the same */
    KEEP_COLLECT, /* Response: fds: a journal, the upper directory. See apply_journal.h */
    KEEP_APPLIED, /* the last journal has been carried out */
};

/* What a list is for. */
enum keep_list {
    KEEP_LIST_COUNTS, /* nobody sees it */
    KEEP_LIST_SHOWS,  /* what is applied later is compared with it */
    KEEP_LIST_PATCH,  /* the same, with a patch */
};

struct keep_begin {
    uint32_t session;
    uint32_t from;    /* the state before the call; 0: nobody goes back over it */
    uint32_t to;      /* the state after it */
    uint32_t looks;   /* something else may have changed files since the last response */
    int64_t since_ns; /* now, by CLOCK_REALTIME_COARSE, as in times of files */
};

struct keep_end {
    uint32_t to;
    uint32_t surely;  /* files may have changed without a report */
    int64_t until_ns; /* by CLOCK_REALTIME: later changes are not the call's; 0: all may be */
};

struct keep_switch {
    uint32_t from;
    uint32_t to;
};

enum { KEEP_STATES_MOST = 64 };

/* The states that a session can go back to. */
struct keep_states {
    uint32_t session;
    uint32_t count;
    uint32_t list[KEEP_STATES_MOST];
};

/* The letter that each item begins with in what the keeper tells, each ending with a NUL: paths
 * relative to the workspace. */
enum {
    WIRE_KEPT_BACK = 'b',   /* is what it was */
    WIRE_KEPT_CLOSED = 'c', /* the same, but for its owner alone */
    WIRE_KEPT_GONE = 'g',   /* is what it was: nothing */
    WIRE_KEPT_STAYS = 's',  /* something else has changed it since */
    WIRE_KEPT_LINKED = 'l', /* as WIRE_KEPT_STAYS, under other names of the file */
    WIRE_KEPT_MISSED = 'm', /* no copy was kept, or it could not be written */
    WIRE_KEPT_FULL = 'n',   /* there was no space on the disk for it, and so nothing was put back */
    WIRE_KEPT_UNKEPT = 'u', /* changed, and too large for a copy */
    WIRE_KEPT_ROW = 'f',    /* a changed file: sign and path; then two more texts: size, kind */
};

#define WIRE_PENDING_MANY UINT32_MAX /* changes: too many to count */

/* How many paths of each kind; the text has the names of the first ones. */
struct wire_kept {
    uint32_t back;
    uint32_t closed;
    uint32_t gone;
    uint32_t stays;
    uint32_t linked;
    uint32_t missed;
    uint32_t full; /* then the files are in the state from which the switch was to lead */
    uint32_t unkept;
    uint32_t changed;   /* by the call */
    uint32_t applied;   /* of those that are back: the user's directory has the later file */
    uint32_t rows_more; /* changed files beyond the rows */
    uint32_t pending;   /* with --cow: changes that are not applied */
    uint32_t lost;      /* there were more changes than could be kept */
    uint32_t unseen;    /* not all files were checked before and after each call on the way */
    uint32_t left_out;  /* the workspace has directories that are never checked, such as .git */
    uint32_t too_many;  /* entries: no states of files are kept */
    uint32_t blind;     /* the workspace is written through and has too many: calls report what they
                           touch, and nothing else is checked */
    uint32_t held;      /* files that calls have left open: the next one may not begin before the
                           keeper has seen what is in them */
    uint32_t watched;   /* the inotify instance reports what changes from now on */
};

/* To the keeper, before code does something in the workspace: from init,
 * which is notified of every program's calls; or, where the kernel cannot do that, from a session,
 * of what its Python code does. The first message on the sessions' socket brings a connection
 * (SCM_RIGHTS) and says nothing; on that follow these. The keeper responds to each with its
 * number. */
enum { WIRE_TOUCH_PATHS = 3 };
struct wire_touch {
    uint32_t state; /* that the call leads to */
    uint32_t number;
    uint32_t answers; /* that init has given to this number before */
    uint32_t
        thread;  /* which does it: what it has done before is over. 0: the third path says that */
    uint32_t op; /* enum wire_touch_op */
    char paths[WIRE_TOUCH_PATHS * LIMIT_PATH_BYTES]; /* relative to the workspace, each with a NUL:
                                         of what is touched; of its new name, or of the file of
                                         which it becomes a name; of what the thread has touched
                                         before, which is over */
};

enum wire_touch_op {
    WIRE_TOUCH_WRITE = 'w',     /* opens for writing */
    WIRE_TOUCH_OVER = 'o',      /* nothing new */
    WIRE_TOUCH_ATTRIBUTE = 'a', /* changes mode, times or size, without opening it */
    WIRE_TOUCH_CREATE = 'c',    /* makes a directory or symlink */
    WIRE_TOUCH_BRING = 'b',     /* renames something from outside of the workspace */
    WIRE_TOUCH_LINK = 'l',      /* makes a further name of a file */
    WIRE_TOUCH_REMOVE = 'd',
    WIRE_TOUCH_RENAME = 'r',
    WIRE_TOUCH_EXCHANGE = 'e', /* renames both */
    WIRE_TOUCH_UNKNOWN = 'x',  /* nobody knows where: no path */
};
