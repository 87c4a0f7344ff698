/* What sessions report: see edits.h. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "sandbox/programs/keeper/edits_follow.h"

enum { EDITS = 20000 }; /* of a call */

/* --- what a session reports --- */

/* Whether somebody has the file open for writing. */
static bool is_written(const struct keeper *keeper, const char *path)
{
    defer_close int fd = fd_open_beneath(keeper->work_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    return fd < 0 || fd_is_written(fd) != 0;
}

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
            edit_resolve(keeper, edit);
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

static void touch_rename(struct keeper *keeper, struct state *state, const char *path,
                         const char *target)
{
    struct apply_facts source = edits_facts_at(keeper, path);
    struct apply_facts there;
    unsigned links = 0;
    (void)place_look(keeper->work_fd, target, &there, &links);
    struct edit *before = edit_latest(keeper, state, path);
    if (before) {
        edit_resolve(keeper, before);
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
    before = edit_active(keeper, state, edit->watch, path_last(target));
    if (before) {
        edit_resolve(keeper, before);
    }
    doubt_names(state, edit, &there, links);
    edit->awaits = IN_MOVED_TO;
    edit_activate(keeper, edit);
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

static void touch_content(struct keeper *keeper, struct state *state, uint32_t op, const char *path)
{
    struct apply_facts facts;
    unsigned links = 0;
    (void)place_look(keeper->work_fd, path, &facts, &links);
    bool writes = op == WIRE_TOUCH_WRITE;
    struct edit *before = edit_latest(keeper, state, path);
    if (fails(op, &facts) || (writes && touch_again(before, &facts))) {
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
        doubt_names(state, edit, &facts, links);
        edit_activate(keeper, edit);
    }
}

static bool has_failed(const struct keeper *keeper, const struct edit *edit)
{
    struct apply_facts facts = edits_facts_at(keeper, edit_place(edit));
    return edit_is_void(keeper, edit, &facts);
}

/* What was reported last of the path is over: what has not come of it has failed, or was none, and
 * what comes later is somebody else's. */
static void touch_over(struct keeper *keeper, const struct state *state, const char *path)
{
    struct edit *edit = edit_latest(keeper, state, path);
    if (!edit) {
        return;
    }
    if (edit->resets) {
        edit->mode = edits_facts_at(keeper, path).mode & ACCESSPERMS;
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
    struct apply_facts facts = edits_facts_at(keeper, op == WIRE_TOUCH_RENAME ? target : path);
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
        (edit->to->kind == KIND_FILE && !edit->writes && !edit->moves) ||
        (keeper->edits.lost_ns == 0 && is_made(keeper, from))) {
        return;
    }
    if (in_place && edit->to->bytes >= from->bytes) {
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
            edit_resolve(keeper, edit);
        }
        if (edit->nothing) {
            edit_free(keeper, edit);
        } else {
            lose_unkept(keeper, state, edit);
            edits->list[kept++] = edit;
        }
    }
    edits->count = kept;
    edits_forget_watches(keeper);
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
