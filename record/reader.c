#include "record/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/own.h"
#include "rpc/text.h"

enum { PIECE_BYTES = 256 * 1024, TIME_BYTES = sizeof "2026-11-22T10:15:02.123Z" - 1 };

struct record_reader {
    int fd;
    struct buf bytes;
    size_t searched; /* of bytes, without a newline */
    bool at_end;
    char prev[SHA256_TEXT]; /* of the line before */
    struct record_reading state;
};

int record_reader_open(int dir_fd, const char *path, struct record_reader **ret_reader,
                       struct fail *ret_fail)
{
    struct stat st;
    defer_close int fd = openat(dir_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        return fail_set(ret_fail, errno, "%.300s", path);
    }
    if (!S_ISREG(st.st_mode)) {
        (void)fail_set(ret_fail, 0, "%.300s is not a regular file", path);
        return -EINVAL;
    }
    struct record_reader *reader = calloc(1, sizeof *reader);
    if (!reader) {
        return fail_set(ret_fail, ENOMEM, "%.300s", path);
    }
    reader->fd = take_fd(&fd);
    memset(reader->prev, '0', sizeof reader->prev - 1);
    memcpy(reader->state.hash, reader->prev, sizeof reader->prev);
    *ret_reader = reader;
    return 0;
}

void record_reader_free(struct record_reader *reader)
{
    if (reader) {
        own_close(&reader->fd);
        buf_done(&reader->bytes);
        free(reader);
    }
}

const struct record_reading *record_reader_state(const struct record_reader *reader)
{
    return &reader->state;
}

/* The next line is no event. */
static void note_unreadable(struct record_reading *state, const char *why)
{
    if (state->unreadable == 0) {
        state->unreadable = state->lines + 1;
        (void)snprintf(state->why, sizeof state->why, "line %zu: %s", state->unreadable, why);
    }
}

/* Size of the next line without its newline; -ENODATA: there is none, -EFBIG, or -errno. */
static ssize_t find_line(struct record_reader *reader)
{
    for (;;) {
        const char *bytes = buf_bytes(&reader->bytes);
        size_t size = buf_size(&reader->bytes);
        const char *end = size > reader->searched
                              ? memchr(bytes + reader->searched, '\n', size - reader->searched)
                              : NULL;
        char *space = NULL;
        reader->searched = size;
        if (end && end - bytes <= (ssize_t)LIMIT_RECORD_LINE_BYTES) {
            return end - bytes;
        }
        if (end || size > LIMIT_RECORD_LINE_BYTES) {
            return -EFBIG;
        }
        if (reader->at_end) {
            reader->state.torn = size > 0;
            return -ENODATA;
        }
        if (buf_reserve(&reader->bytes, PIECE_BYTES, &space) < 0) {
            return -ENOMEM;
        }
        ssize_t got = read(reader->fd, space, PIECE_BYTES);
        if (got < 0 && errno != EINTR) {
            return -errno;
        }
        buf_commit(&reader->bytes, got > 0 ? (size_t)got : 0);
        reader->at_end = got == 0;
    }
}

/* --- what an event may have --- */

static bool is_number(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 0 &&
           json_integer_value(value) <= (json_int_t)1 << 53;
}

static bool is_array_of(const json_t *value, bool (*is)(const json_t *item))
{
    size_t i = 0;
    json_t *item = NULL;
    if (!json_is_array(value)) {
        return false;
    }
    json_array_foreach (value, i, item) {
        if (!is(item)) {
            return false;
        }
    }
    return true;
}

static bool is_text(const json_t *value)
{
    return json_is_string(value);
}

static bool is_object(const json_t *value)
{
    return json_is_object(value);
}

static bool is_piece(const json_t *value)
{
    return json_array_size(value) == 2 && is_array_of(value, is_text);
}

static bool is_cell(const json_t *value)
{
    return json_is_null(value) || is_number(value);
}

static bool is_truth(const json_t *value)
{
    return json_is_boolean(value);
}

/* The members that readers rely on, by their types. */
static const struct {
    bool (*is)(const json_t *value);
    const char *names; /* a blank between them */
    bool is_list;      /* of such values */
} members[] = {
    {is_text,
     "answer arguments_sha256 code code_sha256 content_sha256 decision error_message "
     "error_type files_note hint host isolation kind message name note outcome "
     "output_sha256 path prev python refusal rule saved session setting sha256 state "
     "status subject text time tool tools traceback value version why"},
    {is_number,
     "arguments_bytes call code_bytes content_bytes duration_ms exit_code job missed "
     "output_bytes port restored_cell seq signal size timeout_ms to v"},
    {is_cell, "cell"},
    {is_truth, "cut failed is_error sent"},
    {is_text, "file_kinds file_sizes notes", .is_list = true},
    {is_piece, "output", .is_list = true},
    {is_object, "arguments"},
    {is_object, "content images installed protections settings", .is_list = true},
};

static bool has_name(const char *names, const char *name)
{
    while (*names) {
        size_t size = strcspn(names, " ");
        if (strlen(name) == size && memcmp(names, name, size) == 0) {
            return true;
        }
        names += size + strspn(names + size, " ");
    }
    return false;
}

static bool has_type(const char *name, const json_t *value)
{
    unsigned i = 0;
    while (i < sizeof members / sizeof *members && !has_name(members[i].names, name)) {
        i++;
    }
    return i == sizeof members / sizeof *members ||
           (members[i].is_list ? is_array_of(value, members[i].is) : members[i].is(value));
}

static bool is_kind(const char *kind)
{
    return kind[0] && kind[strspn(kind, "abcdefghijklmnopqrstuvwxyz")] == '\0';
}

/* What is wrong with an event, or NULL. text: for it. */
static const char *find_mistake(const json_t *event, char text[64])
{
    static const char *const needed[] = {"v", "seq", "time", "kind", "prev"};
    const char *name = NULL;
    json_t *value = NULL;
    for (unsigned i = 0; i < sizeof needed / sizeof *needed; i++) {
        if (!json_object_get(event, needed[i])) {
            (void)snprintf(text, 64, "%s is missing", needed[i]);
            return text;
        }
    }
    json_object_foreach ((json_t *)(uintptr_t)event, name, value) {
        if (!has_type(name, value)) {
            (void)snprintf(text, 64, "%s has another type or is out of range", name);
            return text;
        }
    }
    if (json_integer_value(json_object_get(event, "v")) != 1) {
        return "is of another version of the format";
    }
    return !rpc_text_plain(json_object_get(event, "kind")) ||
                   !is_kind(json_string_value(json_object_get(event, "kind")))
               ? "kind is no word"
           : json_string_length(json_object_get(event, "time")) != TIME_BYTES ? "time is no time"
                                                                              : NULL;
}

/* --- lines --- */

/* New: the event of a line; NULL: what is wrong with it is in *ret_mistake. text: for that. */
static json_t *load_event(const char *bytes, size_t size, char text[64], const char **ret_mistake)
{
    json_auto_t *event = rpc_text_value(bytes, size, LIMIT_RECORD_JSON_DEPTH);
    *ret_mistake =
        json_is_object(event) ? find_mistake(event, text) : "is no JSON object, or nests too deep";
    return *ret_mistake ? NULL : json_incref(event);
}

/* Whether the event's number and hash follow from the lines before, and it stands in its place: a
 * record has one start and one end. */
static void check_link(struct record_reader *reader, const json_t *event)
{
    struct record_reading *state = &reader->state;
    size_t seq = (size_t)json_integer_value(json_object_get(event, "seq"));
    bool linked = strcmp(json_string_value(json_object_get(event, "prev")), reader->prev) == 0;
    const char *kind = json_string_value(json_object_get(event, "kind"));
    bool is_misplaced =
        seq != state->lines || state->ended || (strcmp(kind, "start") == 0) != (state->lines == 0);
    if (state->altered == 0 && (is_misplaced || !linked)) {
        /* In the right place, it is the line before that has another hash. */
        state->altered = state->lines + (is_misplaced || state->lines == 0);
    }
    state->ended = state->ended || strcmp(kind, "end") == 0;
}

enum record_read record_reader_next(struct record_reader *reader, json_t **ret_event)
{
    char text[64];
    const char *mistake = NULL;
    struct record_reading *state = &reader->state;
    json_t *event = NULL;
    while (!event) {
        ssize_t size = find_line(reader);
        if (size == -ENODATA) {
            return RECORD_READ_END;
        }
        if (size < 0) {
            note_unreadable(state, size == -EFBIG ? "is longer than 64 MiB; the rest is left out"
                                                  : strerror((int)-size));
            return RECORD_READ_BAD;
        }
        event = load_event(buf_bytes(&reader->bytes), (size_t)size, text, &mistake);
        if (event) {
            check_link(reader, event);
        } else {
            note_unreadable(state, mistake);
        }
        (void)sha256_of(buf_bytes(&reader->bytes), (size_t)size, reader->prev);
        memcpy(state->hash, reader->prev, sizeof state->hash);
        state->lines++;
        buf_consume(&reader->bytes, (size_t)size + 1);
        reader->searched = 0;
    }
    *ret_event = event;
    return RECORD_READ_EVENT;
}
