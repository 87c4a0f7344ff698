/* Lists of edits: see edits.h. */
#include <stdlib.h>
#include <string.h>

#include "sandbox/programs/keeper/edits_follow.h"

void edit_free(struct keeper *keeper, struct edit *edit)
{
    version_release(keeper, &edit->from);
    version_release(keeper, &edit->to);
    keeper->records.name_bytes -= edit->name_bytes;
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

bool edits_prepend(struct keeper *keeper, struct edits *edits, struct edits *to)
{
    bool whole = true;
    for (size_t i = 0; i < edits->count; i++) {
        edit_deactivate(keeper, edits->list[i]);
    }
    for (size_t i = 0; i < to->count; i++) {
        if (!edits_add(edits, to->list[i])) {
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
