/* Lists of edits: see edits.h. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "sandbox/programs/keeper/edits.h"
#include "sandbox/programs/keeper/keeper.h"

void edit_free(struct keeper *keeper, struct edit *edit)
{
    version_release(keeper, &edit->from);
    version_release(keeper, &edit->to);
    keeper->records.name_bytes -= edit->name_bytes;
    free(edit->path);
    free(edit->target);
    free(edit);
}

struct version *edits_none(void)
{
    static struct version none = {.kind = KIND_NONE, .kept = true};
    return &none;
}

bool edits_prepend(struct keeper *keeper, struct edits *edits, struct edits *to)
{
    bool whole = true;
    for (size_t i = 0; i < edits->count; i++) {
        edit_deactivate(keeper, edits->list[i]);
    }
    for (size_t i = 0; i < to->count; i++) {
        if (!array_add(edits, to->list[i])) {
            edit_deactivate(keeper, to->list[i]);
            edit_free(keeper, to->list[i]);
            whole = false;
        }
    }
    free(to->list);
    edits->lost = edits->lost || to->lost || !whole;
    *to = *edits;
    *edits = (struct edits){};
    return whole;
}

/* What sessions report: see edits.h. */

enum {
    EDITS = 100000, /* of a call */
    NUMBERS = 1024, /* of touches, by init */
};

/* --- what a session reports --- */

void edits_lose(struct keeper *keeper)
{
    keeper->edits.lost_ns = clock_wall_ns();
}

/* An edit before which the facts were at the place that it changes. Owns `to`. */
static struct edit *edit_new(struct keeper *keeper, struct state *state, const char *path,
                             const char *target, const struct apply_facts *facts,
                             struct version *to)
{
    size_t bytes = strlen(path) + (target ? strlen(target) : 0) + 2;
    bool has_space =
        state->edits.count < EDITS && keeper->records.name_bytes + bytes <= KEEPER_NAME_BYTES;
    struct edit *edit = has_space && to ? calloc(1, sizeof *edit) : NULL;
    if (!edit) {
        version_release(keeper, &to);
        state->edits.lost = true;
        return NULL;
    }
    edit->to = to;
    edit->by = keeper->edits.by;
    edit->state = state->id;
    edit->name_bytes = bytes;
    keeper->records.name_bytes += bytes;
    edit->path = strdup(path);
    edit->target = target ? strdup(target) : NULL;
    edit->moves = target != NULL;
    edit->watch = edit->path ? edits_watch(keeper, target ? target : path, &edit->parent) : -1;
    const char *place = target ? target : path;
    edit->from = facts->mode ? version_take(version_known(keeper, facts)) : NULL;
    if (edit->from) {
        place_keep(keeper, place, edit->from);
    } else if ((edit->from = place_read(keeper, keeper->work_fd, place, facts))) {
        version_seen_as(keeper, edit->from, facts);
        edit->from->found_ns = facts->ctime_ns;
    }
    if (!edit->path || (target && !edit->target) || !edit->from ||
        !array_add(&state->edits, edit)) {
        state->edits.lost = true;
        edit_free(keeper, edit);
        return NULL;
    }
    return edit;
}

/* A directory gets another name: what is in it is still where it was. */
static void resolve_below(struct keeper *keeper, const struct state *state, const char *path)
{
    for (size_t i = 0; i < KEEPER_KNOWN; i++) {
        struct edit *next = NULL;
        for (struct edit *edit = keeper->edits.active[i]; edit; edit = next) {
            next = edit->next;
            if (edit->state == state->id && apply_path_is_below(edit_place(edit), path)) {
                edit_resolve(keeper, edit);
            }
        }
    }
}

/* A call has written to a file under another of its names: what it has left is what this name held
 * before. */
static void doubt_names(const struct state *state, struct edit *edit,
                        const struct apply_facts *facts, unsigned links)
{
    if (!S_ISREG(facts->mode) || links < 2) {
        return;
    }
    for (size_t i = 0; i < state->edits.count; i++) {
        struct edit *other = state->edits.list[i];
        if (other != edit && !other->moves && other->inode == facts->inode &&
            strcmp(other->path, edit_place(edit)) != 0) {
            other->unsure = edit->unsure = true;
        }
    }
}

/* --- files that stay open from one call to the next --- */

bool edits_hold(struct keeper *keeper, const char *path, uint32_t owner, bool shared)
{
    struct held *held = keeper->edits.held;
    struct held *end = held + keeper->edits.held_count;
    while (held < end && (held->owner != owner || strcmp(held->path, path) != 0)) {
        held++;
    }
    if (held < end) {
        held->shared = held->shared || shared;
        return true;
    }
    char *copy = keeper->edits.held_count < KEEPER_HELD ? strdup(path) : NULL;
    if (copy) {
        *held = (struct held){copy, owner, shared};
        keeper->edits.held_count++;
    }
    return copy;
}

/* They are there under other names too now. */
static void hold_moved(struct keeper *keeper, const char *path, const char *target)
{
    char moved[KEEPER_PATH_BYTES];
    for (unsigned i = keeper->edits.held_count; i-- > 0;) {
        const struct held *held = &keeper->edits.held[i];
        const char *rest = path_behind(held->path, path);
        if (rest && (size_t)snprintf(moved, sizeof moved, "%s%s%s", target, *rest ? "/" : "",
                                     rest) < sizeof moved) {
            (void)edits_hold(keeper, moved, held->owner, held->shared);
        }
    }
}

static bool is_rename(uint32_t op)
{
    return op == WIRE_TOUCH_RENAME || op == WIRE_TOUCH_EXCHANGE;
}

static bool has_entries(const struct keeper *keeper, const char *path)
{
    int fd = fd_open_beneath(keeper->work_fd, path, O_RDONLY | O_DIRECTORY);
    defer_closedir DIR *directory = fd_directory(fd);
    return fd_next_name(directory);
}

static void touch_rename(struct keeper *keeper, struct state *state, uint32_t op, const char *path,
                         const char *target)
{
    struct apply_facts source = place_facts(keeper->work_fd, path);
    struct apply_facts there;
    unsigned links = 0;
    (void)place_look(keeper->work_fd, target, &there, &links);
    struct edit *before = edit_latest(keeper, state, path);
    if (before) {
        edit_resolve(keeper, before);
    }
    resolve_below(keeper, state, path);
    bool in_way = there.mode && (S_ISDIR(there.mode) != S_ISDIR(source.mode) ||
                                 (S_ISDIR(there.mode) && has_entries(keeper, target)));
    if (!source.mode || (there.mode && there.inode == source.inode) ||
        (op == WIRE_TOUCH_RENAME && (in_way || apply_path_is_below(target, path)))) {
        return; /* it fails, or does nothing: rename(2) */
    }
    before = edit_latest(keeper, state, target); /* it has led to what the move replaces */
    if (before) {
        edit_resolve(keeper, before);
    }
    struct version *moved = version_take(version_known(keeper, &source));
    if (!moved && (moved = version_of(&source))) { /* a move needs no copy */
        version_seen_as(keeper, moved, &source);
    }
    struct edit *edit = edit_new(keeper, state, path, target, &there, moved);
    if (!edit) {
        return;
    }
    doubt_names(state, edit, &there, links);
    edit->awaits = IN_MOVED_TO;
    edit->links = S_ISREG(there.mode) ? links : 0;
    edit->file = there.inode;
    edit_activate(keeper, edit);
    hold_moved(keeper, path, target);
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
    bool comes = op == WIRE_TOUCH_CREATE || op == WIRE_TOUCH_LINK ||
                 (op == WIRE_TOUCH_WRITE && !before->mode);
    return comes                        ? IN_CREATE
           : op == WIRE_TOUCH_REMOVE    ? IN_DELETE | IN_MOVED_FROM
           : op == WIRE_TOUCH_BRING     ? IN_MOVED_TO
           : op == WIRE_TOUCH_ATTRIBUTE ? IN_ATTRIB
                                        : 0;
}

/* Whether the system will refuse it. */
static bool fails(uint32_t op, const struct apply_facts *facts)
{
    bool comes = op == WIRE_TOUCH_CREATE || op == WIRE_TOUCH_LINK;
    bool needs = op == WIRE_TOUCH_REMOVE || op == WIRE_TOUCH_ATTRIBUTE;
    return comes                    ? facts->mode != 0
           : needs                  ? facts->mode == 0
           : op == WIRE_TOUCH_WRITE ? facts->mode != 0 && !S_ISREG(facts->mode)
                                    : op != WIRE_TOUCH_BRING;
}

/* The file is opened again: until then it must be what it was when it was closed last. */
static bool touch_again(const struct keeper *keeper, struct edit *edit,
                        const struct apply_facts *facts)
{
    if (!edit || !edit->writes || edit->to->kind != KIND_FILE) {
        return false;
    }
    bool closed = edit->closes >= edit->touches; /* else code itself may write to it */
    edit->unsure =
        edit->unsure || (edit->ended && closed && !apply_facts_alike(facts, &edit->to->facts));
    edit->touches++;
    edit->by = keeper->edits.by;
    return true;
}

bool edits_have_made(const struct keeper *keeper, const struct version *version)
{
    for (const struct state *state = keeper->states; state; state = state->next) {
        for (size_t i = 0; i < state->edits.count; i++) {
            const struct edit *edit = state->edits.list[i];
            if (edit->to == version && edit->to != edit->from && !edit->moves) {
                return true;
            }
        }
    }
    return false;
}

/* The version at path, borrowed, if code has made it; else NULL. It gets another name, which
 * changes its facts: so it is known under both. */
static struct version *made_at(struct keeper *keeper, const struct state *state, const char *path)
{
    struct edit *edit = *path ? edit_latest(keeper, state, path) : NULL;
    if (edit && !edit->ended) {
        edit_resolve(keeper, edit);
    }
    struct apply_facts facts = *path ? place_facts(keeper->work_fd, path) : (struct apply_facts){};
    struct version *version = facts.mode ? version_known(keeper, &facts) : NULL;
    return version && edits_have_made(keeper, version) ? version : NULL;
}

/* Whether nobody has changed since what the edit has left: what comes then belongs to it, and what
 * was in between needs no copy. */
static bool edit_goes_on(const struct edit *edit, uint32_t op, const struct apply_facts *facts)
{
    const struct version *left = edit->nothing ? edit->from : edit->to;
    return !edit->unsure && !edit->moves && (!edit->held || op == WIRE_TOUCH_REMOVE) &&
           (edit->nothing || edit->ended) &&
           (left->kind == KIND_NONE ? facts->mode == 0 : version_is_at(left, facts));
}

/* The edit now leads to another version. Owns `to`. */
static struct edit *edit_again(struct keeper *keeper, struct edit *edit, struct version *to)
{
    if (!to) {
        edit->unsure = true;
        return NULL;
    }
    version_release(keeper, &edit->to);
    edit->to = to;
    edit->by = keeper->edits.by;
    edit->mixed = true;
    edit->nothing = edit->ended = edit->resets = edit->held = false;
    edit->overs = edit->opens = edit->closes = 0;
    return edit;
}

/* Whether code alone has the file open, by what it has done before. */
static bool is_held(const struct keeper *keeper, const char *path)
{
    const struct held *held = keeper->edits.held;
    const struct held *end = held + keeper->edits.held_count;
    while (held < end && (held->shared || strcmp(held->path, path) != 0)) {
        held++;
    }
    return held < end;
}

/* Another session, a branch or a job opens the file too, and nobody sees who of them writes. What
 * was done there after the end of a call is that call's until now. */
static void touch_beside(struct keeper *keeper, struct edit *edit)
{
    const char *name = path_last(edit->path);
    for (struct edit *other = NULL; (other = edit_next_at(keeper, other, edit->watch, name));) {
        const struct state *state = states_find(keeper, other->state);
        if (other->state == edit->state || !other->writes) {
            continue;
        }
        edit->beside = true;
        edit->unsure = edit->unsure && other->unsure;
        if (state && state->open) {
            other->touches++;
            other->beside = other->contested = edit->contested = true;
        } else {
            edit_resolve(keeper, other);
        }
    }
}

/* A name goes of a file to which the call has written under another one: it held what was there
 * before that. */
static void take_first_content(struct keeper *keeper, const struct state *state, struct edit *edit)
{
    for (size_t i = 0; i < state->edits.count; i++) {
        const struct edit *other = state->edits.list[i];
        if (other->file == edit->file && (other->writes || other->mixed) && other->links > 1 &&
            other->from->kind == KIND_FILE && strcmp(other->path, edit->path) != 0) {
            version_set(keeper, &edit->from, other->from);
            return;
        }
    }
}

/* Whether the edit writes to a file that has other names, also from before the call. */
static bool writes_to_others(const struct state *state, const struct edit *edit)
{
    bool writes = edit->writes && edit->links > 1;
    for (size_t i = 0; writes && i < state->edits.count; i++) {
        const struct edit *other = state->edits.list[i];
        writes = !other->linked || strcmp(other->path, edit->path) != 0;
    }
    return writes;
}

/* source: of a hard link, "" where it is not known */
static void touch_content(struct keeper *keeper, struct state *state, uint32_t op, const char *path,
                          const char *source)
{
    struct apply_facts facts;
    unsigned links = 0;
    (void)place_look(keeper->work_fd, path, &facts, &links);
    bool writes = op == WIRE_TOUCH_WRITE;
    struct edit *before = edit_latest(keeper, state, path);
    if (fails(op, &facts) || (writes && touch_again(keeper, before, &facts))) {
        return;
    }
    if (op == WIRE_TOUCH_ATTRIBUTE && before && before->writes &&
        before->closes < before->touches) {
        before->resets = true; /* what it was before the opening comes back with the content */
        return;
    }
    if (before) {
        edit_resolve(keeper, before);
    }
    /* What is in a file that has other names is still there under those; and to remove a directory
     * fails where it is not empty, or with unlink(2). */
    bool apart = (before && (writes ? before->linked : writes_to_others(state, before))) ||
                 (op == WIRE_TOUCH_REMOVE && S_ISDIR(facts.mode));
    bool goes_on = before && edit_goes_on(before, op, &facts) && !apart;
    if ((op == WIRE_TOUCH_ATTRIBUTE || op == WIRE_TOUCH_REMOVE) && S_ISDIR(facts.mode)) {
        resolve_below(keeper, state, path); /* nobody may be able to look into it afterwards */
    }
    struct version *made = op == WIRE_TOUCH_LINK ? made_at(keeper, state, source) : NULL;
    struct version *to = made ? version_take(made) : version_new(kind_after(op, &facts));
    struct edit *edit =
        goes_on ? edit_again(keeper, before, to) : edit_new(keeper, state, path, NULL, &facts, to);
    if (edit) {
        edit->writes = writes;
        edit->touches = writes;
        edit->awaits = awaits(op, &facts);
        edit->linked = (op == WIRE_TOUCH_LINK && !made) || (goes_on && edit->linked);
        edit->shares = made;
        /* Somebody who has it open for writing may do so between what code does. */
        bool in_place = (writes || op == WIRE_TOUCH_ATTRIBUTE) && facts.mode;
        edit->inode = in_place ? facts.inode : 0;
        edit->mode = facts.mode & ACCESSPERMS;
        edit->beside = is_held(keeper, path);
        edit->unsure =
            in_place && S_ISREG(facts.mode) && !edit->beside && place_is_written(keeper, path) != 0;
        edit->links = S_ISREG(facts.mode) ? links : op == WIRE_TOUCH_LINK ? 2 : 0;
        edit->file = facts.inode;
        state->edits.shares = state->edits.shares || (writes && edit->links > 1);
        if (op == WIRE_TOUCH_REMOVE && state->edits.shares && !goes_on) {
            take_first_content(keeper, state, edit);
        }
        if (writes || !keeper->seen) {
            doubt_names(state, edit, &facts, links);
        }
        if (writes && keeper->seen) {
            touch_beside(keeper, edit);
        }
        edit_activate(keeper, edit);
    }
}

static bool has_failed(const struct keeper *keeper, const struct edit *edit)
{
    struct apply_facts facts = place_facts(keeper->work_fd, edit_place(edit));
    return edit_is_void(keeper, edit, &facts);
}

/* What was reported last of the path is over: what has not come of it has failed, or was none, and
 * what comes later is somebody else's. */
static void touch_over(struct keeper *keeper, const struct state *state, const char *path)
{
    struct edit *edit = edit_latest(keeper, state, path);
    if (!edit || edit->by.thread != keeper->edits.by.thread) {
        return; /* another thread may be about to do what it has touched since */
    }
    if (edit->resets) {
        edit->mode = place_facts(keeper->work_fd, path).mode & ACCESSPERMS;
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
        edit_resolve(keeper, edit);
    }
}

static void lose_without_state(struct keeper *keeper, uint32_t op, const char *path,
                               const char *target)
{
    struct apply_facts facts = place_facts(keeper->work_fd, is_rename(op) ? target : path);
    bool loses = is_rename(op) || op == WIRE_TOUCH_REMOVE || op == WIRE_TOUCH_WRITE;
    if (*path && loses && S_ISREG(facts.mode) && facts.bytes > 0) {
        edits_lose(keeper);
    }
}

/* The place that the thread has touched last in this call, "" where none is known. Remembers what
 * it touches now. The text stays until the next call of this function. */
static const char *thread_next(struct keeper *keeper, const struct wire_touch *touch)
{
    static char over[LIMIT_PATH_BYTES];
    enum { THREADS = sizeof keeper->edits.threads / sizeof *keeper->edits.threads };
    typeof(*keeper->edits.threads) *at = &keeper->edits.threads[touch->thread % THREADS];
    bool known = at->place && at->by.thread == touch->thread && at->state == touch->state;
    (void)snprintf(over, sizeof over, "%s", known ? at->place : "");
    const char *target = touch->paths + strlen(touch->paths) + 1;
    free(at->place);
    at->place = strdup(*target && is_rename(touch->op) ? target : touch->paths);
    at->by = keeper->edits.by;
    at->state = touch->state;
    return over;
}

void edits_touch(struct keeper *keeper, const struct wire_touch *touch)
{
    const char *path = touch->paths;
    const char *target = path + strlen(path) + 1;
    const char *over = target + strlen(target) + 1;
    bool numbered = touch->number < NUMBERS && keeper->seen;
    keeper->edits.by = (struct toucher){
        .thread = numbered ? touch->thread : 0, .number = touch->number, .answers = touch->answers};
    if (keeper->own) {
        keeper->touched.lost = keeper->touched.lost || touch->op == WIRE_TOUCH_UNKNOWN;
        scan_touch(keeper, path, touch->state);
        scan_touch(keeper, target, touch->state);
        return;
    }
    if (keeper->seen) { /* in the sandbox's own workspace init has done that */
        (void)write(keeper->watch.fd, &(uint64_t){1}, sizeof(uint64_t));
    }
    struct state *state = states_find_toucher(keeper, touch->state);
    edits_follow(keeper);
    if (!state) { /* of a fresh run or a branch, which have no undo */
        lose_without_state(keeper, touch->op, path, target);
        return;
    }
    if (touch->thread) {
        over = thread_next(keeper, touch);
    }
    if (*over) {
        touch_over(keeper, state, over);
    }
    /* A move that the system has refused is over before something else happens to its source. */
    struct edit *last = state->edits.count > 0 ? state->edits.list[state->edits.count - 1] : NULL;
    if (last && last->moves && last->active && !last->ended &&
        !toucher_is_coming(keeper, &last->by)) {
        edit_resolve(keeper, last);
    }
    state->unseen = state->unseen || touch->op == WIRE_TOUCH_UNKNOWN;
    if (!*path) {
        return;
    }
    if (is_rename(touch->op)) {
        touch_rename(keeper, state, touch->op, path, target);
    } else {
        touch_content(keeper, state, touch->op, path, target);
    }
}

/* What the session's earlier calls have left open is now the next one's. */
static void resolve_held(struct keeper *keeper, uint32_t owner)
{
    for (struct state *state = keeper->states; state; state = state->next) {
        for (size_t i = 0; state->owner == owner && !state->open && i < state->edits.count; i++) {
            if (state->edits.list[i]->active && state->edits.list[i]->held) {
                edit_resolve(keeper, state->edits.list[i]);
            }
        }
    }
}

void edits_begin(struct keeper *keeper, struct state *state)
{
    if (keeper->seen && keeper->edits.held_count > 0) {
        edits_follow(keeper);
        resolve_held(keeper, state->owner);
    }
    /* A state that has come back may have one open again: none is forgotten. */
    for (unsigned i = keeper->edits.held_count; keeper->seen && i-- > 0;) {
        const struct held *held = &keeper->edits.held[i];
        if (held->owner == state->owner && !edit_latest(keeper, state, held->path) &&
            S_ISREG(place_facts(keeper->work_fd, held->path).mode) &&
            place_is_written(keeper, held->path) != 0) {
            touch_content(keeper, state, WIRE_TOUCH_WRITE, held->path, "");
            struct edit *edit = edit_latest(keeper, state, held->path);
            if (edit) {
                edit->unsure = held->shared; /* else only code can write to it */
                edit->opens = edit->touches;
            }
        }
    }
}
