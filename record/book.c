#include "record/book.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "base/word.h"

const char *record_text(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

json_int_t record_number(const json_t *object, const char *name, json_int_t missing)
{
    const json_t *value = json_object_get(object, name);
    return json_is_integer(value) ? json_integer_value(value) : missing;
}

bool record_is_set(const struct record_entry *entry, const char *argument)
{
    const json_t *arguments = json_object_get(entry->event, "arguments");
    return json_is_true(json_object_get(arguments, argument));
}

const char *record_fate_text(enum record_fate fate)
{
    static const char *const texts[] = {
        [RECORD_LIVE] = "",
        [RECORD_CUT] = "interrupted; what it did until then stays",
        [RECORD_UNDONE] = "taken back later",
        [RECORD_GONE] = "its effect is not in the final state",
        [RECORD_DROPPED] = "ran in an interpreter of its own",
        [RECORD_BRANCH] = "a branch, which was discarded",
        [RECORD_NOT_RUN] = "did not run",
        [RECORD_NO_END] = "the record has no result of it",
    };
    return texts[fate];
}

bool record_is_live(const struct record_entry *entry)
{
    return entry->fate == RECORD_LIVE || entry->fate == RECORD_CUT;
}

/* --- reading --- */

enum { KEY_BYTES = 160 };

/* What is known while the events are gone through. */
struct follower {
    struct record_book *book;
    size_t *by_call; /* position of the cell with this number, from 1; 0: none */
    size_t call_most;
    json_t *numbers; /* position of a cell, by its number and session */
    json_t *states;  /* position of the cell whose state a session has, by the session's name */
};

static size_t state_of(const struct follower *follower, const json_t *event)
{
    return (size_t)record_number(follower->states, record_text(event, "session"), 0);
}

static void set_state(const struct follower *follower, const json_t *event, size_t position)
{
    (void)json_object_set_new_nocheck(follower->states, record_text(event, "session"),
                                      json_integer((json_int_t)position));
}

static const char *key_of(const json_t *event, json_int_t number, char out[KEY_BYTES])
{
    (void)snprintf(out, KEY_BYTES, "%lld %s", (long long)number, record_text(event, "session"));
    return out;
}

/* The last cell of the event's session that has this number; 0: none. */
static size_t find_cell(const struct follower *follower, const json_t *event, json_int_t number)
{
    char key[KEY_BYTES];
    return (size_t)record_number(follower->numbers, key_of(event, number, key), 0);
}

static void take_cell(struct follower *follower, struct record_entry *entry)
{
    size_t position = follower->book->count;
    json_int_t call = record_number(entry->event, "call", 0);
    bool is_branch = record_is_set(entry, "branch");
    bool dropped = record_is_set(entry, "fresh") || is_branch;
    entry->fate = is_branch ? RECORD_BRANCH : dropped ? RECORD_DROPPED : RECORD_NO_END;
    entry->before = dropped ? 0 : state_of(follower, entry->event);
    if (!dropped) {
        char key[KEY_BYTES];
        json_int_t number = record_number(entry->event, "cell", 0);
        (void)json_object_set_new_nocheck(follower->numbers, key_of(entry->event, number, key),
                                          json_integer((json_int_t)position));
    }
    if (call > 0 && (size_t)call <= follower->call_most) {
        follower->by_call[call] = position;
    }
}

/* Whether the cell was interrupted by its time limit, or by its client. */
static bool is_cut(const json_t *result)
{
    return strcmp(record_text(result, "state"), "interrupted") == 0;
}

static void take_result(const struct follower *follower, const json_t *result)
{
    json_int_t call = record_number(result, "call", 0);
    bool known = call > 0 && (size_t)call <= follower->call_most;
    size_t position = known ? follower->by_call[call] : 0;
    if (position == 0) {
        return;
    }
    struct record_entry *entry = &follower->book->entries[position - 1];
    const char *outcome = record_text(result, "outcome");
    const char *state = record_text(result, "state");
    bool ran = strcmp(outcome, "refused") != 0 && strcmp(outcome, "cancelled") != 0;
    entry->result = result;
    if (entry->fate == RECORD_DROPPED || entry->fate == RECORD_BRANCH) {
        return;
    }
    bool cut = is_cut(result);
    bool kept = cut || (ran && strcmp(state, "kept") == 0);
    entry->fate = !ran ? RECORD_NOT_RUN : RECORD_GONE;
    if (kept && record_number(entry->event, "cell", 0) > 0) {
        bool whole = strcmp(outcome, "ok") == 0 || strcmp(outcome, "error") == 0 ||
                     strcmp(outcome, "exit") == 0;
        entry->fate = whole || cut ? RECORD_UNDONE : RECORD_GONE; /* until it is known to be live */
        set_state(follower, result, position);
    } else if (strcmp(state, "restored_earlier") == 0) {
        set_state(follower, result,
                  find_cell(follower, result, record_number(result, "restored_cell", 0)));
    } else if (strcmp(state, "lost") == 0 || strcmp(state, "all_lost") == 0) {
        set_state(follower, result, 0);
    }
}

/* The cells that led to each session's final state are live. */
static void find_live(const struct follower *follower)
{
    const char *session = NULL;
    json_t *value = NULL;
    json_object_foreach (follower->states, session, value) {
        size_t at = (size_t)json_integer_value(value);
        while (at > 0) {
            struct record_entry *entry = &follower->book->entries[at - 1];
            if (entry->fate == RECORD_UNDONE) {
                entry->fate = is_cut(entry->result) ? RECORD_CUT : RECORD_LIVE;
            }
            at = entry->before < at ? entry->before : 0;
        }
    }
}

static void take_event(struct follower *follower, const json_t *event)
{
    struct record_book *book = follower->book;
    const char *kind = record_text(event, "kind");
    if (strcmp(kind, "start") == 0) {
        book->start = book->start ? book->start : event;
    } else if (strcmp(kind, "end") == 0) {
        book->end = event;
    } else if (strcmp(kind, "result") == 0) {
        take_result(follower, event);
    } else {
        struct record_entry *entry = &book->entries[book->count++];
        *entry = (struct record_entry){.event = event, .kind = kind};
        if (strcmp(kind, "cell") == 0) {
            take_cell(follower, entry);
        } else if (strcmp(kind, "undo") == 0 || strcmp(kind, "restore") == 0) {
            set_state(follower, event, find_cell(follower, event, record_number(event, "to", 0)));
        } else if (strcmp(kind, "reset") == 0) {
            set_state(follower, event, 0);
        }
    }
}

static int make_entries(struct record_book *book)
{
    size_t count = json_array_size(book->events);
    struct follower follower = {.book = book,
                                .by_call = calloc(count + 1, sizeof *follower.by_call),
                                .call_most = count,
                                .numbers = json_object(),
                                .states = json_object()};
    book->entries = calloc(count + 1, sizeof *book->entries);
    bool made = follower.by_call && follower.numbers && follower.states && book->entries;
    if (made) {
        for (size_t i = 0; i < count; i++) {
            take_event(&follower, json_array_get(book->events, i));
        }
        find_live(&follower);
    }
    free(follower.by_call);
    json_decref(follower.numbers);
    json_decref(follower.states);
    return made ? 0 : -ENOMEM;
}

int record_book_read(int dir_fd, const char *path, struct record_book *ret_book,
                     struct fail *ret_fail)
{
    struct record_reader *reader = NULL;
    struct record_book book = {.events = json_array()};
    json_t *event = NULL;
    int r = record_reader_open(dir_fd, path, &reader, ret_fail);
    if (r < 0) {
        json_decref(book.events);
        return r;
    }
    while (record_reader_next(reader, &event) == RECORD_READ_EVENT) {
        (void)json_array_append_new(book.events, event);
    }
    book.reading = *record_reader_state(reader);
    (void)word_line(path_last(path), book.name, sizeof book.name);
    record_reader_free(reader);
    r = make_entries(&book);
    if (r < 0) {
        record_book_done(&book);
        return fail_set(ret_fail, -r, "%.300s", path);
    }
    *ret_book = book;
    return 0;
}

void record_book_done(struct record_book *book)
{
    free(book->entries);
    json_decref(book->events);
    *book = (struct record_book){};
}
