#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fail.h"
#include "tools/output.h"
#include "tools/spill.h"

/* One run of code in a session: what was asked, and what came of it. The session fills it and hands
 * it back through on_done; run_python and the command line make answers of it. */

enum run_outcome {
    RUN_OK,
    RUN_ERROR,   /* an exception */
    RUN_EXIT,    /* sys.exit, or the process ended with this code */
    RUN_TIMEOUT, /* interrupted or killed, see state */
    RUN_OOM,
    RUN_DISK,    /* killed for what it has written */
    RUN_CRASHED, /* by a signal */
    RUN_LOST,    /* its connection to the server was closed or misused */
    RUN_ENDED,   /* the whole sandbox ended under it */
    RUN_CANCELLED,
    RUN_REFUSED, /* there is no sandbox: text says why */
    RUN_OUTCOME_COUNT,
};

enum run_state {
    RUN_STATE_KEPT,
    RUN_STATE_INTERRUPTED,      /* kept, what was finished before the interrupt is there */
    RUN_STATE_RESTORED,         /* to before this run */
    RUN_STATE_RESTORED_EARLIER, /* to after restored_cell: the checkpoint since was lost */
    RUN_STATE_DROPPED,          /* a fresh run: nothing was to be kept */
    RUN_STATE_PENDING,          /* its processes have not ended yet, the next answer tells */
    RUN_STATE_LOST,             /* variables are gone, a fresh interpreter comes; files are there */
    RUN_STATE_ALL_LOST,         /* files too */
};

enum run_save {
    RUN_SAVE_NONE, /* not asked for, or not come to */
    RUN_SAVED,
    RUN_SAVE_FAILED, /* the call did */
    RUN_SAVE_NO_ROOM,
};

enum { NETWORK_NOTE_BYTES = 320 };

/* Text of the guest, copied; NULL: none. */
struct run_text {
    char *data;
    size_t size;
};

/* Words of the guest, as they came: what shows them makes them safe (base/word.h). A list holds its items one
 * after the other, each with a NUL behind it. */
enum run_part {
    RUN_VALUE,
    RUN_TRACEBACK,
    RUN_ERROR_TYPE,
    RUN_ERROR_MESSAGE,
    RUN_ERROR_CELL, /* digits */
    RUN_ERROR_LINE, /* digits */
    RUN_WHERE,      /* safe: <cell 3>:4 "source" */
    RUN_HINT,
    RUN_FILES,      /* list: "+plot.png", "~data.csv", "-old.txt" */
    RUN_FILE_SIZES, /* list: of each of them, in bytes, digits */
    RUN_FILE_KINDS, /* list: "symlink", "hard link" or "directory", or nothing */
    RUN_FILES_MORE, /* how many more, digits */
    RUN_VARS,       /* list: "+df", "~x", "-y" */
    RUN_VAR_KINDS,  /* list: of each of them, "DataFrame 1000x8", or nothing */
    RUN_VARS_MORE,  /* digits */
    RUN_NOTES,      /* list, safe: sentences of the server, and those of the guest in quotes */
    RUN_IMAGES,     /* list: paths */
    RUN_CPU_MS,     /* digits */
    RUN_PEAK_BYTES, /* digits: most memory that the interpreter has had resident */
    RUN_PART_COUNT,
};

struct run {
    struct run *next;
    /* asked */
    json_t *held_code;
    json_t *held_stdin;
    const char *code; /* of held_code, of any bytes */
    size_t code_size;
    const char *stdin_text; /* of held_stdin; NULL: none */
    size_t stdin_size;
    uint64_t timeout_ms;
    bool clamped; /* more was asked for than is allowed */
    bool reset;
    bool fresh;       /* in an interpreter of its own that is thrown away */
    bool undo;        /* before the code: back to the state before the last call, */
    char restore[65]; /* or to the state of this name; empty: neither */
    char save[65];    /* the name for the state after the code; empty: none */
    bool cancelled;
    bool supplied;                               /* --auto-install has had its turn */
    char doing[240];                             /* what the run waits for, while it does */
    void (*on_done)(void *arg, struct run *run); /* takes the run: run_free */
    /* The command line's: called with output as it comes instead of keeping it. */
    void (*on_output)(void *arg, unsigned stream, const char *bytes, size_t size);
    void *arg;

    /* came of it */
    enum run_outcome outcome;
    enum run_state state;
    int code_number; /* exit code or signal */
    uint64_t used_bytes;
    uint64_t limit_bytes;
    uint64_t used_files; /* RUN_DISK; 0: it was the bytes */
    uint64_t limit_files;
    uint64_t started_ns;
    uint64_t spent_ns; /* of its time, before started_ns: looking at its imports */
    uint64_t duration_ns;
    unsigned cell;
    unsigned restored_cell;
    bool went_back;            /* undo or restore has been carried out: */
    unsigned back_cell;        /* to after this cell; 0: to the fresh interpreter */
    char back_name[65];        /* by restore, the state of this name; empty: by undo */
    enum run_save saving;      /* what became of save */
    char dropped[65];          /* the named state that made room for it; empty: none */
    char gone[256];            /* the variables that are lost with the state */
    char memory[160];          /* "memory: 900 of 1024 MiB in use" */
    unsigned threads;          /* that were running and did not come back with the state */
    bool interrupted;          /* RUN_TIMEOUT: the code gave way to the interrupt */
    bool stuck;                /* RUN_TIMEOUT: no Python code has seen the interrupt */
    bool was_reset;            /* the interpreter was fresh because this run asked for it */
    char before[256];          /* what became of the state since the last answer; empty: nothing */
    char text[FAIL_TEXT + 64]; /* RUN_REFUSED: the sentence */
    char network[NETWORK_NOTE_BYTES]; /* hosts that were refused or allowed; empty: no news */
    char protected_news[256]; /* names of the workspace that were created or changed; empty: none */
    char protected_note[600]; /* what of the workspace is not protected, once; empty: nothing */
    char weaker[96]; /* layers of the sandbox that hold less than was said so far; empty: none */
    struct run_text parts[RUN_PART_COUNT];
    struct output output;
    struct output errors; /* stderr, where the streams are separate */
    struct spill *spill;  /* where all of it goes, once that is too long to show; NULL: nowhere */
};

/* code, stdin_text: strings, which are kept as they are: they may be long. stdin_text: NULL: none.
 * NULL when there is no memory. */
struct run *run_new_from(json_t *code, json_t *stdin_text);
/* The same with copies. */
struct run *run_new(const char *code, size_t code_size, const char *stdin_text, size_t stdin_size);
void run_free(struct run *run);

/* Copies bytes into a part, or as one more item into a list; a NUL in an item becomes "?". */
void run_set_part(struct run *run, enum run_part part, const char *bytes, size_t size);

/* The item of a list behind at (NULL: the first), with a NUL behind it; NULL: there is none. */
const char *run_next_item(const struct run *run, enum run_part list, const char *at);

/* Appends a changed variable as it is shown: "+df DataFrame 1000x8". kind may be NULL. 0 or -ENOMEM. */
int run_append_var(struct buf *text, const char *name, const char *kind);

const char *run_state_name(enum run_state state);
/* "back to after <cell 4> (undo)", of a run that went_back. Returns out. */
const char *run_back_text(const struct run *run, char out[128]);
/* Why the state was not saved; NULL: it was, or nothing is known. */
const char *run_unsaved_text(const struct run *run);

/* Whether the host should show the result as a failure. */
bool run_is_error(const struct run *run);

/* Appends the whole answer: output, value or traceback, hint, and the status line. 0 or -ENOMEM. */
int run_compose(const struct run *run, struct buf *text);
/* Appends only "[ok 3 ms]". */
int run_compose_status(const struct run *run, struct buf *text);
