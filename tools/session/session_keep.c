/* Sessions that come back in another server life (--keep): when a session is saved, and how it is
 * loaded. A copy of the session, a branch without output, writes what its variables are to its
 * pipe; a process of its own brings the file to the disk. The session itself loads it, before its
 * first call. No call waits for the former, and what goes wrong with either costs no call. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/word.h"
#include "record/record.h"
#include "tools/keep/keep_files.h"
#include "tools/session/session_internal.h"

enum {
    QUIET_MS = 2000,     /* after the last call that changed something */
    LONGEST_MS = 60000,  /* while calls go on */
    AGAIN_MS = 1000,     /* where it cannot be saved now, */
    RETRY_MS = 30000,    /* or could not */
    TIMES_SAVED = 10,    /* of what the last save took, between two */
    SAVE_MS = 120000,    /* for all of a session, and for one name; */
    SAVE_LAST_MS = 1200, /* at the end of the server, of KEEP_LAST_MS */
    NAME_MS = 1000,
    LOAD_MS = 10000,      /* for all, then what is not loaded is named; */
    LOAD_GRACE_MS = 3000, /* the interpreter does not keep to that */
    LOAD_TRIES = 2,
    LOCK_MS = 5000, /* for another server to end */
    LOCK_LOOK_MS = 100,
    LINE_NAMES = 10,
    LINE_BYTES = 600,
    SOURCE_BYTES = 80,
};

/* --- words --- */

/* The next result of the session begins with this. */
__attribute__((format(printf, 2, 3))) static void say(struct session *session, const char *fmt, ...)
{
    char text[LINE_BYTES];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    (void)buf_appendf(&session->kept.line, "%s%s", buf_size(&session->kept.line) ? " | " : "",
                      text);
}

void session_kept_line(struct session *session, struct run *run, bool is_last)
{
    struct session *parent = session_parent(session);
    struct buf *line = &(parent ? parent : session)->kept.line;
    if (buf_size(line) > 0) {
        run_addf(run, RUN_SESSION, "[%s]", buf_text(line));
    }
    if (is_last) {
        buf_done(line);
    }
}

/* --- the directory --- */

static bool is_here(const struct keeping *keeping)
{
    return keeping->lock == KEEPING_LOCKED;
}

/* No session is loaded or saved any more. */
static void give_up(struct sessions *sessions, const char *why)
{
    sessions->keeping.lock = KEEPING_OFF;
    log_warn("keep", "sessions are not kept: %s", why);
    for (struct session *at = sessions->list; at; at = at->next) {
        if (at->kept.back == BACK_WAITING) {
            at->kept.back = BACK_OVER;
            say(at, "sessions of this server are not kept: %s", why);
        }
    }
}

static void consider(struct session *session);

static void take_lock(void *arg)
{
    struct sessions *sessions = arg;
    struct keeping *keeping = &sessions->keeping;
    struct fail fail = {};
    if (keeping->dir_fd < 0) {
        keeping->dir_fd = keep_directory_open(keeping->config.directory, /* create= */ true, &fail);
    }
    int r = keeping->dir_fd < 0 ? keeping->dir_fd : keep_lock(keeping->dir_fd);
    if (r == -EWOULDBLOCK && clock_now_ns() < keeping->lock_until_ns) {
        loop_timer_in(sessions->loop, &keeping->lock_timer, LOCK_LOOK_MS, take_lock, sessions);
        return;
    }
    if (r < 0) {
        give_up(sessions, r == -EWOULDBLOCK      ? "another server has the directory of --keep"
                          : keeping->dir_fd >= 0 ? strerror(-r)
                                                 : fail_text(&fail));
    } else {
        struct box_python python;
        box_python_look(server_box_spec(sessions->server_box), &python);
        (void)snprintf(keeping->python, sizeof keeping->python, "%s", python.version);
        keeping->lock = KEEPING_LOCKED;
        keep_trim(keeping->dir_fd, "", UINT64_MAX, keeping->config.days);
    }
    for (struct session *at = sessions->list; at; at = at->next) {
        if (at->kept.back == BACK_WAITING) {
            consider(at);
        }
    }
    sessions_pump(sessions);
}

void sessions_keep_init(struct sessions *sessions, const struct keep_config *config)
{
    struct keeping *keeping = &sessions->keeping;
    keeping->config = *config;
    keeping->dir_fd = -1;
    keeping->lock = config->directory ? KEEPING_NOT_YET : KEEPING_OFF;
}

/* --- coming back --- */

static const char *workspace_of(const struct sessions *sessions)
{
    const char *workspace = server_box_spec(sessions->server_box)->workspace;
    return workspace ? workspace : "";
}

static const char *stem_of(const struct session *session, char out[KEEP_STEM_BYTES])
{
    return keep_stem(session->name, workspace_of(session->owner), out);
}

/* What there is is not loaded: it becomes the earlier state. Ends the reading, and with it the
 * header. */
static void refuse(struct session *session, const struct keep_header *header, const char *why)
{
    char at[32];
    session->kept.back = BACK_OVER;
    session->kept.aside = true;
    if (header) {
        say(session, "the session of %s was not loaded: %s", keep_time(header->time_s, at), why);
    } else {
        say(session, "a session was kept and not loaded: its file %s", why);
    }
    log_info("keep", "session %s: not loaded: %s", session->name, why);
    session_kept_done(session);
}

/* Why it is another one's, or NULL. */
static const char *foreign(const struct session *session, const struct keep_header *header)
{
    const struct sessions *sessions = session->owner;
    if (strcmp(header->session, session->name) != 0) {
        return "its file has another session's name";
    }
    if (strcmp(header->workspace, workspace_of(sessions)) != 0) {
        return "it belongs to another workspace";
    }
    if (strcmp(header->python, sessions->keeping.python) != 0) {
        return "it was made by another version of Python";
    }
    return header->cell == 0 || header->cell > INT32_MAX ? "its file is damaged" : NULL;
}

static const char declined[] = "`reset` declined it";

void session_kept_decline(struct session *session)
{
    if (session->kept.back == BACK_READING || session->kept.back == BACK_DUE) {
        refuse(session, &session->kept.reading->header, declined);
    }
}

static void read_on(void *arg)
{
    struct session *session = arg;
    struct kept *kept = &session->kept;
    int r = keep_reader_step(&kept->reading->reader, &kept->reading->header);
    if (r > 0) {
        loop_timer_in(session->owner->loop, &kept->reading->timer, 0, read_on, session);
        return;
    }
    drop_fd(&kept->reading->fd);
    (void)fcntl(kept->reading->copy_fd, F_ADD_SEALS,
                F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
    kept->back = BACK_DUE;
    if (r < 0) {
        refuse(session, &kept->reading->header,
               r == -EBADMSG ? "its file is damaged" : strerror(-r));
    }
    session_pump(session);
}

static void consider(struct session *session)
{
    struct kept *kept = &session->kept;
    struct keeping *keeping = &session->owner->keeping;
    char name[KEEP_NAME_BYTES];
    char stem[KEEP_STEM_BYTES];
    struct fail fail = {};
    kept->back = BACK_OVER;
    if (!is_here(keeping)) {
        return;
    }
    struct reading *reading = calloc(1, sizeof *reading);
    if (!reading) {
        return;
    }
    kept->reading = reading;
    reading->copy_fd = -1;
    reading->fd = keep_open(keeping->dir_fd, keep_name(stem_of(session, stem), KEEP_LAST, name),
                            &reading->header, &fail);
    if (reading->fd == -ENOENT) {
        session_kept_done(session);
        return;
    }
    const char *why = reading->fd < 0 ? NULL : foreign(session, &reading->header);
    if (reading->fd < 0 || why) {
        refuse(session, why ? &reading->header : NULL, why ? why : fail_text(&fail));
        return;
    }
    const struct run *run = session->current;
    if (run && (run->request.reset || run->was_reset)) {
        refuse(session, &reading->header, declined);
        return;
    }
    reading->copy_fd = memfd_create("sandpiper-kept", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (reading->copy_fd < 0) {
        refuse(session, &reading->header, strerror(errno));
        return;
    }
    kept->back = BACK_READING;
    keep_reader_begin(&reading->reader, reading->fd, reading->copy_fd, &reading->header);
    loop_timer_in(session->owner->loop, &reading->timer, 0, read_on, session);
}

void session_kept_ask(struct session *session)
{
    struct sessions *sessions = session->owner;
    struct keeping *keeping = &sessions->keeping;
    if (session->kept.back != BACK_UNASKED || session->transient) {
        return;
    }
    session->kept.back = keeping->lock == KEEPING_OFF ? BACK_OVER : BACK_WAITING;
    if (session->kept.back == BACK_OVER) {
        return;
    }
    if (is_here(keeping)) {
        consider(session);
    } else if (!keeping->lock_timer.loop) {
        keeping->lock_until_ns = clock_now_ns() + LOCK_MS * CLOCK_NS_PER_MS;
        loop_timer_in(sessions->loop, &keeping->lock_timer, 0, take_lock, sessions);
    }
}

bool session_kept_is_due(const struct session *session)
{
    return session->kept.back != BACK_OVER && session->kept.back != BACK_UNASKED;
}

void session_kept_done(struct session *session)
{
    struct reading *reading = session->kept.reading;
    if (reading) {
        loop_timer_disarm(&reading->timer);
        own_close(&reading->fd);
        own_close(&reading->copy_fd);
        free(reading);
        session->kept.reading = NULL;
    }
}

void session_kept_later(struct session *session)
{
    if (session->kept.back == BACK_DUE) {
        session_kept_done(session);
        session->kept.back = BACK_UNASKED;
    }
}

static void load_late(void *arg)
{
    struct session *session = arg;
    session_enter(session, SESSION_FAILOVER);
    box_session_kill(session->guest);
    session_pump(session);
}

void session_kept_load(struct session *session)
{
    struct reading *reading = session->kept.reading;
    OWNED(buf_done) struct buf layers = BUF_EMPTY;
    struct box_fields fields = {.at = {{"back", 4}}, .count = 1};
    box_fields_add_number(&fields, "cell", reading->header.cell);
    box_fields_add_number(&fields, "name_ms", NAME_MS);
    box_fields_add_number(&fields, "all_ms", LOAD_MS);
    box_fields_add_number(&fields, "careful", session->kept.tries); /* it has failed before */
    session_packages_fields(session, &layers, &fields);
    session->kept.back = BACK_LOADING;
    session->kept.tries++;
    session_enter(session, SESSION_LOADING);
    loop_timer_in(session->owner->loop, &session->timer, LOAD_MS + LOAD_GRACE_MS, load_late,
                  session);
    if (session->current) {
        (void)snprintf(session->current->doing, sizeof session->current->doing,
                       "loading the session");
    }
    if (lseek(reading->copy_fd, 0, SEEK_SET) < 0 ||
        box_session_send_file(session->guest, &fields, reading->copy_fd) < 0) {
        load_late(session);
    }
}

/* The interpreter has ended while it loaded. */
void session_kept_failed(struct session *session)
{
    struct kept *kept = &session->kept;
    kept->back = BACK_DUE;
    if (kept->tries == LOAD_TRIES) {
        refuse(session, &kept->reading->header,
               "loading it ended the interpreter, or took too long, twice");
    }
}

/* One name that is not back, as the guest says it: hostile text. */
struct missing {
    struct box_field name;
    struct box_field type;
    struct box_field reason;
    struct box_field cell;
    struct box_field line;
};

static void append_missing(struct buf *text, const struct missing *at)
{
    char quoted[SOURCE_BYTES + 8];
    char digits[16];
    uint64_t cell = 0;
    (void)word_append(text, at->name.data, at->name.size);
    (void)buf_append_text(text, " (");
    const struct box_field *what = at->type.size > 0 ? &at->type : &at->reason;
    (void)word_append(text, what->data, what->size);
    if (at->type.size > 0 && at->reason.size > 0) {
        (void)buf_append_text(text, ", ");
        (void)word_append(text, at->reason.data, at->reason.size);
    }
    (void)snprintf(digits, sizeof digits, "%.*s", (int)(at->cell.size % sizeof digits),
                   at->cell.data);
    if (parse_u64(digits, &cell) == 0) {
        (void)buf_appendf(text, ", from <cell %llu>", (unsigned long long)cell);
    }
    if (at->line.size > 0) {
        (void)buf_appendf(text, ": %s",
                          word_quote(at->line.data, at->line.size, quoted, sizeof quoted));
    }
    (void)buf_append_text(text, ")");
}

static bool next_missing(const struct box_message *message, size_t *at, struct missing *ret)
{
    size_t i = *at;
    while (i + 1 < message->count && !box_field_is(&message->fields[i], "not_back")) {
        i += 2;
    }
    if (i + 1 >= message->count) {
        return false;
    }
    *ret = (struct missing){.name = message->fields[i + 1]};
    for (i += 2; i + 1 < message->count && !box_field_is(&message->fields[i], "not_back"); i += 2) {
        const struct box_field *key = &message->fields[i];
        struct box_field *into = box_field_is(key, "type")     ? &ret->type
                                 : box_field_is(key, "reason") ? &ret->reason
                                 : box_field_is(key, "cell")   ? &ret->cell
                                 : box_field_is(key, "line")   ? &ret->line
                                                               : NULL;
        if (into) {
            *into = message->fields[i + 1];
        }
    }
    *at = i;
    return true;
}

static void no_file(void *, const char *, uint64_t)
{
}

/* Appends ", and 290 more in /tmp/output/back-1.txt": there all are, one a line. */
static void append_more(struct session *session, const struct buf *all, unsigned more,
                        struct buf *line)
{
    char path[OVERFLOW_PATH_BYTES];
    struct overflow *file = overflow_begin(&session->owner->overflows, "back", 0, all, NULL, NULL);
    (void)buf_appendf(line, "%s%u more", buf_size(line) ? " and " : "", more);
    if (file && overflow_path(file, path)) {
        (void)buf_appendf(line, " in %s", path);
    }
    overflow_finish(file, no_file, NULL);
}

/* Appends what is not back. Returns whether anything is. */
static bool append_all_missing(struct session *session, const struct box_message *message,
                               struct buf *line)
{
    OWNED(buf_done) struct buf all = BUF_EMPTY;
    OWNED(buf_done) struct buf shown = BUF_EMPTY;
    struct missing missing;
    unsigned count = (unsigned)box_message_number(message, "not_back_more", 0) % INT32_MAX;
    unsigned named = 0;
    for (size_t at = 1; next_missing(message, &at, &missing); count++) {
        OWNED(buf_done) struct buf one = BUF_EMPTY;
        append_missing(&one, &missing);
        if (named == count && named < LINE_NAMES &&
            buf_size(&shown) + buf_size(&one) < LINE_BYTES) {
            (void)buf_appendf(&shown, "%s%s", named > 0 ? ", " : "", buf_text(&one));
            named++;
        }
        (void)buf_appendf(&all, "%s\n", buf_text(&one));
    }
    if (count > named) {
        append_more(session, &all, count - named, &shown);
    }
    if (count > 0) {
        (void)buf_appendf(line, " | not back: %s", buf_text(&shown));
    }
    return count > 0;
}

static void append_rest(struct session *session, const struct box_message *message,
                        const struct keep_header *header, struct buf *line)
{
    struct box_field word;
    if (header->job > 0) {
        (void)buf_appendf(line, " | job %llu (<cell %llu>) did not end",
                          (unsigned long long)header->job, (unsigned long long)header->job_cell);
    }
    if (header->named > 0) {
        (void)buf_appendf(line, " | %llu named state%s gone", (unsigned long long)header->named,
                          header->named == 1 ? " is" : "s are");
    }
    if (!server_box_spec(session->owner->server_box)->workspace) {
        (void)buf_append_text(line, " | the files of the workspace in memory are gone");
    }
    if (box_message_number(message, "settings", 0) > 0) {
        (void)buf_append_text(line, " | settings of modules are as new");
    }
    if (box_message_get(message, "cwd", &word) && word.size > 0) {
        (void)buf_append_text(line, " | the current directory is gone: ");
        (void)word_append(line, word.data, word.size);
    }
}

static void add_record(const struct session *session, const struct keep_header *header)
{
    struct run *run = session->current;
    if (run && run->recording.record) {
        record_add(run->recording.record, "back",
                   json_pack("{s:s, s:s, s:I}", "session", session->name, "sha256", header->sha256,
                             "cell", (json_int_t)header->cell));
    }
}

void session_kept_loaded(struct session *session, const struct box_message *message)
{
    struct kept *kept = &session->kept;
    const struct keep_header *header = &kept->reading->header;
    struct history *history = &session->history;
    char at[32];
    unsigned names = (unsigned)box_message_number(message, "names", 0);
    unsigned imports = (unsigned)box_message_number(message, "imports", 0);
    session->cell = (unsigned)header->cell;
    *history = (struct history){.now = {.cell = session->cell, .files = history->now.files}};
    for (size_t i = 1; i + 1 < message->count; i += 2) {
        if (box_field_is(&message->fields[i], "var")) {
            names_change(&history->now.names, message->fields[i + 1].data,
                         message->fields[i + 1].size, session->cell);
        }
    }
    box_session_await_checkpoint(session->guest, session->cell);
    session_keep(session);
    (void)buf_appendf(&kept->line, "%ssession of %s is back: %u name%s, %u import%s",
                      buf_size(&kept->line) ? " | " : "", keep_time(header->time_s, at), names,
                      names == 1 ? "" : "s", imports, imports == 1 ? "" : "s");
    bool misses = append_all_missing(session, message, &kept->line);
    kept->aside = misses || box_message_number(message, "torn", 0) > 0;
    append_rest(session, message, header, &kept->line);
    add_record(session, header);
    kept->back = BACK_OVER;
    kept->saved_ns = clock_now_ns();
    session_kept_done(session);
    session_enter(session, SESSION_IDLE);
}

/* --- saving --- */

struct keep_save {
    struct sessions *sessions;
    uint32_t serial; /* of the session, which may have gone */
    struct run *run; /* NULL: it has ended */
    bool made_way;   /* its copy was killed for the memory */
    struct keep_writer writer;
    struct keep_header header;
    uint64_t began_ns;
    pid_t pid; /* of the process that brings it to the disk; 0: none */
    int pid_fd;
    struct loop_io io;
};

static void save_next(void *arg);

static struct session *session_of(const struct keep_save *save)
{
    return list_find(save->sessions->list, at, at->serial == save->serial);
}

static void save_free(struct keep_save *save)
{
    loop_io_remove(&save->io);
    own_close(&save->pid_fd);
    keep_writer_drop(&save->writer);
    free(save);
}

/* error: 0 or an errno value; why: a sentence in its place, or NULL. */
static void save_end(struct keep_save *save, int error, const char *why)
{
    struct sessions *sessions = save->sessions;
    struct session *session = session_of(save);
    uint64_t now_ns = clock_now_ns();
    if (session) {
        session->kept.took_ns = now_ns - save->began_ns;
        session->kept.saved_ns = now_ns;
        session->kept.aside = session->kept.aside && (error || why);
    }
    sessions->keeping.save = NULL;
    if (session && session->kept.removed) {
        bool changed = session->kept.changed; /* by a call since */
        session_kept_remove(session);
        session->kept.changed = changed;
    } else if (session && !sessions->keeping.is_last && (error ? error != EFBIG : save->made_way)) {
        session->kept.saved_ns += RETRY_MS * CLOCK_NS_PER_MS;
        session->kept.changed = true;
    }
    if (error || why) {
        log_warn("keep", "session %s was not saved: %s", save->header.session,
                 why ? why : strerror(error));
    }
    save_free(save);
    save_next(sessions);
}

static void save_finished(void *arg, uint32_t)
{
    struct keep_save *save = arg;
    int status = 0;
    (void)waitpid(save->pid, &status, 0); /* it has ended */
    save->pid = 0;
    save_end(save, WIFEXITED(status) ? WEXITSTATUS(status) : EIO, NULL);
}

static void save_output(void *arg, unsigned stream, const char *bytes, size_t size)
{
    struct keep_save *save = arg;
    if (stream == BOX_STDOUT) {
        keep_writer_add(&save->writer, bytes, size);
    }
    if (save->writer.error && save->run && !save->run->cancelled) {
        sessions_cancel(save->sessions, save->run);
    }
}

static void save_done(void *arg, struct run *run)
{
    struct keep_save *save = arg;
    struct keeping *keeping = &save->sessions->keeping;
    struct session *session = session_of(save);
    OWNED(buf_done) struct buf how = BUF_EMPTY;
    bool is_whole = run->end.outcome == RUN_OK && session && !session->kept.removed;
    (void)buf_appendf(&how, "its copy: ");
    (void)run_append_outcome(run, &how);
    (void)buf_appendf(&how, "%s%s", run_fact(run, RUN_REFUSAL)[0] ? ": " : "",
                      run_fact(run, RUN_REFUSAL));
    save->run = NULL;
    run_free(run);
    if (save->writer.error || !is_whole) {
        save_end(save, -save->writer.error, save->writer.error ? NULL : buf_text(&how));
        return;
    }
    uint64_t all = 4 * keeping->config.bytes;
    keep_trim(keeping->dir_fd, save->writer.stem,
              all > save->writer.bytes ? all - save->writer.bytes : 0, /* days= */ 0);
    save->writer.aside = session->kept.aside;
    int r = keep_writer_end(&save->writer, &save->header, &save->pid);
    if (r == 0) {
        save->pid_fd = (int)syscall(SYS_pidfd_open, save->pid, 0);
        r = save->pid_fd < 0 ? -errno
                             : loop_io_add(save->sessions->loop, &save->io, save->pid_fd, EPOLLIN,
                                           save_finished, save);
    }
    if (r < 0 && save->pid > 0) {
        (void)kill(save->pid, SIGKILL);
        (void)waitpid(save->pid, NULL, 0);
    }
    if (r < 0) {
        save_end(save, -r, NULL);
    }
}

/* all_ms: at most, for the names of the session. */
static void save_begin(struct session *session, unsigned all_ms)
{
    struct sessions *sessions = session->owner;
    struct keeping *keeping = &sessions->keeping;
    char stem[KEEP_STEM_BYTES];
    struct keep_save *save = calloc(1, sizeof *save);
    struct run *run = save ? run_new("", 0, NULL, 0) : NULL;
    session->kept.changed = false;
    if (!run) {
        free(save);
        return;
    }
    *save =
        (struct keep_save){.sessions = sessions,
                           .serial = session->serial,
                           .run = run,
                           .began_ns = clock_now_ns(),
                           .pid_fd = -1,
                           .header = {.time_s = session->kept.called_s,
                                      .cell = session->cell,
                                      .named = session->history.named_count,
                                      .job = session->current ? session->current->job : 0,
                                      .job_cell = session->current ? session->current->cell : 0}};
    (void)snprintf(save->header.session, KEEP_SESSION_BYTES, "%s", session->name);
    (void)snprintf(save->header.python, sizeof save->header.python, "%s", keeping->python);
    (void)snprintf(save->header.workspace, PATH_MAX, "%s", workspace_of(sessions));
    keeping->save = save;
    run->request.branch = true;
    run->request.timeout_ms = all_ms + NAME_MS;
    run->keep_ms = all_ms;
    run->on_output = save_output;
    run->on_done = save_done;
    run->arg = save;
    int r = keep_writer_begin(&save->writer, keeping->dir_fd, stem_of(session, stem),
                              keeping->config.bytes);
    r = r ? r : sessions_run(sessions, session->name, run);
    if (r < 0) {
        run_free(run);
        save->run = NULL;
        save_end(save, -r, NULL);
    }
}

void session_kept_send(struct session *session)
{
    struct run *run = session->current;
    struct box_fields fields = {.at = {{"keep", 4}}, .count = 1};
    run->cell = ++session->cell;
    run->sent++;
    box_fields_add_number(&fields, "cell", run->cell);
    box_fields_add_number(&fields, "name_ms", run->keep_ms < NAME_MS ? run->keep_ms : NAME_MS);
    box_fields_add_number(&fields, "all_ms", run->keep_ms);
    box_fields_add_number(&fields, "bytes", session->owner->keeping.config.bytes);
    run->started_ns = clock_now_ns();
    session_enter(session, SESSION_RUNNING);
    session_arm_deadline(session);
    session_memory_watch(session);
    if (box_session_send(session->guest, fields.at, fields.count) < 0) {
        session_enter(session, SESSION_FAILOVER);
    }
}

bool sessions_kept_yield(struct sessions *sessions)
{
    struct keep_save *save = sessions->keeping.save;
    struct session *copy =
        list_find(sessions->list, at, save && save->run && at->current == save->run);
    if (!copy || !copy->guest) {
        return false;
    }
    if (!save->made_way) {
        save->made_way = true;
        save->run->cancelled = true;
        box_session_kill(copy->guest);
    }
    return true; /* until it has exited, too */
}

/* When the session is to be saved; 0: it need not be. */
static uint64_t due_ns(const struct session *session)
{
    const struct kept *kept = &session->kept;
    if (!kept->changed || session->transient || kept->back != BACK_OVER) {
        return 0;
    }
    uint64_t quiet_ns = kept->last_ns + QUIET_MS * CLOCK_NS_PER_MS;
    uint64_t longest_ns = kept->first_ns + LONGEST_MS * CLOCK_NS_PER_MS;
    uint64_t least_ns = kept->saved_ns + TIMES_SAVED * kept->took_ns;
    uint64_t due = session->current || quiet_ns > longest_ns ? longest_ns : quiet_ns;
    return due > least_ns ? due : least_ns;
}

/* Whether there is a copy of it. */
static bool is_ready(const struct session *session)
{
    return session->guest && session_checkpoint(session) == BOX_CHECKPOINT_THERE;
}

static void save_next(void *arg)
{
    struct sessions *sessions = arg;
    struct keeping *keeping = &sessions->keeping;
    uint64_t now_ns = clock_now_ns();
    uint64_t next_ns = 0;
    if (keeping->save || !is_here(keeping) || keeping->is_last) {
        return;
    }
    for (struct session *at = sessions->list; at; at = at->next) {
        uint64_t due = due_ns(at);
        if (due && due <= now_ns && is_ready(at)) {
            save_begin(at, SAVE_MS);
            return;
        } else if (due && due <= now_ns && at->state == SESSION_IDLE &&
                   session_checkpoint(at) == BOX_CHECKPOINT_NONE) {
            at->kept.changed = false;
            session_tell(at, "session not kept: too large for a copy");
        } else if (due) {
            due = due <= now_ns ? now_ns + AGAIN_MS * CLOCK_NS_PER_MS : due;
            next_ns = next_ns == 0 || due < next_ns ? due : next_ns;
        }
    }
    if (next_ns) {
        loop_timer_arm(sessions->loop, &keeping->timer, next_ns, save_next, sessions);
    }
}

void session_kept_change(struct session *session)
{
    struct keeping *keeping = &session->owner->keeping;
    struct kept *kept = &session->kept;
    if (!is_here(keeping) || session->transient) {
        return;
    }
    kept->last_ns = clock_now_ns();
    kept->called_s = (uint64_t)time(NULL);
    kept->first_ns = kept->changed ? kept->first_ns : kept->last_ns;
    kept->changed = session->history.now.cell > 0;
    if (!keeping->timer.loop && !keeping->save) {
        loop_timer_in(session->owner->loop, &keeping->timer, QUIET_MS, save_next, session->owner);
    }
}

void session_kept_remove(struct session *session)
{
    struct keeping *keeping = &session->owner->keeping;
    struct kept *kept = &session->kept;
    char stem[KEEP_STEM_BYTES];
    kept->changed = false;
    kept->removed = keeping->save && keeping->save->serial == session->serial; /* later */
    if (is_here(keeping) && !session->transient && !kept->removed) {
        (void)keep_remove(keeping->dir_fd, stem_of(session, stem), kept->aside);
        kept->aside = false;
    }
}

void sessions_save_last(struct sessions *sessions, unsigned most_ms)
{
    struct keeping *keeping = &sessions->keeping;
    uint64_t end_ns = clock_now_ns() + most_ms * CLOCK_NS_PER_MS;
    uint64_t now_ns = 0;
    keeping->is_last = true;
    while (is_here(keeping) && (now_ns = clock_now_ns()) < end_ns) {
        struct session *next = list_find(sessions->list, at, due_ns(at) > 0);
        if (!keeping->save && !next) {
            break;
        }
        unsigned left_ms = (unsigned)((end_ns - now_ns) / CLOCK_NS_PER_MS) + 1;
        if (!keeping->save && is_ready(next)) {
            save_begin(next, left_ms < SAVE_LAST_MS ? left_ms : SAVE_LAST_MS);
        } else if (!keeping->save && session_checkpoint(next) != BOX_CHECKPOINT_AWAITED) {
            next->kept.changed = false; /* there is no copy */
        } else if (loop_step(sessions->loop, (int)left_ms) < 0) {
            break;
        }
    }
}

void sessions_keep_done(struct sessions *sessions)
{
    struct keeping *keeping = &sessions->keeping;
    if (keeping->save) {
        if (keeping->save->pid > 0) {
            (void)kill(keeping->save->pid, SIGKILL);
            (void)waitpid(keeping->save->pid, NULL, WNOHANG);
        }
        save_free(keeping->save);
    }
    loop_timer_disarm(&keeping->timer);
    loop_timer_disarm(&keeping->lock_timer);
    own_close(&keeping->dir_fd);
}
