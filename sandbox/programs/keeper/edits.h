#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sandbox/programs/keeper/keeper.h"
#include "sandbox/protocol/keeper_protocol.h"

/* Undo where the workspace is a directory of the user's that is written through.
 *
 * There the user works at the same moment, and nothing that is found later tells their change from
 * the code's. So each call of the system that changes a name or opens a file to write is an edit:
 * init, or where it cannot the session's Python, reports it before it happens (wire_touch), and it
 * waits until what is there has been copied. What an edit has led to is
 * known when inotify reports its end (the file was closed, the name was moved), and only if nobody
 * else has opened or replaced it until then: for that the number of openings is compared with the
 * number of reports. An edit of which this is not certain is unsure, and is not undone.
 *
 * An undo takes the edits back one by one, the last first, and a restore may repeat them. Each step
 * first compares what is there with what the edit has left; anything else stays, and is named. A
 * move is undone by a move. */

struct edit {
    bool moves;        /* from path to target; else the content at path changes */
    bool unsure;       /* or nobody knows what it has led to */
    bool writes;       /* the file is opened: what it becomes is known when it is closed */
    bool mixed;        /* it is several, of which one may have written */
    bool ended;        /* to was seen */
    bool active;       /* its call runs, and nothing has come after it at its name */
    bool nothing;      /* it has failed */
    bool linked;       /* path is a further name of a file */
    bool shares;       /* the same, and code has made the file */
    bool resets;       /* code changes the mode while the file is open: it is not known yet */
    uint32_t mode;     /* that the file has then, where it stays the same one */
    unsigned links;    /* names of the file, */
    uint64_t file;     /* and its inode, before the edit; of a move at target */
    struct toucher by; /* which has touched it last */
    bool held;         /* code still had it open when its call ended */
    bool beside;       /* code has it open by more than this edit's openings */
    bool contested;    /* another call has opened it while this one ran */
    bool rewritten;    /* then its content is another one, and its facts are the same: a mapping */
    bool undone;       /* it was taken back */
    enum put fate;     /* scratch of edits_switch(); and: */
    bool looks;        /* what is in the directory that moves is what is there now */
    char *path;
    char *target;         /* of a move, else NULL */
    struct version *from; /* at path, of a move what it has replaced at target */
    struct version *to;   /* at path, of a move at target */
    uint32_t awaits;      /* events of inotify at the name that are the edit's, once */
    unsigned touches;     /* openings that were reported */
    unsigned overs;       /* of them, which are over */
    unsigned opens;       /* that inotify has, without those that only read */
    unsigned closes;
    int watch;       /* the directory's number in inotify; -1: nothing reports what happens there */
    uint64_t parent; /* that directory's inode */
    uint64_t inode;  /* of the file, where it stays the same one; or 0 */
    uint32_t state;
    size_t name_bytes; /* of path and target */
    struct edit *next; /* active, in the same bucket */
};

/* The name at which the edit ends. */
static inline const char *edit_place(const struct edit *edit)
{
    return edit->moves ? edit->target : edit->path;
}

/* A process of a session is about to do this. */
void edits_touch(struct keeper *keeper, const struct wire_touch *touch);
/* A call begins: what it may write to through what earlier ones have left open is an edit. */
void edits_begin(struct keeper *keeper, struct state *state);
/* Reads what inotify reports. */
void edits_follow(struct keeper *keeper);
/* The state's call has ended. What its programs still have open may change until the next one;
 * finally: nothing of it changes any more. */
void edits_end(struct keeper *keeper, struct state *state, bool finally);
/* Resolves what a thread was about to do when its call ended, and has not done. Returns whether
 * some may still come. */
bool edits_land(struct keeper *keeper);
/* What programs have done after the end of the owner's calls is theirs. */
void states_resolve_late(struct keeper *keeper, uint32_t owner);
enum { EDITS_LEFT = 256 }; /* each is compared with each file that may go */
/* What becomes of the edits of a way. */
struct edits_outcome {
    struct keeper *keeper;
    struct way way;
    struct records records;                 /* mark: 1 + enum put; found: what was there before */
    struct edits carried;                   /* out, borrowed; NULL: put back */
    struct edits removals;                  /* borrowed: for the end */
    const struct version *left[EDITS_LEFT]; /* do not come: their paths hold something else */
    size_t left_count;
    bool lost;         /* something does not come, and nothing has taken its place */
    bool full;         /* something does not come for lack of space on the disk */
    unsigned given_up; /* edits that could not be carried out although it seemed so */
    bool returns;      /* what was carried out goes where it was: that takes no content away */
};
/* The version of nothing. */
struct version *edits_none(void);
/* Takes the edits back, or repeats them, and adds what has become of each path. */
void edits_switch(struct edits_outcome *outcome);
void edits_outcome_add(struct edits_outcome *outcome, const char *path, enum put put);
/* Moves the edits before those of another state. Returns whether there was memory. */
bool edits_prepend(struct keeper *keeper, struct edits *edits, struct edits *to);
void edits_drop(struct keeper *keeper, struct edits *edits);
void edit_free(struct keeper *keeper, struct edit *edit);
/* Content of which there is no copy is lost now: what calls have made until then may hold it, and
 * is not removed any more. */
void edits_lose(struct keeper *keeper);
/* Whether code has made the version, in a call that is kept. */
bool edits_have_made(const struct keeper *keeper, const struct version *version);

/* --- inside of edits*.c: the edits of calls that run, by what inotify reports of their names ---
 */

/* Watches the directory that path is in. Returns its number, -1: not watched, and its inode. */
int edits_watch(struct keeper *keeper, const char *path, uint64_t *ret_inode);
/* From here on events at the edit's name are about it; until it is resolved. */
void edit_activate(struct keeper *keeper, struct edit *edit);
void edit_deactivate(struct keeper *keeper, struct edit *edit);
/* The next active edit at the name, of whichever state; after NULL: the latest one. */
struct edit *edit_next_at(struct keeper *keeper, const struct edit *after, int watch,
                          const char *name);
struct edit *edit_latest(struct keeper *keeper, const struct state *state, const char *path);
/* Whether nothing has changed at all: the call of the system failed. facts: at the edit's end. */
bool edit_is_void(const struct keeper *keeper, const struct edit *edit,
                  const struct apply_facts *facts);
/* Another name of the file that the edit has taken its name from, if that has the same content
 * still and calls have changed it; borrowed, or NULL. */
const char *edits_other_name(const struct keeper *keeper, const struct edit *edit);
/* The call has ended, or goes on with something else at the same name. */
void edit_resolve(struct keeper *keeper, struct edit *edit);
/* Whether the thread may be about to do what it has been allowed. */
bool toucher_is_coming(const struct keeper *keeper, const struct toucher *toucher);
/* A call has left the file open. shared: somebody else may write to it too. Returns whether there
 * was space. */
bool edits_hold(struct keeper *keeper, const char *path, uint32_t owner, bool shared);
