#include "tools/session/history.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/parse.h"
#include "base/word.h"
#include "sandbox/sandbox.h"

enum { NAMES_SHOWN = 8, NAME_BYTES = 64, MODULE = '%' /* before a name of a module */ };

/* The place of name in the list, or NULL. ret_index: how many names are before it. */
static const char *names_find(const struct names *names, const char *name, size_t size,
                              unsigned *ret_index)
{
    *ret_index = 0;
    for (const char *at = names->text; *at; ++*ret_index) {
        size_t length = strcspn(at, " ");
        if (length == size && memcmp(at, name, size) == 0) {
            return at;
        }
        at += length;
        at += strspn(at, " ");
    }
    return NULL;
}

static void names_remove(struct names *names, const char *name, size_t size)
{
    unsigned index = 0;
    const char *found = names_find(names, name, size, &index);
    if (found) {
        memmove(names->cells + index, names->cells + index + 1,
                sizeof names->cells - (index + 1) * sizeof *names->cells);
        char *at = names->text + (found - names->text);
        size_t cut = size + strspn(at + size, " ");
        memmove(at, at + cut, strlen(at + cut) + 1);
    } else if (names->more > 0) {
        names->more--;
    }
}

/* What stands in the status line without quotes, and has no blank in it. */
static bool is_name(const char *name, size_t size)
{
    return word_is_plain(name, size) && !memchr(name, ' ', size);
}

void names_change(struct names *names, const char *change, size_t size, unsigned cell)
{
    unsigned index = 0;
    if (size < 2 || size - 1 > NAME_BYTES) {
        return;
    }
    size_t length = size - 1;
    const char *name = change + 1;
    if (change[0] == '-') {
        names_remove(names, name, length);
        return;
    }
    if (names_find(names, name, length, &index)) {
        names->cells[index] = cell;
        return;
    }
    size_t used = strlen(names->text);
    if (used + length + 2 > sizeof names->text || !is_name(name, length)) {
        names->more += change[0] == '+';
        return;
    }
    (void)snprintf(names->text + used, sizeof names->text - used, "%s%.*s", used ? " " : "",
                   (int)length, name);
    names->cells[index] = cell;
}

/* Lists the names of from that rest lacks or, if older, that it has from an earlier cell: those of
 * modules last. more: how many others there are. */
static const char *names_list(const struct names *from, const struct names *rest, bool older,
                              unsigned more, char *out, size_t size)
{
    unsigned shown = 0;
    size_t used = 0;
    out[0] = '\0';
    for (unsigned modules = 0; modules < 2; modules++) {
        unsigned index = 0;
        for (const char *at = from->text; *at; index++) {
            size_t length = strcspn(at, " ");
            unsigned other = 0;
            bool common = rest && names_find(rest, at, length, &other);
            bool listed = (at[0] == MODULE) == modules &&
                          (older ? common && rest->cells[other] != from->cells[index] : !common);
            if (listed && (shown == NAMES_SHOWN || used + length + 32 > size)) {
                more++;
            } else if (listed) {
                used += (size_t)snprintf(out + used, size - used, "%s%.*s", shown ? ", " : "",
                                         (int)(length - modules), at + modules);
                shown++;
            }
            at += length;
            at += strspn(at, " ");
        }
    }
    if (shown > 0 && more > 0) {
        (void)snprintf(out + used, size - used, " and %u more", more);
    }
    return out;
}

const char *names_lost(const struct names *from, const struct names *rest, char *out, size_t size)
{
    unsigned more = from->more - (rest && rest->more < from->more ? rest->more : 0);
    return names_list(from, rest, /* older= */ false, more, out, size);
}

const char *names_older(const struct names *from, const struct names *rest, char *out, size_t size)
{
    return names_list(from, rest, /* older= */ true, 0, out, size);
}

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

static bool reaches(uint64_t bytes, unsigned percent, uint64_t limit_bytes)
{
    return bytes / percent >= limit_bytes / 100;
}

unsigned checkpoint_steps_to_drop(const struct checkpoint_memory *memory, unsigned steps)
{
    uint64_t limit = memory->limit_bytes;
    uint64_t state = memory->state_bytes;
    uint64_t used = memory->used_bytes ? memory->used_bytes : 2 * state;
    if (used + state > limit || reaches(used, CHECKPOINT_FULL_PERCENT, limit)) {
        return steps;
    }
    return steps > 0 && (memory->unaffordable || reaches(used, CHECKPOINT_CROWDED_PERCENT, limit));
}

unsigned checkpoint_steps_most(uint32_t pids)
{
    return pids / CHECKPOINT_STEP_PIDS;
}

bool checkpoint_memory_is_short(const struct checkpoint_memory *memory)
{
    return reaches(memory->used_bytes, CHECKPOINT_WARN_PERCENT, memory->limit_bytes);
}

bool checkpoint_memory_is_full(const struct checkpoint_memory *memory)
{
    return reaches(memory->used_bytes, CHECKPOINT_YIELD_PERCENT, memory->limit_bytes);
}

bool checkpoint_older_make_way(const struct checkpoint_memory *memory, uint64_t held_bytes)
{
    return checkpoint_memory_is_full(memory) &&
           reaches(held_bytes, CHECKPOINT_HELD_PERCENT, memory->limit_bytes);
}

bool checkpoint_makes_way(const struct checkpoint_memory *memory, uint64_t held_bytes)
{
    return checkpoint_older_make_way(memory, held_bytes) &&
           reaches(memory->state_bytes, CHECKPOINT_STATE_PERCENT, memory->limit_bytes) &&
           2 * held_bytes + memory->state_bytes >= memory->used_bytes;
}

/* --- lost threads --- */

static unsigned number_of(const struct box_message *message, const char *name)
{
    uint64_t number = box_message_number(message, name, 0);
    return number < UINT32_MAX ? (unsigned)number : 0;
}

void lost_threads_take(struct lost_threads *lost, const struct box_message *message, bool is_back)
{
    struct box_field native = {};
    lost->native[0] = '\0';
    if (box_message_get(message, "native", &native) && native.size > 0) {
        (void)word_show(native.data, native.size, lost->native, sizeof lost->native);
    }
    lost->python = number_of(message, "python");
    lost->news += number_of(message, "threads");
    lost->is_news = lost->native[0] && (is_back || lost->is_news);
}

/* Whether it has used the processor for a good part of its time. That of a killed one is not known.
 */
static bool has_computed(const struct run *run)
{
    enum { PART = 10 };
    uint64_t cpu_ms = 0;
    return parse_u64(run_fact(run, RUN_CPU_MS), &cpu_ms) == 0 &&
           cpu_ms * PART > run->end.duration_ns / CLOCK_NS_PER_MS;
}

void lost_threads_report(struct lost_threads *lost, struct run *run)
{
    bool is_timeout = run->end.outcome == RUN_TIMEOUT;
    bool waited = is_timeout && !has_computed(run);
    run_add_number(run, RUN_THREADS, waited ? lost->python : lost->news);
    if (is_timeout || lost->is_news) { /* libraries also spin while they wait */
        run_addf(run, RUN_NATIVE_LOST, "%s", lost->native);
    }
    lost->news = 0;
    lost->is_news = false;
}
