#pragma once
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox/programs/keeper/records.h"
#include "sandbox/protocol/init_protocol.h"

/* The keeper: a process of the sandbox beside init. It knows what each file of the workspace was
 * after each call, keeps copies, and puts files back for `undo` and `restore`. With --cow it also
 * knows what differs from the user's directory. It is a fork of init, so it has init's confinement;
 * unlike init it has a heap. It writes only through the workspace's own path, as code does. */

enum {
    KEEPER_ENTRIES = 2000,    /* of a user's directory that is written through */
    KEEPER_RECORDS = 200000,  /* of any workspace */
    KEEPER_PATH_BYTES = 4096, /* PATH_MAX: nothing deeper can be opened at once */
    /* Code chooses how long and how deep paths are, and each is looked up from the top for each
     * call: */
    KEEPER_NAME_BYTES = 32 << 20, /* of all paths */
    KEEPER_DEPTH = 200,           /* what is in directories below that is left as it is */
    KEEPER_NAMES = 8,             /* of one kind in a reply */
    KEEPER_ROWS = 20,             /* changed files in a reply */
    KEEPER_CONNECTIONS = 64,
    KEEPER_KNOWN = 4096,
    KEEPER_HELD = 1024, /* files that stay open */
};

/* --- states: what sessions can go back to --- */

struct step {
    struct record *record;
    struct version *from;
    struct version *to;
    bool unsure; /* another call ran at that time: whose change it is cannot be known */
};

/* Who has touched something, and is answered. */
struct toucher {
    uint32_t thread; /* 0: not known */
    uint32_t number; /* of the touch, and how many with this number were answered before */
    uint32_t answers;
};

struct touched {
    char *path;
    struct toucher by;
    uint32_t state; /* of the call that has touched it */
};

struct edits {
    struct edit **list;
    size_t count;
    size_t space;
    bool lost;   /* there was no memory for one */
    bool shares; /* some have written to a file that has other names */
};

/* From the parent of a state to it. */
struct steps {
    struct step *list;
    size_t count;
    size_t space;
};

struct state {
    struct state *next;
    uint32_t id;
    uint32_t owner; /* a session */
    struct state *parent;
    struct steps steps;
    struct edits edits; /* of a workspace that is written through: see edits.h */
    bool open;          /* its call has not ended */
    bool late;          /* what its programs do after its end is not resolved yet */
    bool early;         /* the server has not said that it begins */
    int64_t since_ns;   /* when that began, by the clock of file times */
    int64_t fresh_ns;   /* then, see wire_request.fresh_ns */
    int64_t until_ns;   /* when it ended; 0: unknown, as while it is open */
    bool keep;
    bool lost;   /* its call has written over content of which there is no copy */
    bool unseen; /* not all files were checked before and after it */
};

/* A file that a call has left open. */
struct held {
    char *path;
    uint32_t owner;
    bool shared; /* the user could write to it at the same moment */
};

struct keeper {
    int socket_fd;
    int work_fd;  /* the workspace, as code sees it */
    int upper_fd; /* with --cow, else -1 */
    int lower_fd;
    int store_fd;  /* directory in which the facts in base outlive the server; or -1 */
    int output_fd; /* the directory of overflow files; or -1 */
    struct {
        int touch_fd;                        /* on which init tells of calls; or -1 */
        int greet_fd;                        /* on which sessions bring their connections; or -1 */
        int connections[KEEPER_CONNECTIONS]; /* of sessions' processes; 0: free */
        struct {
            struct toucher by;
            uint32_t state;
            char *place;               /* or NULL */
        } threads[256];                /* what each has touched last, by its number */
        struct held held[KEEPER_HELD]; /* files that calls left open: see edits_begin() */
        unsigned held_count;
        const uint32_t *answers; /* see keeper_setup */
        struct toucher by;       /* that touches something now */
        struct {
            bool known;
            char parent[LIMIT_PATH_BYTES]; /* with the slash that ends it */
            int watch;
            uint64_t inode;
        } near;    /* the directory that edits_watch() had last, for one touch */
        int first; /* numbers of the directories that inotify watches */
        int last;
        unsigned watches;
        int fd; /* an inotify instance of the directories in which sessions touch something */
        struct edit *active[KEEPER_KNOWN]; /* of open states, by directory and name */
        int64_t lost_ns;                   /* see edits_lose() */
    } edits;
    struct version *known[KEEPER_KNOWN]; /* by their inodes */
    size_t remembered;                   /* of them that nothing refers to any more, at most */
    bool cow;
    bool again;         /* what was changed before this process began is of unknown base */
    bool seen;          /* init tells of each call that changes files: nothing is scanned */
    bool own;           /* the workspace is the sandbox's own: nothing else changes it */
    bool unread;        /* the last scan could not read some directory, or not as deep */
    bool left_out;      /* nor reads some, such as .git */
    bool too_many;      /* entries: no states of files are kept */
    unsigned skip;      /* scans to leave out then */
    struct watch watch; /* off with --cow */
    uint64_t limit_bytes;
    uint64_t used_bytes;
    struct {
        struct record **buckets;
        uint32_t bucket_count;
        uint32_t count;
        size_t name_bytes; /* of their paths */
    } records;
    struct {
        uint32_t state;
        uint32_t session;
    } owners[1024]; /* of the latest states, by their numbers */
    uint32_t round;
    uint32_t looks;   /* at the user's directories */
    int64_t root_ns;  /* ctime of the scanned directory itself */
    uint32_t entries; /* that the current scan has seen */
    int64_t fresh_ns; /* of the last request */
    int64_t whole_ns; /* what code had changed before the last scan that read all, it saw as it was
                         then, or later */
    int64_t seen_ns;  /* lower bound of what code had seen when it made changes that the next scan
                         finds */
    struct state *states;
    uint32_t last_begun; /* state */
    bool pending_known;
    unsigned pending; /* changes that are not applied */
    struct {
        char **list;
        size_t count;
        size_t space;
        bool lost; /* there was no memory for one */
    } filters;     /* paths of the next request */
    struct {
        struct touched *list;
        size_t count;
        size_t space;
        bool lost;  /* anything may have been */
        bool begun; /* there was a scan of all */
    } touched;      /* since the last scan, where init tells of it and only code changes files */
};

/* states.c: whose change it is that a scan finds. One that is as new as the start of a call belongs
 * to that call; where several calls ran at that time, none of them can take it back. */
/* A call begins that leads from one state to the next. 0 or -ENOMEM. */
int states_begin(struct keeper *keeper, const struct keep_begin *begin);
/* It has ended. Calls report for each path that it has changed. 0, -ENOENT or -ENOMEM. */
typedef void (*report_fn)(void *arg, const struct record *record, const struct version *from);
int states_end(struct keeper *keeper, const struct keep_end *end, report_fn report, void *arg);
/* Drops the states of a session that it can no longer go back to. */
void states_keep(struct keeper *keeper, const struct keep_states *keep);
/* Takes what has changed since the last look; at the start, what is there. */
void states_look(struct keeper *keeper);
/* What an undo has made of a path. */
enum put {
    PUT_BACK,
    PUT_CLOSED,   /* for its owner alone: its access control list could not be set */
    PUT_FOR_GOOD, /* as PUT_BACK, and of what was there is no copy */
    PUT_STAYS,    /* it is not certainly the code's alone, or is tied to what is not */
    PUT_MISSED,   /* it could not be read or put back */
    PUT_FULL,     /* as PUT_MISSED, for lack of space on the disk */
    PUT_LINKED,   /* what was written stays under other names of the file */
};
static inline bool put_is_back(enum put put)
{
    return put <= PUT_FOR_GOOD;
}
static inline enum put put_missed(int error)
{
    return error == -ENOSPC || error == -EDQUOT ? PUT_FULL : PUT_MISSED;
}
typedef void (*put_fn)(void *arg, enum put put, const struct record *record);
/* As states_look(), whatever inotify reports. missed: called for what has changed, with PUT_MISSED;
 * or NULL. */
void states_look_surely(struct keeper *keeper, put_fn missed, void *arg);
/* The record's version was put at its path. */
void states_see(struct keeper *keeper, struct record *record);
/* A file tool has changed this path. */
void states_note_path(struct keeper *keeper, const char *path);
/* The way from one state to another: up from the first to what both have in common, and down. */
struct way {
    struct state *from;
    struct state *above;
    struct state *to;
};
/* The next state of the way; false: there are no more. Starts from {}. */
struct way_at {
    struct state *state;
    bool back; /* it is left, and not come to */
};
bool way_next(const struct way *way, struct way_at *at);
/* switch.c: puts the files back from one state to another. 0; STATES_LOST: more was changed than
 * can be kept; STATES_UNSEEN: or than was checked; -ENOENT: a state is unknown; or -ENOMEM. */
enum { STATES_LOST = 1, STATES_UNSEEN = 2 };
int states_switch(struct keeper *keeper, const struct keep_switch *between, put_fn done, void *arg);
/* The path is no longer what any call has made of it. */
void states_foreign(struct keeper *keeper, struct record *record);

/* A state, or NULL. */
struct state *states_find(const struct keeper *keeper, uint32_t id);
/* One whose call runs; or, of a program that an earlier call has left running, that of the
 * session's call which runs now; or, where none does, the earlier call's. NULL: it is not kept. */
struct state *states_find_toucher(struct keeper *keeper, uint32_t id);

/* Whether the workspace is a directory of the user's that is written through: what a scan finds
 * there may be their own work. It is listed, and never taken back: see edits.h. */
static inline bool keeper_is_plain(const struct keeper *keeper)
{
    return !keeper->own && !keeper->cow;
}

/* What is scanned. */
static inline int keeper_root(const struct keeper *keeper)
{
    return keeper->cow ? keeper->upper_fd : keeper->work_fd;
}

/* keeper.c */
/* Requests that have an id await it. fds: sent with it, count of them. */
void keeper_reply(const struct keeper *keeper, struct wire_reply *reply, const int *fds,
                  size_t count);
/* A memfd with these bytes, or -errno. */
int keeper_memfd(const struct buf *bytes);
/* Whether the path is one of these, or lies in one: the call whose end this is has touched it. */
bool keeper_claims(const struct keeper *keeper, const char *path);
/* Whether the filters of the request let the path through. */
bool keeper_wants(const struct keeper *keeper, const char *path);

/* --- changes.c: with --cow --- */

/* How many changes have a line in a list. Notices changes of the user's only where code has changed
 * something too. */
unsigned changes_count(struct keeper *keeper);
/* With --cow: shows code what the user has made of files that it has not changed since both were
 * the same, as the last look has found them. */
void changes_follow(struct keeper *keeper);
void changes_list(struct keeper *keeper, const struct wire_request *request);
void changes_discard(struct keeper *keeper, const struct wire_request *request);
void changes_collect(struct keeper *keeper, const struct wire_request *request);
void changes_applied(struct keeper *keeper, const struct wire_request *request);

/* --- the base: facts of the user's files that outlive the server, in a file of the store --- */

/* Makes records of what is kept, without a version; base_loaded() drops what no scan has found. */
void base_load(struct keeper *keeper);
void base_loaded(struct keeper *keeper);
void base_note(const struct keeper *keeper, const struct record *record);
/* Sets and notes it. facts: of the user's file, from which code begins its changes. */
void base_set(const struct keeper *keeper, struct record *record, const struct apply_facts *facts);
