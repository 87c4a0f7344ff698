/* The files that go back with the variables. The sandbox's keeper numbers states of the files as
 * this file tells it to; each state in the history has one. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/word.h"
#include "tools/session/session_internal.h"

enum { NOTE_BYTES = 319, BACK_BYTES = 2047, LIST_BYTES = 240, WRITTEN = 'w' };

/* The sandbox, if it keeps states of files; else NULL. */
static struct box *keeping_box(const struct session *session)
{
    struct box *box = server_box_get(session->owner->server_box);
    return box && box_states_exist(box) ? box : NULL;
}

/* Whether undo covers files. With --cow the keeper works for changes too. */
static bool keeps_files(const struct sessions *sessions)
{
    return server_box_spec(sessions->server_box)->undo_files_bytes > 0;
}

static bool is_written_through(const struct sessions *sessions)
{
    return box_spec_is_written_through(server_box_spec(sessions->server_box));
}

bool session_files_are_unprepared(const struct session *session)
{
    return session->current->files == 0 && keeping_box(session);
}

bool session_files_are_edits(const struct session *session, const struct run *run)
{
    const struct box *box = run->files ? keeping_box(session) : NULL;
    return box && box_states_are_edits(box);
}

unsigned session_files_mark(const struct session *session)
{
    const struct run *run = session->current;
    return session_files_are_edits(session, run) ? run->files : run->cell;
}

static void session_prepared(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    struct session *session = arg;
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    box_states_read(server_box_get(session->owner->server_box), reply, fds, &text);
    session->files.waiting = false;
    session_pump(session);
}

void session_files_prepare(struct session *session)
{
    struct run *run = session->current;
    struct sessions *sessions = session->owner;
    struct history *history = &session->history;
    if (!history->now.files) {
        history->now.files = session->files.at ? session->files.at : ++sessions->last_serial;
    }
    session->files.at = session->files.at ? session->files.at : history->now.files;
    run->files = ++sessions->last_serial;
    const struct keep_switch call = {session->transient ? 0 : session->files.at, run->files};
    /* Where the user or another run may have changed files too, the keeper looks first. */
    struct box *box = keeping_box(session);
    bool looks = sessions->files_open > 0 || box_states_are_fresh(box) ||
                 (box_states_are_edits(box) && !box_states_are_quiet(box)) ||
                 server_box_spec(sessions->server_box)->cow; /* a process that was left may have */
    sessions->files_open++;
    int r = box_states_begin(box, session->serial, &call, looks ? session_prepared : NULL, session);
    session->files.waiting = looks && r == 0;
}

void session_files_made(struct session *session)
{
    const struct run *run = session->current;
    if (run && run->files && !session->transient) {
        session->history.now.files = run->files;
        session->files.at = run->files;
    }
}

static void add_state(struct keep_states *wanted, uint32_t state)
{
    /* The present, the last, the goal, the one being made, and the history's. */
    _Static_assert(HISTORY_STATES + 4 <= KEEP_STATES_MOST, "");
    bool known = state == 0;
    for (unsigned i = 0; i < wanted->count; i++) {
        known = known || wanted->list[i] == state;
    }
    if (!known) {
        wanted->list[wanted->count++] = state;
    }
}

void session_files_keep(struct session *session)
{
    const struct history *history = &session->history;
    struct box *box = keeping_box(session);
    struct keep_states wanted = {.session = session->serial};
    if (!box || session->transient) {
        return;
    }
    add_state(&wanted, history->now.files);
    add_state(&wanted, session->files.at);
    add_state(&wanted, session->files.goal);
    add_state(&wanted, session->current ? session->current->files : 0);
    const struct history_state *state = NULL;
    for (unsigned i = 0; (state = history_at(history, i)); i++) {
        add_state(&wanted, state->files);
    }
    if (memcmp(wanted.list, session->files.kept.list, sizeof wanted.list) == 0) {
        return; /* serials are never used twice, so a keeper that has begun anew knows none */
    }
    session->files.kept = wanted;
    box_states_keep(box, &wanted);
}

/* Writes "a.txt, b.txt and 3 more": the items of one letter. Long names leave space for the other
 * lists of a result. */
static void list_names(char letter, uint32_t all, const struct buf *text, struct buf *out)
{
    struct word_list list = {.out = out, .before = "", .most = SIZE_MAX};
    size_t most = buf_size(out) + LIST_BYTES;
    for (const char *at = NULL; (at = box_states_next(text, at));) {
        bool is = *at == letter; /* else it may be empty, and the last */
        if (is && (list.shown == 0 || buf_size(out) + strlen(at + 1) < most) &&
            word_list_next(&list)) {
            (void)word_append(out, at + 1, strlen(at + 1));
        }
    }
    list.count = all;
    word_list_end(&list);
}

/* most: bytes of it. */
static void take_text(struct run *run, enum run_fact fact, const struct buf *text, size_t most)
{
    run_add(run, fact, buf_bytes(text), buf_size(text) < most ? buf_size(text) : most);
}

/* --- after a run --- */

/* Whether it is the file of the program that runs, which the guest puts there. */
static bool is_program(const struct run *run, const char *path)
{
    size_t size = strlen(path);
    size_t whole = run->request.program ? strlen(run->request.program->file) : 0;
    return whole > size && run->request.program->file[whole - size - 1] == '/' &&
           strcmp(run->request.program->file + whole - size, path) == 0;
}

static void take_rows(struct run *run, const struct wire_kept *kept, const struct buf *text)
{
    for (const char *at = NULL; (at = box_states_next(text, at));) {
        if (*at != WIRE_KEPT_ROW) {
            continue;
        }
        const char *bytes = box_states_next(text, at);
        const char *kind = bytes ? box_states_next(text, bytes) : NULL;
        if (!kind) {
            return;
        }
        if (!is_program(run, at + 2)) {
            run_add(run, RUN_FILES, at + 1, strlen(at + 1));
            run_add(run, RUN_FILE_SIZES, bytes, strlen(bytes));
            run_add(run, RUN_FILE_KINDS, kind, strlen(kind));
        }
        at = kind;
    }
    run_add_number(run, RUN_FILES_MORE, kept->rows_more);
}

/* A run that has ended, while the keeper checks what it has done. */
struct ended {
    struct sessions *sessions;
    struct session *session; /* NULL: it may have gone, and nothing goes back in it */
    uint32_t files;
    struct run *run; /* NULL: it has been returned */
};

static void take_kept(struct run *run, const struct wire_kept *kept, const struct buf *text)
{
    take_rows(run, kept, text);
    run->pending = kept->pending;
    if ((kept->changed > 0 || kept->too_many) &&
        (run->end.state == RUN_STATE_RESTORED || run->end.state == RUN_STATE_RESTORED_EARLIER)) {
        run_addf(run, RUN_FILES_STAY, "files are as the call left them%s",
                 run->files_undo && !kept->too_many ? "; `undo` reverts them" : "");
    }
}

static void note_unkept(struct run *run, const struct wire_kept *kept, const struct buf *text)
{
    OWNED(buf_done) struct buf note = BUF_EMPTY;
    if (kept->unkept > 0) {
        (void)buf_append_text(&note, "not kept for undo: ");
        list_names(WIRE_KEPT_UNKEPT, kept->unkept, text, &note);
        take_text(run, RUN_FILES_NOTE, &note, NOTE_BYTES);
    }
    if (kept->lost) {
        run_addf(run, RUN_FILES_NOTE, "too many files were changed: undo cannot revert them all");
    }
}

/* What the run has done to the files is unknown: nothing goes back over it. */
static void forget_state(struct session *session, uint32_t files)
{
    if (session->history.now.files == files) {
        session->history.now.files = ++session->owner->last_serial;
        session->files.at = session->history.now.files;
    }
}

/* Says once what undo does not cover, in a result that says nothing else of that. */
static void note_unseen(struct sessions *sessions, struct run *run)
{
    const struct box *box = server_box_get(sessions->server_box);
    if (sessions->files_unseen || !box || !keeps_files(sessions) ||
        run->facts[RUN_FILES_NOTE].size > 0) {
        return;
    }
    sessions->files_unseen = true;
    const char *why = box_states_unseen(box);
    if (why) {
        run_addf(run, RUN_FILES_NOTE, BOX_UNSEEN_WRITES, why);
    }
}

/* Says once that the workspace has more entries than are checked. */
static void note_uncovered(struct sessions *sessions, struct run *run, bool too_many)
{
    if (too_many && !sessions->files_uncovered) {
        sessions->files_uncovered = true;
        run_addf(run, RUN_FILES_NOTE, "%s",
                 is_written_through(sessions)
                     ? "the workspace has more than 2000 entries: only files that Python code "
                       "changes are listed and go back"
                     : "undo covers no files: the workspace has too many");
    }
}

static void run_ended(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    struct ended ended = *(struct ended *)arg;
    const struct wire_kept *kept = &reply->kept;
    free(arg);
    box_states_read(server_box_get(ended.sessions->server_box), reply, fds, &text);
    ended.sessions->files_looking--;
    if (ended.run && !reply->error) {
        take_kept(ended.run, kept, &text);
        if (keeps_files(ended.sessions)) {
            note_unkept(ended.run, kept, &text);
        }
        note_uncovered(ended.sessions, ended.run, kept->too_many);
        note_unseen(ended.sessions, ended.run);
    }
    if (reply->error && ended.session) {
        forget_state(ended.session, ended.files);
    }
    if (ended.run) {
        ended.run->on_done(ended.run->arg, ended.run);
    }
    sessions_pump(ended.sessions);
}

void session_files_end(struct session *session, struct run *run)
{
    struct box *box = run->files ? keeping_box(session) : NULL;
    struct ended *ended = box ? calloc(1, sizeof *ended) : NULL;
    session->owner->files_open -= run->files != 0;
    if (!ended) {
        if (run->sent > 0) {
            forget_state(session, session->history.now.files);
        }
        run->on_done(run->arg, run);
        return;
    }
    if (!session->transient) {
        session->history.now.files = run->files;
        session->files.at = run->files;
        run->files_undo = session->history.steps > 0 && keeps_files(session->owner);
    }
    /* What the guest says is enough to leave out a wait, and for nothing else. */
    bool quiet = !server_box_spec(session->owner->server_box)->cow &&
                 (run->end.outcome == RUN_OK || run->end.outcome == RUN_ERROR) &&
                 run->facts[RUN_CLAIMS].size == 0 && box_states_are_quiet(box) &&
                 !box_states_are_fresh(box); /* an open file is written to without a word */
    *ended = (struct ended){session->owner, session->transient ? NULL : session, run->files,
                            quiet ? NULL : run};
    const struct box_states_ended state = {.to = run->files,
                                           .changed = !quiet,
                                           .claims = run->facts[RUN_CLAIMS].data,
                                           .size = run->facts[RUN_CLAIMS].size};
    int r = box_states_end(box, &state, run_ended, ended);
    session->owner->files_looking += r == 0;
    if (session->transient) {
        box_states_keep(box, &(struct keep_states){.session = session->serial});
    } else {
        session_files_keep(session);
    }
    if (r < 0) {
        free(ended);
    }
    if (quiet || r < 0) {
        note_uncovered(session->owner, run, box_states_are_blind(box));
        note_unseen(session->owner, run);
        run->on_done(run->arg, run);
    }
}

/* --- going back --- */

bool session_files_differ(const struct session *session)
{
    return session->files.goal && !session->transient;
}

void sessions_note_written(struct sessions *sessions, const char *path)
{
    struct session_written *written = &sessions->written;
    const char mark = WRITTEN;
    for (const char *at = NULL; (at = box_states_next(&written->text, at));) {
        if (strcmp(at + 1, path) == 0) {
            return;
        }
    }
    written->count++;
    if (buf_size(&written->text) + strlen(path) + 1 < SESSION_WRITTEN_BYTES) {
        (void)buf_append(&written->text, &mark, 1);
        (void)buf_append(&written->text, path, strlen(path) + 1);
    }
}

static void append_kind(struct buf *out, const char *before, char letter, uint32_t all,
                        const struct buf *text)
{
    if (all > 0) {
        (void)buf_append_text(out, buf_size(out) > 0 ? ", " : "");
        (void)buf_append_text(out, before);
        list_names(letter, all, text, out);
    }
}

/* Of one event there is one clause: what write_file has written stays for that reason. Returns how
 * many others do; text gets no more than them. */
static uint32_t other_stays(const struct session_written *written, uint32_t stays,
                            const struct buf *text, struct buf *others)
{
    for (const char *at = NULL; (at = box_states_next(text, at));) {
        const char *known = NULL;
        while (*at == WIRE_KEPT_STAYS && (known = box_states_next(&written->text, known)) &&
               strcmp(known + 1, at + 1) != 0) {
        }
        if (known) {
            stays--;
        } else {
            (void)buf_append(others, at, strlen(at) + 1);
        }
    }
    return stays;
}

/* Tells the interpreters of states, which may have them open: also of one that is older than an
 * earlier undo. Too many: any may be one of them. */
static void note_back(struct session *session, const struct wire_kept *kept, const struct buf *text)
{
    struct buf *back = &session->files.back;
    uint32_t count = 0;
    for (const char *at = NULL; (at = box_states_next(text, at));) {
        if (*at == WIRE_KEPT_BACK) {
            count++;
            (void)buf_append(back, at + 1, strlen(at + 1) + 1);
        }
    }
    if (count < kept->back || buf_size(back) > BACK_BYTES) {
        buf_clear(back, 0);
        (void)buf_append(back, "", 1);
    }
}

/* Nothing is called unchanged that was not checked. */
static void append_unseen(const struct sessions *sessions, const struct wire_kept *kept,
                          struct buf *back)
{
    bool through = is_written_through(sessions);
    if (kept->unseen && through && !box_states_unseen(server_box_get(sessions->server_box))) {
        buf_appendf(back,
                    "%snot known: what was changed by programs whose file cannot be read, through "
                    "links of /proc, or below paths that are too long",
                    buf_size(back) > 0 ? ", " : "");
    } else if (kept->unseen) {
        buf_appendf(back,
                    "%snot all files were checked%s: the workspace has too many, or directories "
                    "that are unreadable or too deep",
                    buf_size(back) > 0 ? ", " : "", through ? " for what programs changed" : "");
    } else if (buf_size(back) == 0) {
        buf_appendf(back, "workspace files unchanged%s",
                    kept->left_out ? " (not checked: .git, node_modules and the like)" : "");
    }
}

static void session_switched(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    OWNED(buf_done) struct buf back = BUF_EMPTY;
    OWNED(buf_done) struct buf others = BUF_EMPTY;
    struct session *session = arg;
    struct box *box = server_box_get(session->owner->server_box);
    const struct wire_kept *kept = &reply->kept;
    const struct session_written *written = &session->owner->written;
    box_states_read(box, reply, fds, &text);
    session->files.waiting = false;
    session->files.at = kept->full ? session->files.at : session->files.goal;
    session->files.goal = 0;
    if (kept->full) {
        append_kind(&back, "files not reverted, no space on the disk for: ", WIRE_KEPT_FULL,
                    kept->full, &text);
        (void)buf_append_text(&back, "; when there is: restore \"" RUN_LEFT "\", and repeat this");
    } else if (!reply->error) {
        uint32_t stays = other_stays(written, kept->stays, &text, &others);
        append_kind(&back, "files back: ", WIRE_KEPT_BACK, kept->back, &text);
        note_back(session, kept, &text);
        append_kind(&back,
                    "back, but only for their owner, without an access control list that names "
                    "users whom the sandbox does not know: ",
                    WIRE_KEPT_CLOSED, kept->closed, &text);
        append_kind(&back, "files removed: ", WIRE_KEPT_GONE, kept->gone, &text);
        if (kept->applied > 0) {
            (void)buf_append_text(&back, " (the user keeps what was applied until apply_changes)");
        }
        append_kind(&back, "no copy kept for \"" RUN_LEFT "\": ", WIRE_KEPT_UNKEPT, kept->unkept,
                    &text);
        append_kind(&back,
                    box_states_unseen(box) ? "not reverted, may be the user's or a program's: "
                                           : "not reverted, also changed by others: ",
                    WIRE_KEPT_STAYS, stays, &others);
        append_kind(&back, "not reverted under other names (hard links) of: ", WIRE_KEPT_LINKED,
                    kept->linked, &text);
        append_kind(&back, "cannot revert: ", WIRE_KEPT_MISSED, kept->missed, &text);
        if (kept->lost) {
            (void)buf_append_text(&back, buf_size(&back) ? ", " : "");
            (void)buf_append_text(&back, "cannot revert more: too many files were changed");
        }
        append_unseen(session->owner, kept, &back);
        append_kind(&back, "written since by write_file and kept: ", WRITTEN, written->count,
                    &written->text);
    }
    if (session->current && !kept->full &&
        (reply->error || kept->back + kept->closed + kept->gone == 0)) {
        session_left_nothing(session);
    }
    if (session->current) {
        take_text(session->current, RUN_FILES_BACK, &back, BACK_BYTES);
        session->current->pending = kept->pending; /* where no code runs, nothing else tells */
    }
    session_pump(session);
}

void session_files_switch(struct session *session)
{
    struct box *box = keeps_files(session->owner) ? keeping_box(session) : NULL;
    uint32_t from = session->files.at;
    uint32_t to = session->files.goal;
    session->files.waiting =
        box && from && box_states_switch(box, from, to, session_switched, session) == 0;
    if (!session->files.waiting) {
        session_left_nothing(session);
        session->files.at = to;
        session->files.goal = 0;
    }
}
