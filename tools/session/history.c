#include "tools/session/history.h"

#include <stdio.h>
#include <string.h>

static void history_remove_step(struct history *history, unsigned count)
{
    history->steps -= count;
    memmove(history->before, history->before + count, history->steps * sizeof *history->before);
    history->cut = true;
}

static void history_remove_named(struct history *history, unsigned index)
{
    history->named_count--;
    memmove(history->named + index, history->named + index + 1,
            (history->named_count - index) * sizeof *history->named);
}

void history_push(struct history *history)
{
    if (history->steps == HISTORY_STEPS) {
        history_remove_step(history, 1);
    }
    history->before[history->steps++] = history->now;
}

bool history_pop(struct history *history)
{
    if (history->steps == 0) {
        return false;
    }
    history->now = history->before[--history->steps];
    return true;
}

void history_name(struct history *history, const char *name, char dropped[HISTORY_NAME_BYTES])
{
    dropped[0] = '\0';
    if (!history_drop(history, name) && history->named_count == HISTORY_NAMED) {
        (void)history_drop_oldest(history, dropped);
    }
    struct history_state *state = &history->named[history->named_count++];
    *state = history->now;
    (void)snprintf(state->name, sizeof state->name, "%s", name);
}

void history_leave(struct history *history, const struct history_state *state)
{
    history->left = *state;
    (void)snprintf(history->left.name, sizeof history->left.name, RUN_LEFT);
}

const struct history_state *history_at(const struct history *history, unsigned index)
{
    unsigned named = index - history->steps;
    if (index < history->steps) {
        return &history->before[index];
    }
    if (named < history->named_count) {
        return &history->named[named];
    }
    return named == history->named_count && history->left.name[0] ? &history->left : NULL;
}

const struct history_state *history_find(const struct history *history, const char *name)
{
    for (unsigned i = 0; i < history->named_count; i++) {
        if (strcmp(history->named[i].name, name) == 0) {
            return &history->named[i];
        }
    }
    return history->left.name[0] && strcmp(name, RUN_LEFT) == 0 ? &history->left : NULL;
}

const struct history_state *history_of_cell(const struct history *history, unsigned cell)
{
    const struct history_state *state = NULL;
    unsigned index = 0;
    while ((state = history_at(history, index++)) && state->cell != cell) {
    }
    return state;
}

const char *history_forget(struct history *history, unsigned cell, char lost[HISTORY_NAME_BYTES])
{
    lost[0] = '\0';
    for (unsigned i = history->steps; i > 0; i--) {
        if (history->before[i - 1].cell == cell) {
            history_remove_step(history, i);
            break;
        }
    }
    for (unsigned i = history->named_count; i > 0; i--) {
        if (history->named[i - 1].cell == cell) {
            memcpy(lost, history->named[i - 1].name, HISTORY_NAME_BYTES);
            history_remove_named(history, i - 1);
        }
    }
    if (history->left.cell == cell) {
        history->left = (struct history_state){};
    }
    return lost;
}

bool history_shorten(struct history *history)
{
    if (history->left.cell > 0) {
        history->left = (struct history_state){};
        return true;
    }
    if (history->steps == 0) {
        return false;
    }
    history_remove_step(history, 1);
    return true;
}

bool history_make_way(struct history *history)
{
    bool frees = history->left.cell > 0;
    for (unsigned i = 0; i < history->steps; i++) {
        frees = frees || history->before[i].cell != history->now.cell;
    }
    return frees && history_shorten(history);
}

bool history_drop(struct history *history, const char *name)
{
    const struct history_state *state = history_find(history, name);
    if (state == &history->left) {
        history->left = (struct history_state){};
    } else if (state) {
        history_remove_named(history, (unsigned)(state - history->named));
    }
    return state != NULL;
}

bool history_drop_oldest(struct history *history, char name[HISTORY_NAME_BYTES])
{
    if (history->named_count == 0) {
        return false;
    }
    memcpy(name, history->named[0].name, HISTORY_NAME_BYTES);
    history_remove_named(history, 0);
    return true;
}
