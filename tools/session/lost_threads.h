#pragma once
#include "base/word.h"
#include "tools/run/run.h"

/* Threads that a checkpoint or a branch does not have, and that nothing starts again:
 * guest/threads.py. */

struct lost_threads {
    char native[WORD_BYTES + 1]; /* their libraries, "polars 4, zmq 2 (context)"; maybe quoted */
    unsigned python;             /* how many of Python's */
    unsigned news;               /* how many of Python's no result has counted, pools' included */
    bool is_news;                /* no result has named the libraries */
};

/* What the interpreter lacks now, as its message says. is_back: it has just replaced another one,
 * or is a copy. */
void lost_threads_take(struct lost_threads *lost, const struct box_message *message, bool is_back);
/* Adds to the run, which has ended: what no result has said, and what it may have waited for until
 * its time limit. */
void lost_threads_report(struct lost_threads *lost, struct run *run);
