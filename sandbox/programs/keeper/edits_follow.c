/* What inotify reports of edits, and what has become of them: see edits.h. */
#include <dirent.h>
#include <fcntl.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/list.h"
#include "base/own.h"
#include "base/path.h"
#include "sandbox/programs/keeper/edits.h"

enum {
    EVENTS = IN_OPEN | IN_CLOSE | IN_CREATE | IN_DELETE | IN_MOVE | IN_ATTRIB,
    DIRECTORIES = 2000, /* watched: they count for the user outside, and code chooses how many */
    READS = 256,        /* more than a queue holds, inotify(7): code can fill it as fast */
};

/* --- the active edits, by what inotify reports --- */

static struct edit **bucket_of(struct keeper *keeper, int watch, const char *name)
{
    return &keeper->edits.active[(table_hash(name) + (uint32_t)watch) % KEEPER_KNOWN];
}

void edit_activate(struct keeper *keeper, struct edit *edit)
{
    struct edit **bucket = bucket_of(keeper, edit->watch, path_last(edit_place(edit)));
    edit->next = *bucket;
    *bucket = edit;
    edit->active = true;
}

void edit_deactivate(struct keeper *keeper, struct edit *edit)
{
    if (edit->active) {
        list_remove(bucket_of(keeper, edit->watch, path_last(edit_place(edit))), edit);
        edit->active = false;
    }
}

struct edit *edit_next_at(struct keeper *keeper, const struct edit *after, int watch,
                          const char *name)
{
    struct edit *edit = after ? after->next : *bucket_of(keeper, watch, name);
    while (edit && (edit->watch != watch || strcmp(path_last(edit_place(edit)), name) != 0)) {
        edit = edit->next;
    }
    return edit;
}

/* What an edit has led to is known once it has ended: its directory needs no watch then. */
static void drop_watches(struct keeper *keeper)
{
    int first = keeper->edits.first;
    defer_free bool *used = calloc((size_t)(keeper->edits.last - first) + 1, sizeof *used);
    edits_follow(keeper);
    for (size_t i = 0; used && i < KEEPER_KNOWN; i++) {
        struct edit *next = NULL;
        for (struct edit *edit = keeper->edits.active[i]; edit; edit = next) {
            next = edit->next;
            if (edit->ended && edit->opens <= edit->closes) {
                edit_resolve(keeper, edit);
            } else if (edit->watch >= first) {
                used[edit->watch - first] = true;
            }
        }
    }
    keeper->edits.watches = 0;
    keeper->edits.first = keeper->edits.last + 1;
    for (int watch = keeper->edits.last; used && watch >= first; watch--) {
        if (used[watch - first]) {
            keeper->edits.watches++;
            keeper->edits.first = watch;
        } else {
            (void)inotify_rm_watch(keeper->edits.fd, watch);
        }
    }
}

int edits_watch(struct keeper *keeper, const char *path, uint64_t *ret_inode)
{
    struct stat st;
    typeof(keeper->edits.near) *near = &keeper->edits.near;
    const char *name = path_last(path);
    size_t size = (size_t)(name - path);
    if (near->known && strncmp(near->parent, path, size) == 0 && !near->parent[size]) {
        *ret_inode = near->inode;
        return near->watch;
    }
    if (keeper->edits.watches >= DIRECTORIES) {
        drop_watches(keeper);
    }
    defer_close int fd = place_parent(keeper->work_fd, path, &name);
    /* By the descriptor, which no change of names leads elsewhere. */
    bool there =
        keeper->edits.fd >= 0 && fd >= 0 && keeper->edits.watches < DIRECTORIES && fchdir(fd) == 0;
    int watch = there ? inotify_add_watch(keeper->edits.fd, ".", EVENTS) : -1;
    if (watch > keeper->edits.last) { /* a new one: their numbers rise */
        keeper->edits.last = watch;
        keeper->edits.watches++;
    }
    (void)fchdir(keeper->work_fd); /* a directory that is removed would stay */
    *ret_inode = fd >= 0 && fstat(fd, &st) == 0 ? st.st_ino : 0;
    near->known = snprintf(near->parent, sizeof near->parent, "%.*s", (int)size, path) == (int)size;
    near->watch = watch;
    near->inode = *ret_inode;
    return watch;
}

struct edit *edit_latest(struct keeper *keeper, const struct state *state, const char *path)
{
    uint64_t inode = 0;
    int watch = edits_watch(keeper, path, &inode);
    struct edit *edit = NULL;
    while ((edit = edit_next_at(keeper, edit, watch, path_last(path))) &&
           edit->state != state->id) {
    }
    return edit;
}

/* --- what has become of an edit --- */

/* What is where the edit ends. Where the user has put another directory in the place of that which
 * is watched, nothing is known of what is there. */
static struct apply_facts facts_of(const struct keeper *keeper, struct edit *edit)
{
    const char *name = NULL;
    struct stat st;
    defer_close int fd = place_parent(keeper->work_fd, edit_place(edit), &name);
    edit->unsure = edit->unsure || fd < 0 || fstat(fd, &st) < 0 || st.st_ino != edit->parent;
    return fd < 0 ? (struct apply_facts){} : apply_facts_in(fd, name);
}

/* Whether the facts are what the edit leads to. */
static bool is_expected(const struct keeper *keeper, const struct edit *edit,
                        const struct apply_facts *facts)
{
    if (edit->inode &&
        (facts->inode != edit->inode ||
         (edit->writes && !edit->resets && (facts->mode & ACCESSPERMS) != edit->mode))) {
        return false; /* the user has put another file in its place, or changed the mode */
    }
    if (edit->moves) {
        bool same = S_ISDIR(facts->mode) ? facts->inode == edit->to->facts.inode
                                         : apply_facts_equal_moved(facts, &edit->to->facts);
        return facts->mode && same && place_facts(keeper->work_fd, edit->path).mode == 0;
    }
    return edit->to->kind == KIND_OTHER ? facts->mode != 0
                                        : edit->to->kind == kind_of_mode(facts->mode);
}

static bool edit_is_rewritten(const struct keeper *keeper, const struct edit *edit,
                              const struct apply_facts *facts);

static void see(struct keeper *keeper, struct edit *edit, const struct apply_facts *facts)
{
    bool is_new = !edit->moves && !edit->ended && edit->to->kind != KIND_NONE;
    edit->ended = true;
    if (edit->writes && edit->from->kind == KIND_FILE && edit->to != edit->from &&
        apply_facts_equal(facts, &edit->from->facts) && !edit_is_rewritten(keeper, edit, facts)) {
        version_set(keeper, &edit->to, edit->from); /* it leads from one version to the same */
        return;
    }
    if (edit->to == edit->from && !apply_facts_equal(facts, &edit->from->facts)) {
        struct version *version = version_of(facts);
        edit->unsure = edit->unsure || !version;
        if (version) {
            version_release(keeper, &edit->to);
            edit->to = version;
        }
    }
    if (is_new) {
        version_describe(edit->to, facts); /* an undo makes a copy */
    }
    version_seen_as(keeper, edit->to, facts);
}

/* Removing one name of a file changes the times of the file, which has others: sees them again.
 * False: it has none where the edit ends. */
static bool edit_see_shared(struct keeper *keeper, struct edit *edit)
{
    struct apply_facts facts = !edit->unsure && edit->to->kind == KIND_FILE
                                   ? place_facts(keeper->work_fd, edit_place(edit))
                                   : (struct apply_facts){};
    bool same = facts.mode && apply_facts_equal_moved(&facts, &edit->to->facts);
    if (same) {
        version_seen_as(keeper, edit->to, &facts);
    }
    return same;
}

/* A name of a file was removed that has others, to which also earlier calls may have written. */
static void see_others(struct keeper *keeper, const struct edit *edit)
{
    for (struct state *state = keeper->states; state; state = state->next) {
        for (size_t i = state->edits.count; i-- > 0;) {
            struct edit *other = state->edits.list[i];
            if (other != edit && other->to->facts.inode == edit->file &&
                edit_see_shared(keeper, other)) {
                return; /* most often the one before */
            }
        }
    }
}

const char *edits_other_name(const struct keeper *keeper, const struct edit *edit)
{
    const struct version *version = edit->from;
    if (edit->links < 2 || version->kind != KIND_FILE || version->facts.inode != edit->file) {
        return NULL;
    }
    for (const struct state *state = keeper->states; state; state = state->next) {
        for (size_t i = state->edits.count; i-- > 0;) {
            const struct edit *other = state->edits.list[i];
            struct apply_facts facts = {};
            if (other->to == version && strcmp(edit_place(other), edit_place(edit)) != 0) {
                facts = place_facts(keeper->work_fd, edit_place(other));
            }
            if (facts.mode && version_is_at(version, &facts)) {
                return edit_place(other);
            }
        }
    }
    return NULL;
}

/* Something was reported that may be the edit's end. */
static void check_end(struct keeper *keeper, struct edit *edit)
{
    struct apply_facts facts = facts_of(keeper, edit);
    if (is_expected(keeper, edit, &facts)) {
        see(keeper, edit, &facts);
        if (edit->links > 1 && edit->file && facts.inode != edit->file) {
            see_others(keeper, edit);
        }
    }
}

static void follow_event(struct keeper *keeper, struct edit *edit, uint32_t mask)
{
    if (mask & IN_ATTRIB && edit->resets) {
        edit->mode = facts_of(keeper, edit).mode & ACCESSPERMS;
        edit->resets = false;
    }
    if (mask & edit->awaits) {
        edit->awaits = 0;
        if (!edit->writes) {
            check_end(keeper, edit);
        }
    } else if (mask & (IN_CREATE | IN_DELETE | IN_MOVE)) {
        edit->unsure = true; /* of somebody else: the session would have reported it */
    } else if (!(mask & IN_ISDIR)) {
        edit->opens += (mask & IN_OPEN) != 0;
        edit->opens -= mask & IN_CLOSE_NOWRITE && edit->opens > edit->closes;
        edit->closes += (mask & IN_CLOSE_WRITE) != 0;
        /* What is removed may have been open. */
        edit->unsure = edit->unsure || (edit->closes > edit->touches && !edit->beside &&
                                        edit->to->kind != KIND_NONE);
        if (mask & IN_CLOSE_WRITE && edit->closes == edit->touches) {
            edit->ended = false;
            check_end(keeper, edit);
        }
    }
}

static void all_unsure(struct keeper *keeper)
{
    for (size_t i = 0; i < KEEPER_KNOWN; i++) {
        for (struct edit *edit = keeper->edits.active[i]; edit; edit = edit->next) {
            edit->unsure = true;
        }
    }
}

static void follow_one(struct keeper *keeper, const struct inotify_event *event)
{
    struct edit *edit = NULL;
    while (event->len > 0 && (edit = edit_next_at(keeper, edit, event->wd, event->name))) {
        follow_event(keeper, edit, event->mask);
    }
    if (event->mask & IN_Q_OVERFLOW) {
        all_unsure(keeper);
    }
}

void edits_follow(struct keeper *keeper)
{
    alignas(struct inotify_event) char events[16384];
    ssize_t size = keeper->edits.fd >= 0 ? 1 : 0;
    keeper->edits.near.known = false; /* another touch begins */
    for (unsigned i = 0; i < READS && size > 0; i++) {
        const struct inotify_event *event = NULL;
        size = read(keeper->edits.fd, events, sizeof events);
        for (ssize_t at = 0; at < size; at += (ssize_t)(sizeof *event + event->len)) {
            event = (const void *)(events + at);
            follow_one(keeper, event);
        }
    }
    if (size > 0) {
        all_unsure(keeper);
    }
}

/* Whether somebody can write to it. */
static bool edit_is_open(const struct keeper *keeper, const struct edit *edit)
{
    return place_is_written(keeper, edit_place(edit)) == 1;
}

/* Whether it is not certain that a file is closed: somebody can write to it, or it was opened more
 * often than closed and nobody has it open, so that inotify has made one event of several. */
static bool is_unclear(const struct keeper *keeper, const struct edit *edit)
{
    defer_close int fd =
        fd_open_beneath(keeper->work_fd, edit_place(edit), O_RDONLY | O_NONBLOCK | O_NOCTTY);
    return fd < 0 || fd_is_written(fd) != 0 || (edit->opens > edit->closes && fd_is_open(fd) != 1);
}

/* Whether what is still open has other content with the same facts: a mapping leaves times as they
 * are, mmap(2). Of what was too large to copy nobody knows. */
static bool edit_is_rewritten(const struct keeper *keeper, const struct edit *edit,
                              const struct apply_facts *facts)
{
    return edit->held && edit->from->kept && apply_facts_alike(facts, &edit->from->facts) &&
           !place_has_content(keeper, edit_place(edit), facts, edit->from);
}

/* Whether nothing has changed at all: the call of the system failed. */
bool edit_is_void(const struct keeper *keeper, const struct edit *edit,
                  const struct apply_facts *facts)
{
    if (edit->moves) {
        struct apply_facts source = place_facts(keeper->work_fd, edit->path);
        return source.mode && source.inode == edit->to->facts.inode;
    }
    bool was_none = edit->from->kind == KIND_NONE;
    return was_none ? facts->mode == 0
                    : apply_facts_alike(facts, &edit->from->facts) &&
                          !edit_is_rewritten(keeper, edit, facts);
}

/* Whether what was touched has not been done yet, as far as is reported; */
static bool edit_is_awaited(const struct edit *edit)
{
    return edit->writes ? edit->opens < edit->touches : !edit->ended;
}

/* and a thread may be about to do it. */
static bool edit_is_coming(const struct keeper *keeper, const struct edit *edit)
{
    enum { THREADS = sizeof keeper->edits.threads / sizeof *keeper->edits.threads };
    bool awaited = edit_is_awaited(edit);
    bool coming = awaited && toucher_is_coming(keeper, &edit->by);
    for (unsigned i = 0; awaited && edit->touches > 1 && i < THREADS && !coming; i++) {
        typeof(*keeper->edits.threads) *at = &keeper->edits.threads[i];
        coming =
            at->place && strcmp(at->place, edit->path) == 0 && toucher_is_coming(keeper, &at->by);
    }
    return coming;
}

bool toucher_is_coming(const struct keeper *keeper, const struct toucher *toucher)
{
    char path[32];
    char text[512] = "";
    if (!toucher->thread) {
        return false;
    }
    if (__atomic_load_n(&keeper->edits.answers[toucher->number], __ATOMIC_ACQUIRE) ==
        toucher->answers) {
        return true; /* the call still waits for init */
    }
    (void)snprintf(path, sizeof path, "/proc/%u/stat", (unsigned)toucher->thread);
    bool known = fd_read_text_at(AT_FDCWD, path, text, sizeof text) > 0;
    const char *state = known ? strrchr(text, ')') : NULL;
    /* While it is in its call, it runs or waits as for a disk, proc(5). */
    return state && (strncmp(state, ") R", 3) == 0 || strncmp(state, ") D", 3) == 0);
}

/* Openings only to read that code has of a file, at different places in it. */
struct readers {
    uint64_t inode;
    uint64_t places[8];
    unsigned count;
};

static void add_reader(struct readers *readers, const char *info)
{
    char text[128] = "";
    unsigned long long place = 0;
    unsigned flags = O_PATH;
    (void)fd_read_text_at(AT_FDCWD, info, text, sizeof text);
    (void)sscanf(text, "pos: %llu flags: %o", &place, &flags);
    bool known = (flags & (O_PATH | O_ACCMODE)) != O_RDONLY;
    for (unsigned i = 0; i < readers->count; i++) {
        known = known || readers->places[i] == place; /* by a fork, or a duplicate */
    }
    if (!known && readers->count < sizeof readers->places / sizeof *readers->places) {
        readers->places[readers->count++] = place;
    }
}

static void add_readers_of(struct readers *readers, const char *pid)
{
    char path[64];
    struct stat st;
    (void)snprintf(path, sizeof path, "/proc/%.20s/fd", pid);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    defer_closedir DIR *fds = fd_directory(fd);
    for (const char *name = NULL; (name = fd_next_name(fds));) {
        if (fstatat(fd, name, &st, 0) == 0 && st.st_ino == readers->inode) {
            (void)snprintf(path, sizeof path, "/proc/%.20s/fdinfo/%.20s", pid, name);
            add_reader(readers, path);
        }
    }
}

static unsigned count_readers(const struct apply_facts *facts)
{
    struct readers readers = {.inode = facts->inode};
    defer_closedir DIR *processes = fd_directory(open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    for (const char *pid = NULL; (pid = fd_next_name(processes));) {
        if (*pid >= '1' && *pid <= '9') {
            add_readers_of(&readers, pid);
        }
    }
    return readers.count;
}

/* Whether somebody else than code may have the file open. */
static bool has_unrelated(const struct edit *edit, const struct apply_facts *facts)
{
    return edit->opens > edit->touches && edit->opens - edit->touches > count_readers(facts);
}

/* Whether code has the file open, and nobody else: it can change it after its call. Then notes what
 * it is now. */
static bool edit_goes_on_open(struct keeper *keeper, struct edit *edit)
{
    struct apply_facts facts = facts_of(keeper, edit);
    if (!keeper->seen || !edit->writes || edit->unsure || has_unrelated(edit, &facts) ||
        !is_expected(keeper, edit, &facts) || !edit_is_open(keeper, edit)) {
        return false;
    }
    see(keeper, edit, &facts);
    edit->held = true;
    return true;
}

/* The call has ended, or goes on with something else at the same name. */
void edit_resolve(struct keeper *keeper, struct edit *edit)
{
    struct apply_facts facts = facts_of(keeper, edit);
    edit_deactivate(keeper, edit);
    if ((!edit->ended || edit->held) && edit_is_void(keeper, edit, &facts)) {
        edit->nothing = true;
        return;
    }
    bool reported = edit->awaits & ~(uint32_t)IN_ATTRIB; /* of truncate(2) it is not */
    if (!edit->ended && !edit->writes && !reported && is_expected(keeper, edit, &facts)) {
        see(keeper, edit, &facts);
    }
    bool open = edit->writes && S_ISREG(facts.mode) && is_unclear(keeper, edit);
    edit->unsure = edit->unsure || edit->contested || (keeper->seen && has_unrelated(edit, &facts));
    if (open && edit_goes_on_open(keeper, edit)) {
        const struct state *state = states_find(keeper, edit->state);
        open = !state || !edits_hold(keeper, edit_place(edit), state->owner, /* shared= */ false);
    }
    /* Of several openings or closings at once inotify makes one. */
    bool again = edit->ended && !edit->held && edit->closes < edit->touches;
    if (keeper->seen && edit->writes && (!edit->ended || again) && !open &&
        is_expected(keeper, edit, &facts)) {
        edit->ended = false;
        see(keeper, edit, &facts);
    }
    edit->unsure =
        edit->unsure || edit->watch < 0 || !edit->ended || open || !version_is_at(edit->to, &facts);
    if (edit->unsure && !edit->moves && !edit->ended && edit->to->kind == KIND_FILE) {
        version_describe(edit->to, &facts); /* for the row of the status line */
    }
}

/* No directory is watched any more, unless a call runs. */
static void edits_forget_watches(struct keeper *keeper)
{
    for (size_t i = 0; i < KEEPER_KNOWN; i++) {
        if (keeper->edits.active[i]) {
            return; /* of a call that runs */
        }
    }
    own_close(&keeper->edits.fd);
    keeper->edits.fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    keeper->edits.first = 1;
    keeper->edits.last = 0;
    keeper->edits.watches = 0;
}

/* --- the end of a call: what has become of its edits --- */

/* What the edit has replaced or removed is lost if there is no copy. What was written to in place
 * may be there for the most part: only what this session has made may hold the rest. What code has
 * made itself may hold what was lost before. */
static void lose_unkept(struct keeper *keeper, struct state *state, const struct edit *edit)
{
    const struct version *from = edit->from;
    const struct apply_facts *facts = &edit->to->facts;
    bool in_place = edit->writes && facts->inode == from->facts.inode;
    bool changes = edit->moves || edit->to->kind != KIND_FILE || !in_place ||
                   facts->mtime_ns != from->facts.mtime_ns || facts->bytes != from->bytes;
    if (from->kind != KIND_FILE || from->bytes == 0 || from->kept || !changes ||
        (edit->to->kind == KIND_FILE && !edit->writes && !edit->mixed && !edit->moves) ||
        (keeper->edits.lost_ns == 0 && edits_have_made(keeper, from))) {
        return;
    }
    if (in_place && edit->to->bytes >= from->bytes) {
        state->lost = true;
    } else {
        edits_lose(keeper);
    }
}

/* What came has gone again. */
static bool is_for_nothing(const struct edit *edit)
{
    return !edit->unsure && !edit->moves && edit->from->kind == KIND_NONE &&
           edit->to->kind == KIND_NONE;
}

/* A file that the call has made under another name, and nobody knew it: its content came to where
 * it is. So what passed by the same temporary name has nothing to do with it. */
static bool has_made_under(const struct edit *made, const struct edit *move)
{
    return !made->moves && !made->active && !made->unsure && !made->held && !made->linked &&
           !made->shares && made->from->kind == KIND_NONE && made->to == move->to;
}

/* The edit before, which ends at the path: where the list has it, or NULL. */
static struct edit **edit_before(const struct keeper *keeper, const struct edits *edits,
                                 const char *path)
{
    const struct record *record = record_find(keeper, path);
    return record && record->scratch.mark ? &edits->list[record->scratch.mark - 1] : NULL;
}

static void join_move(struct keeper *keeper, const struct edits *edits, struct edit *move)
{
    struct edit **before = edit_before(keeper, edits, move->path);
    struct edit *made = before ? *before : NULL;
    if (!made || move->to->kind != KIND_FILE || move->unsure || move->active ||
        !has_made_under(made, move)) {
        return;
    }
    free(move->path);
    move->path = move->target;
    move->target = NULL;
    move->moves = false;
    move->writes = made->writes;
    move->mixed = true;
    *before = NULL;
    record_find(keeper, made->path)->scratch.mark = 0;
    edit_free(keeper, made);
}

/* Two that follow each other at a name are one. In a directory something else may have happened
 * between them; and other names of the file hold what the first has led to. */
static void join_content(struct keeper *keeper, const struct edits *edits, struct edit *edit)
{
    struct edit **before = edit_before(keeper, edits, edit->path);
    struct edit *first = before ? *before : NULL;
    bool in_place = first && (edit->writes || first->writes) && edit->links > 1;
    if (!first || first->active || edit->active || first->unsure || edit->unsure || first->moves ||
        first->held || first->linked || in_place || first->to != edit->from ||
        (first->to->kind != KIND_FILE && first->to->kind != KIND_LINK)) {
        return;
    }
    version_set(keeper, &edit->from, first->from);
    edit->mixed = true;
    edit->inode = 0;
    *before = NULL;
    edit_free(keeper, first);
}

/* Joins what has become of each file, also of one that was made under another name. */
static void edits_join(struct keeper *keeper, struct edits *edits)
{
    size_t kept = 0;
    for (size_t i = 0; i < edits->count; i++) {
        if (edits->list[i]->moves) {
            join_move(keeper, edits, edits->list[i]);
        }
        if (!edits->list[i]->moves) {
            join_content(keeper, edits, edits->list[i]);
        }
        struct record *record = record_get(keeper, edit_place(edits->list[i]));
        if (record) {
            record->scratch.mark = (unsigned)i + 1;
        }
    }
    for (size_t i = 0; i < edits->count; i++) {
        struct edit *edit = edits->list[i];
        struct record *record = edit ? record_find(keeper, edit_place(edit)) : NULL;
        if (record) {
            record->scratch.mark = 0;
        }
        if (edit && !edit->active && is_for_nothing(edit)) {
            edit_free(keeper, edit);
        } else if (edit) {
            edits->list[kept++] = edit;
        }
    }
    edits->count = kept;
}

void edits_end(struct keeper *keeper, struct state *state, bool finally)
{
    struct edits *edits = &state->edits;
    size_t kept = 0;
    if (edits->count == 0) {
        return;
    }
    edits_follow(keeper);
    for (size_t i = 0; i < edits->count; i++) {
        struct edit *edit = edits->list[i];
        if (edit->active &&
            (finally || (!edit_is_coming(keeper, edit) && !edit_goes_on_open(keeper, edit)))) {
            edit_resolve(keeper, edit);
        }
        state->late = state->late || edit->active;
        if (edit->shares) {
            (void)edit_see_shared(keeper, edit);
        }
        bool shared = keeper->seen && edit->writes && edit->unsure &&
                      S_ISREG(place_facts(keeper->work_fd, edit_place(edit)).mode) &&
                      edit_is_open(keeper, edit);
        if (edit->held) {
            struct apply_facts facts = place_facts(keeper->work_fd, edit_place(edit));
            edit->rewritten = edit_is_rewritten(keeper, edit, &facts);
        }
        if (edit->held || shared) {
            bool space = edits_hold(keeper, edit_place(edit), state->owner, shared);
            state->unseen = state->unseen || !space;
        }
        if (edit->nothing || (!edit->active && is_for_nothing(edit))) {
            edit_free(keeper, edit);
        } else {
            lose_unkept(keeper, state, edit);
            edits->list[kept++] = edit;
        }
    }
    edits->count = kept;
    edits_join(keeper, edits);
    edits_forget_watches(keeper);
}

/* Returns whether it may still come. */
static bool land(struct keeper *keeper, struct edit *edit)
{
    if (!edit->active || !edit_is_awaited(edit)) {
        return false;
    }
    if (!edit_is_coming(keeper, edit)) {
        edits_follow(keeper); /* what it has led to is reported by now */
        if (edit_is_awaited(edit)) {
            edit_resolve(keeper, edit);
        }
    }
    return edit->active && edit_is_awaited(edit);
}

bool edits_land(struct keeper *keeper)
{
    bool more = false;
    for (struct state *state = keeper->states; state; state = state->next) {
        for (size_t i = 0; !state->open && state->late && i < state->edits.count; i++) {
            more = land(keeper, state->edits.list[i]) || more;
        }
    }
    return more;
}

void edits_drop(struct keeper *keeper, struct edits *edits)
{
    for (size_t i = 0; i < edits->count; i++) {
        edit_deactivate(keeper, edits->list[i]);
        edit_free(keeper, edits->list[i]);
    }
    free(edits->list);
    *edits = (struct edits){};
}
