/* What sessions report, and what has become of it: see edits.h. */
#include "sandbox/programs/keeper/edits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"

enum {
    EVENTS = IN_OPEN | IN_CLOSE | IN_CREATE | IN_DELETE | IN_MOVE,
    EDITS = 20000,      /* of a call */
    DIRECTORIES = 2000, /* watched: they count for the user outside, and code chooses how many */
    READS = 256,        /* more than a queue holds, inotify(7): code can fill it as fast */
};

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* --- the active edits, by what inotify reports --- */

static struct edit **bucket_of(struct keeper *keeper, int watch, const char *name)
{
    return &keeper->active[(table_hash(name) + (uint32_t)watch) % KEEPER_KNOWN];
}

static void activate(struct keeper *keeper, struct edit *edit)
{
    struct edit **bucket = bucket_of(keeper, edit->watch, last_part(edit_place(edit)));
    edit->next = *bucket;
    *bucket = edit;
    edit->active = true;
}

static void deactivate(struct keeper *keeper, struct edit *edit)
{
    struct edit **at = bucket_of(keeper, edit->watch, last_part(edit_place(edit)));
    if (!edit->active) {
        return;
    }
    while (*at != edit) {
        at = &(*at)->next;
    }
    *at = edit->next;
    edit->active = false;
}

/* The state's latest edit that ends at the name. */
static struct edit *active_edit(struct keeper *keeper, const struct state *state, int watch,
                                const char *name)
{
    struct edit *edit = *bucket_of(keeper, watch, name);
    while (edit && (edit->state != state->id || edit->watch != watch ||
                    strcmp(last_part(edit_place(edit)), name) != 0)) {
        edit = edit->next;
    }
    return edit;
}

static int watch_directory_of(struct keeper *keeper, const char *path, uint64_t *ret_inode)
{
    struct stat st;
    const char *name = NULL;
    defer_close int fd = place_parent(keeper->work_fd, path, &name);
    /* By the descriptor, which no change of names leads elsewhere. */
    bool there =
        keeper->edits_fd >= 0 && fd >= 0 && keeper->edits_watches < DIRECTORIES && fchdir(fd) == 0;
    int watch = there ? inotify_add_watch(keeper->edits_fd, ".", EVENTS) : -1;
    if (watch > keeper->edits_last) { /* a new one: their numbers rise */
        keeper->edits_last = watch;
        keeper->edits_watches++;
    }
    (void)fchdir(keeper->work_fd); /* a directory that is removed would stay */
    *ret_inode = fd >= 0 && fstat(fd, &st) == 0 ? st.st_ino : 0;
    return watch;
}

static struct edit *latest_edit(struct keeper *keeper, const struct state *state, const char *path)
{
    uint64_t inode = 0;
    int watch = watch_directory_of(keeper, path, &inode);
    return active_edit(keeper, state, watch, last_part(path));
}

/* --- what has become of an edit --- */

static struct apply_facts facts_at(const struct keeper *keeper, const char *path)
{
    struct apply_facts facts;
    (void)place_look(keeper->work_fd, path, &facts, NULL);
    return facts;
}

/* What is where the edit ends. Where the user has put another directory in the place of that which
 * is watched, nothing is known of what is there. */
static struct apply_facts facts_of(const struct keeper *keeper, struct edit *edit)
{
    const char *name = NULL;
    struct stat st;
    defer_close int fd = place_parent(keeper->work_fd, edit_place(edit), &name);
    struct apply_facts facts = {};
    edit->unsure = edit->unsure || fd < 0 || fstat(fd, &st) < 0 || st.st_ino != edit->parent;
    if (fd >= 0 && fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        facts = apply_facts_of(&st);
    }
    return facts;
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
        return facts->mode && same && facts_at(keeper, edit->path).mode == 0;
    }
    return edit->to->kind == KIND_OTHER ? facts->mode != 0
                                        : edit->to->kind == kind_of_mode(facts->mode);
}

static void see(struct keeper *keeper, struct edit *edit, const struct apply_facts *facts)
{
    bool is_new = !edit->moves && !edit->ended && edit->to->kind != KIND_NONE;
    edit->ended = true;
    if (is_new && edit->to->references > 1) { /* of a copy too, which has ended otherwise */
        edit->unsure = true;
        return;
    }
    if (is_new) {
        version_describe(edit->to, facts); /* an undo makes a copy */
    }
    version_seen_as(keeper, edit->to, facts);
}

/* Something was reported that may be the edit's end. */
static void check_end(struct keeper *keeper, struct edit *edit)
{
    struct apply_facts facts = facts_of(keeper, edit);
    if (is_expected(keeper, edit, &facts)) {
        see(keeper, edit, &facts);
    }
}

static void follow_event(struct keeper *keeper, struct edit *edit, uint32_t mask)
{
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
        edit->unsure = edit->unsure || edit->closes > edit->touches;
        if (mask & IN_CLOSE_WRITE && edit->closes == edit->touches) {
            edit->ended = false;
            check_end(keeper, edit);
        }
    }
}

static void all_unsure(struct keeper *keeper)
{
    for (size_t i = 0; i < KEEPER_KNOWN; i++) {
        for (struct edit *edit = keeper->active[i]; edit; edit = edit->next) {
            edit->unsure = true;
        }
    }
}

static void follow_one(struct keeper *keeper, const struct inotify_event *event)
{
    struct edit *edit = event->len > 0 ? *bucket_of(keeper, event->wd, event->name) : NULL;
    for (; edit; edit = edit->next) {
        if (edit->watch == event->wd && strcmp(last_part(edit_place(edit)), event->name) == 0) {
            follow_event(keeper, edit, event->mask);
        }
    }
    if (event->mask & IN_Q_OVERFLOW) {
        all_unsure(keeper);
    }
}

void edits_follow(struct keeper *keeper)
{
    alignas(struct inotify_event) char events[16384];
    ssize_t size = keeper->edits_fd >= 0 ? 1 : 0;
    for (unsigned i = 0; i < READS && size > 0; i++) {
        const struct inotify_event *event = NULL;
        size = read(keeper->edits_fd, events, sizeof events);
        for (ssize_t at = 0; at < size; at += (ssize_t)(sizeof *event + event->len)) {
            event = (const void *)(events + at);
            follow_one(keeper, event);
        }
    }
    if (size > 0) {
        all_unsure(keeper);
    }
}

/* Whether somebody has the file open for writing. */
static bool is_written(const struct keeper *keeper, const char *path)
{
    defer_close int fd = fd_open_beneath(keeper->work_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    return fd < 0 || fd_is_written(fd) != 0;
}

/* Whether it is not certain that a file is closed: somebody can write to it, or it was opened more
 * often than closed and nobody has it open, so that inotify has made one event of several. */
static bool is_unclear(const struct keeper *keeper, const struct edit *edit)
{
    defer_close int fd =
        fd_open_beneath(keeper->work_fd, edit_place(edit), O_RDONLY | O_NONBLOCK | O_NOCTTY);
    return fd < 0 || fd_is_written(fd) != 0 || (edit->opens > edit->closes && fd_is_open(fd) != 1);
}

/* Whether nothing has changed at all: the call of the system failed. */
static bool is_void(const struct keeper *keeper, const struct edit *edit,
                    const struct apply_facts *facts)
{
    if (edit->moves) {
        struct apply_facts source = facts_at(keeper, edit->path);
        return source.mode && source.inode == edit->to->facts.inode;
    }
    bool was_none = edit->from->kind == KIND_NONE;
    return was_none ? facts->mode == 0 : apply_facts_alike(facts, &edit->from->facts);
}

/* The call has ended, or goes on with something else at the same name. */
static void resolve(struct keeper *keeper, struct edit *edit)
{
    struct apply_facts facts = facts_of(keeper, edit);
    deactivate(keeper, edit);
    if (!edit->ended && is_void(keeper, edit, &facts)) {
        edit->nothing = true;
        return;
    }
    if (!edit->ended && !edit->writes && !edit->awaits && is_expected(keeper, edit, &facts)) {
        see(keeper, edit, &facts);
    }
    bool open = edit->writes && S_ISREG(facts.mode) && is_unclear(keeper, edit);
    edit->unsure =
        edit->unsure || edit->watch < 0 || !edit->ended || open || !version_is_at(edit->to, &facts);
}

/* --- what a session reports --- */

void edits_lose(struct keeper *keeper)
{
    struct timespec now = {};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    keeper->lost_ns = now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* An edit before which the facts were at the place that it changes. Owns `to`. */
static struct edit *edit_new(struct keeper *keeper, struct state *state, const char *path,
                             const char *target, const struct apply_facts *facts,
                             struct version *to)
{
    size_t bytes = strlen(path) + (target ? strlen(target) : 0) + 2;
    bool has_space = state->edits.count < EDITS && keeper->name_bytes + bytes <= KEEPER_NAME_BYTES;
    struct edit *edit = has_space && to ? calloc(1, sizeof *edit) : NULL;
    if (!edit) {
        version_release(keeper, &to);
        state->edits.lost = true;
        return NULL;
    }
    edit->to = to;
    edit->state = state->id;
    edit->name_bytes = bytes;
    keeper->name_bytes += bytes;
    edit->path = strdup(path);
    edit->target = target ? strdup(target) : NULL;
    edit->moves = target != NULL;
    edit->watch =
        edit->path ? watch_directory_of(keeper, target ? target : path, &edit->parent) : -1;
    const char *place = target ? target : path;
    edit->from = facts->mode ? version_take(version_known(keeper, facts)) : NULL;
    if (edit->from) {
        place_keep(keeper, place, edit->from);
    } else if ((edit->from = place_read(keeper, keeper->work_fd, place, facts))) {
        version_seen_as(keeper, edit->from, facts);
        edit->from->found_ns = facts->ctime_ns;
    }
    if (!edit->path || (target && !edit->target) || !edit->from ||
        !edits_add(&state->edits, edit)) {
        state->edits.lost = true;
        edit_free(keeper, edit);
        return NULL;
    }
    return edit;
}

/* A directory gets another name: what is in it is still where it was. */
static void resolve_below(struct keeper *keeper, const struct state *state, const char *path)
{
    for (size_t i = 0; i < state->edits.count; i++) {
        struct edit *edit = state->edits.list[i];
        if (apply_path_is_below(edit_place(edit), path) && edit->active) {
            resolve(keeper, edit);
        }
    }
}

static void touch_rename(struct keeper *keeper, struct state *state, const char *path,
                         const char *target)
{
    struct apply_facts source = facts_at(keeper, path);
    struct apply_facts there = facts_at(keeper, target);
    struct edit *before = latest_edit(keeper, state, path);
    if (before) {
        resolve(keeper, before);
    }
    resolve_below(keeper, state, path);
    if (!source.mode || (there.mode && there.inode == source.inode)) {
        return; /* it fails, or does nothing */
    }
    struct version *moved = version_take(version_known(keeper, &source));
    if (!moved && (moved = version_of(&source))) { /* a move needs no copy */
        version_seen_as(keeper, moved, &source);
    }
    struct edit *edit = edit_new(keeper, state, path, target, &there, moved);
    if (!edit) {
        return;
    }
    before = active_edit(keeper, state, edit->watch, last_part(target));
    if (before) {
        resolve(keeper, before);
    }
    edit->awaits = IN_MOVED_TO;
    activate(keeper, edit);
}

static enum kind kind_after(uint32_t op, const struct apply_facts *before)
{
    return op == WIRE_TOUCH_REMOVE      ? KIND_NONE
           : op == WIRE_TOUCH_ATTRIBUTE ? kind_of_mode(before->mode)
           : op == WIRE_TOUCH_WRITE     ? KIND_FILE
                                        : KIND_OTHER; /* whatever comes */
}

/* What inotify reports of it at its name. */
static uint32_t awaits(uint32_t op, const struct apply_facts *before)
{
    switch ((enum wire_touch_op)op) {
    case WIRE_TOUCH_CREATE:
    case WIRE_TOUCH_LINK:
        return IN_CREATE;
    case WIRE_TOUCH_WRITE:
        return before->mode ? 0 : IN_CREATE;
    case WIRE_TOUCH_REMOVE:
        return IN_DELETE | IN_MOVED_FROM;
    case WIRE_TOUCH_BRING:
    case WIRE_TOUCH_RENAME:
        return IN_MOVED_TO;
    case WIRE_TOUCH_OVER:
    case WIRE_TOUCH_ATTRIBUTE:
    default:
        return 0;
    }
}

/* Whether the system will refuse it. */
static bool fails(uint32_t op, const struct apply_facts *facts)
{
    switch ((enum wire_touch_op)op) {
    case WIRE_TOUCH_CREATE:
    case WIRE_TOUCH_LINK:
        return facts->mode != 0;
    case WIRE_TOUCH_REMOVE:
    case WIRE_TOUCH_ATTRIBUTE:
        return facts->mode == 0;
    case WIRE_TOUCH_WRITE:
        return facts->mode != 0 && !S_ISREG(facts->mode);
    case WIRE_TOUCH_BRING:
        return false;
    case WIRE_TOUCH_RENAME:
    case WIRE_TOUCH_OVER:
    default:
        return true;
    }
}

/* The file is opened again: until then it must be what it was when it was closed. */
static bool touch_again(struct edit *edit, const struct apply_facts *facts)
{
    if (!edit || !edit->writes || edit->to->kind != KIND_FILE) {
        return false;
    }
    edit->unsure = edit->unsure || (edit->ended && !apply_facts_alike(facts, &edit->to->facts));
    edit->touches++;
    return true;
}

/* A call writes to a file under two names: what each name held before is what the other has left,
 * and nobody knows which of both was written to last. */
static void doubt_names(const struct state *state, struct edit *edit)
{
    for (size_t i = 0; i < state->edits.count; i++) {
        struct edit *other = state->edits.list[i];
        if (!other->moves && other->inode == edit->inode && strcmp(other->path, edit->path) != 0) {
            other->unsure = edit->unsure = true;
        }
    }
}

static void touch_content(struct keeper *keeper, struct state *state, uint32_t op, const char *path)
{
    struct apply_facts facts;
    unsigned links = 0;
    (void)place_look(keeper->work_fd, path, &facts, &links);
    bool writes = op == WIRE_TOUCH_WRITE;
    struct edit *before = latest_edit(keeper, state, path);
    if (fails(op, &facts) || (writes && touch_again(before, &facts))) {
        return;
    }
    if (op == WIRE_TOUCH_ATTRIBUTE && before && before->writes &&
        before->closes < before->touches) {
        before->resets = true; /* what it was before the opening comes back with the content */
        return;
    }
    if (before) {
        resolve(keeper, before);
    }
    if (op == WIRE_TOUCH_ATTRIBUTE && S_ISDIR(facts.mode)) {
        resolve_below(keeper, state, path); /* nobody may be able to look into it afterwards */
    }
    struct edit *edit =
        edit_new(keeper, state, path, NULL, &facts, version_new(kind_after(op, &facts)));
    if (edit) {
        edit->writes = writes;
        edit->touches = writes;
        edit->awaits = awaits(op, &facts);
        edit->linked = op == WIRE_TOUCH_LINK;
        /* Somebody who has it open for writing may do so between what code does. */
        bool in_place = (writes || op == WIRE_TOUCH_ATTRIBUTE) && facts.mode;
        edit->inode = in_place ? facts.inode : 0;
        edit->mode = facts.mode & ACCESSPERMS;
        edit->unsure = in_place && S_ISREG(facts.mode) && is_written(keeper, path);
        if (in_place && links > 1 && S_ISREG(facts.mode)) {
            doubt_names(state, edit);
        }
        activate(keeper, edit);
    }
}

static bool has_failed(const struct keeper *keeper, const struct edit *edit)
{
    struct apply_facts facts = facts_at(keeper, edit_place(edit));
    return is_void(keeper, edit, &facts);
}

/* What was reported last of the path is over: what has not come of it has failed, or was none, and
 * what comes later is somebody else's. */
static void touch_over(struct keeper *keeper, const struct state *state, const char *path)
{
    struct edit *edit = latest_edit(keeper, state, path);
    if (!edit) {
        return;
    }
    if (edit->resets) {
        edit->mode = facts_at(keeper, path).mode & ACCESSPERMS;
        edit->resets = false;
    }
    bool is_watched = edit->watch >= 0;
    bool may_be_void = !is_watched; /* its directory is not there: it has failed */
    if (is_watched && edit->writes && ++edit->overs >= edit->touches &&
        edit->opens < edit->touches) {
        edit->touches = edit->overs = edit->opens;
        may_be_void = edit->touches == 0;
    }
    if ((is_watched && !edit->writes) || (may_be_void && has_failed(keeper, edit))) {
        resolve(keeper, edit);
    }
}

static void lose_without_state(struct keeper *keeper, uint32_t op, const char *path,
                               const char *target)
{
    struct apply_facts facts = facts_at(keeper, op == WIRE_TOUCH_RENAME ? target : path);
    bool loses = op == WIRE_TOUCH_RENAME || op == WIRE_TOUCH_REMOVE || op == WIRE_TOUCH_WRITE;
    if (*path && loses && S_ISREG(facts.mode) && facts.bytes > 0) {
        edits_lose(keeper);
    }
}

void edits_touch(struct keeper *keeper, const struct wire_touch *touch)
{
    struct state *state = states_find_open(keeper, touch->state);
    const char *path = touch->paths;
    const char *target = path + strlen(path) + 1;
    const char *over = target + strlen(target) + 1;
    edits_follow(keeper);
    if (!state) { /* of a fresh run or a branch, which have no undo */
        lose_without_state(keeper, touch->op, path, target);
        return;
    }
    if (*over) {
        touch_over(keeper, state, over);
    }
    if (!*path) {
        return;
    }
    if (touch->op == WIRE_TOUCH_RENAME) {
        touch_rename(keeper, state, path, target);
    } else {
        touch_content(keeper, state, touch->op, path);
    }
}

/* --- the end of a call --- */

static void forget_watches(struct keeper *keeper)
{
    for (size_t i = 0; i < KEEPER_KNOWN; i++) {
        if (keeper->active[i]) {
            return; /* of a call that runs */
        }
    }
    own_close(&keeper->edits_fd);
    keeper->edits_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    keeper->edits_last = 0;
    keeper->edits_watches = 0;
}

/* Whether code has made the version, in this call or an earlier one. */
static bool is_made(const struct keeper *keeper, const struct version *version)
{
    for (const struct state *state = keeper->states; state; state = state->next) {
        for (size_t i = 0; i < state->edits.count; i++) {
            const struct edit *edit = state->edits.list[i];
            if (edit->to == version && !edit->moves) {
                return true;
            }
        }
    }
    return false;
}

/* What the edit has replaced or removed is lost if there is no copy. What was written to in place
 * may be there for the most part: only what this session has made may hold the rest. */
static void lose_unkept(struct keeper *keeper, struct state *state, const struct edit *edit)
{
    const struct version *from = edit->from;
    const struct apply_facts *facts = &edit->to->facts;
    bool in_place = edit->writes && facts->inode == from->facts.inode;
    bool changes = edit->moves || edit->to->kind != KIND_FILE || !in_place ||
                   facts->mtime_ns != from->facts.mtime_ns || facts->bytes != from->bytes;
    if (from->kind != KIND_FILE || from->bytes == 0 || from->kept || !changes ||
        (edit->to->kind == KIND_FILE && !edit->writes && !edit->moves) || is_made(keeper, from)) {
        return;
    }
    if (in_place) {
        state->lost = true;
    } else {
        edits_lose(keeper);
    }
}

void edits_end(struct keeper *keeper, struct state *state)
{
    struct edits *edits = &state->edits;
    size_t kept = 0;
    if (edits->count == 0) {
        return;
    }
    edits_follow(keeper);
    for (size_t i = 0; i < edits->count; i++) {
        struct edit *edit = edits->list[i];
        if (edit->active) {
            resolve(keeper, edit);
        }
        if (edit->nothing) {
            edit_free(keeper, edit);
        } else {
            lose_unkept(keeper, state, edit);
            edits->list[kept++] = edit;
        }
    }
    edits->count = kept;
    forget_watches(keeper);
}

void edits_drop(struct keeper *keeper, struct edits *edits)
{
    for (size_t i = 0; i < edits->count; i++) {
        deactivate(keeper, edits->list[i]);
        edit_free(keeper, edits->list[i]);
    }
    free(edits->list);
    *edits = (struct edits){};
}
