/* Lists of edits: see edits.h. */
#include <stdlib.h>
#include <string.h>

#include "sandbox/programs/keeper/edits.h"

void edit_free(struct keeper *keeper, struct edit *edit)
{
    version_release(keeper, &edit->from);
    version_release(keeper, &edit->to);
    keeper->name_bytes -= edit->name_bytes;
    free(edit->path);
    free(edit->target);
    free(edit);
}

bool edits_add(struct edits *edits, struct edit *edit)
{
    struct edit **list = list_grow(edits->list, edits->count, &edits->space, sizeof(struct edit *));
    if (!list) {
        return false;
    }
    edits->list = list;
    list[edits->count++] = edit;
    return true;
}

struct each {
    edit_fn fn;
    void *arg;
};

static void each_of_state(void *arg, struct state *state, bool back)
{
    const struct each *each = arg;
    for (size_t i = 0; i < state->edits.count; i++) {
        each->fn(each->arg, state->edits.list[back ? state->edits.count - 1 - i : i], back);
    }
}

void edits_each(const struct way *way, edit_fn fn, void *arg)
{
    way_each(way, each_of_state, &(struct each){fn, arg});
}

bool edits_prepend(struct keeper *keeper, const struct edits *edits, struct edits *to)
{
    struct edits joined = {.lost = edits->lost || to->lost};
    bool whole = true;
    for (size_t i = 0; whole && i < edits->count; i++) {
        struct edit *copy = malloc(sizeof *copy);
        if (copy) {
            *copy = *edits->list[i];
            copy->active = false;
            copy->path = strdup(copy->path);
            copy->target = copy->moves ? strdup(copy->target) : NULL;
            copy->from = version_take(copy->from);
            copy->to = version_take(copy->to);
            keeper->name_bytes += copy->name_bytes;
        }
        whole = copy && copy->path && (!copy->moves || copy->target) && edits_add(&joined, copy);
        if (!whole && copy) {
            edit_free(keeper, copy);
        }
    }
    for (size_t i = 0; whole && i < to->count; i++) {
        whole = edits_add(&joined, to->list[i]);
    }
    free(to->list);
    *to = joined;
    to->lost = to->lost || !whole;
    return whole;
}
