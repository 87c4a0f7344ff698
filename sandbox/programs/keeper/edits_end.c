/* What has become of a call's edits: see edits.h. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sandbox/programs/keeper/edits_follow.h"

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

static void join_move(struct keeper *keeper, struct edits *edits, size_t at)
{
    struct edit *move = edits->list[at];
    struct record *record = move->to->kind == KIND_FILE && !move->unsure && !move->active
                                ? record_find(keeper, move->path)
                                : NULL;
    struct edit *made =
        record && record->scratch.mark ? edits->list[record->scratch.mark - 1] : NULL;
    if (!made || !has_made_under(made, move)) {
        return;
    }
    free(move->path);
    move->path = move->target;
    move->target = NULL;
    move->moves = false;
    move->writes = made->writes;
    move->mixed = true;
    edits->list[record->scratch.mark - 1] = NULL;
    record->scratch.mark = 0;
    edit_free(keeper, made);
}

/* Two that follow each other at a name are one. In a directory something else may have happened
 * between them; and other names of the file hold what the first has led to. */
static void join_content(struct keeper *keeper, struct edits *edits, struct edit *edit)
{
    struct record *record = record_find(keeper, edit->path);
    struct edit *first =
        record && record->scratch.mark ? edits->list[record->scratch.mark - 1] : NULL;
    bool in_place = edit->writes && edit->links > 1;
    if (!first || first->active || edit->active || first->unsure || edit->unsure || first->moves ||
        first->held || first->linked || in_place || first->to != edit->from ||
        (first->to->kind != KIND_FILE && first->to->kind != KIND_LINK)) {
        return;
    }
    version_release(keeper, &edit->from);
    edit->from = version_take(first->from);
    edit->mixed = true;
    edit->inode = 0;
    edits->list[record->scratch.mark - 1] = NULL;
    record->scratch.mark = 0;
    edit_free(keeper, first);
}

/* Joins what has become of each file, also of one that was made under another name. */
static void edits_join(struct keeper *keeper, struct edits *edits)
{
    size_t kept = 0;
    for (size_t i = 0; i < edits->count; i++) {
        if (edits->list[i]->moves) {
            join_move(keeper, edits, i);
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

static void end(struct keeper *keeper, struct state *state, bool finally)
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
                      S_ISREG(edits_facts_at(keeper, edit_place(edit)).mode) &&
                      edit_is_open(keeper, edit);
        if (edit->held) {
            struct apply_facts facts = edits_facts_at(keeper, edit_place(edit));
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

void edits_end(struct keeper *keeper, struct state *state)
{
    end(keeper, state, /* finally= */ false);
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

void edits_resolve_late(struct keeper *keeper, struct state *state)
{
    end(keeper, state, /* finally= */ true);
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
