#include "record/reader.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/own.h"
#include "record/book.h"
#include "record/escape.h"
#include "record/export.h"
#include "record/show.h"
#include "tests/unit/unit.h"

#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"
#define BEGIN "{\"v\":1,\"seq\":0,\"time\":\"2026-11-22T10:15:02.123Z\",\"prev\":\"" ZEROS "\","

static char path[] = "/tmp/sp-reader-XXXXXX";

static int make_file(void **)
{
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **)
{
    return unlink(path);
}

static void put(const char *bytes, size_t size)
{
    defer_fclose FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
}

/* Reads the file to its end. Returns how the last step ended. */
static enum record_read read_all(struct record_reading *ret_state)
{
    struct record_reader *reader = NULL;
    struct fail fail = {};
    json_t *event = NULL;
    enum record_read step = RECORD_READ_END;
    assert_int_equal(record_reader_open(AT_FDCWD, path, &reader, &fail), 0);
    while ((step = record_reader_next(reader, &event)) == RECORD_READ_EVENT) {
        json_decref(event);
    }
    *ret_state = *record_reader_state(reader);
    record_reader_free(reader);
    return step;
}

/* A chain of three lines. */
static size_t make_chain(char text[2048], size_t starts[4])
{
    char prev[SHA256_TEXT] = ZEROS;
    size_t size = 0;
    for (int i = 0; i < 3; i++) {
        starts[i] = size;
        size += (size_t)snprintf(
            text + size, 2048 - size,
            "{\"v\":1,\"seq\":%d,\"time\":\"2026-11-22T10:15:02.123Z\",\"kind\":\"%s\",\"prev\":"
            "\"%s\",\"text\":\"%d\"}\n",
            i,
            i == 0   ? "start"
            : i == 2 ? "end"
                     : "undo",
            prev, i);
        (void)sha256_of(text + starts[i], size - starts[i] - 1, prev);
    }
    starts[3] = size;
    return size;
}

static void an_altered_removed_or_moved_line_is_found(void **)
{
    struct record_reading state;
    char text[2048];
    char other[2048];
    size_t starts[4];
    size_t size = make_chain(text, starts);
    put(text, size);
    assert_int_equal(read_all(&state), RECORD_READ_END);
    assert_int_equal(state.altered, 0);
    assert_true(state.ended && state.lines == 3 && !state.torn);

    memcpy(other, text, size); /* the second line says something else */
    other[starts[2] - 4] = '7';
    put(other, size);
    (void)read_all(&state);
    assert_int_equal(state.altered, 2);

    memcpy(other, text, size); /* it is missing */
    memcpy(other + starts[1], text + starts[2], size - starts[2]);
    put(other, size - (starts[2] - starts[1]));
    (void)read_all(&state);
    assert_int_equal(state.altered, 2);

    put(text + starts[1], size - starts[1]); /* the first is */
    (void)read_all(&state);
    assert_int_equal(state.altered, 1);

    put(text, size - 5); /* the last line is torn */
    assert_int_equal(read_all(&state), RECORD_READ_END);
    assert_true(state.torn && state.altered == 0 && state.lines == 2);

    put("", 0);
    assert_int_equal(read_all(&state), RECORD_READ_END);
    assert_true(!state.torn && !state.ended && state.altered == 0);
}

static void other_lines_are_refused_with_their_number(void **)
{
    static const char *const rows[] = {
        "",
        "null",
        "[]",
        "{}",
        "{\"v\":1}",
        BEGIN "\"kind\":\"a b\"}",
        BEGIN "\"kind\":\"\"}",
        BEGIN "\"kind\":\"cell\\u0000\"}",
        BEGIN "\"kind\":\"cell\",\"call\":-1}",
        BEGIN "\"kind\":\"cell\",\"call\":99999999999999999}",
        BEGIN "\"kind\":\"cell\",\"call\":1.5}",
        BEGIN "\"kind\":\"cell\",\"code\":7}",
        BEGIN "\"kind\":\"cell\",\"session\":{}}",
        BEGIN "\"kind\":\"result\",\"output\":[\"x\"]}",
        BEGIN "\"kind\":\"result\",\"output\":[[\"x\",1]]}",
        BEGIN "\"kind\":\"result\",\"images\":[1]}",
        BEGIN "\"kind\":\"start\",\"settings\":{}}",
        BEGIN "\"kind\":\"cell\",\"kind\":\"cell\"}",
        BEGIN "\"kind\":\"cell\"",
    };
    struct record_reading state;
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        char line[512];
        int size = snprintf(line, sizeof line, "%s\n", rows[i]);
        put(line, (size_t)size);
        assert_int_equal(read_all(&state), RECORD_READ_END);
        assert_non_null(strstr(state.why, "line 1: "));
    }
    char deep[1024];
    size_t used = (size_t)snprintf(deep, sizeof deep, BEGIN "\"kind\":\"cell\",\"x\":");
    memset(deep + used, '[', 80);
    memset(deep + used + 80, ']', 80);
    deep[used + 160] = '}';
    deep[used + 161] = '\n';
    put(deep, used + 162);
    assert_int_equal(read_all(&state), RECORD_READ_END);
    assert_int_equal(state.unreadable, 1);
}

static void a_line_of_more_than_64_mib_is_refused(void **)
{
    struct record_reading state;
    put("", 0);
    assert_int_equal(truncate(path, 70 << 20), 0);
    assert_int_equal(read_all(&state), RECORD_READ_BAD);
    assert_non_null(strstr(state.why, "64 MiB"));
}

static void only_regular_files_are_read(void **)
{
    struct record_reader *reader = NULL;
    struct fail fail = {};
    assert_true(record_reader_open(AT_FDCWD, "/dev/zero", &reader, &fail) < 0);
    assert_true(record_reader_open(AT_FDCWD, "/tmp", &reader, &fail) < 0);
}

/* --- the book --- */

static void add(struct buf *text, const char *kind, const char *members)
{
    static int seq;
    buf_appendf(text,
                "{\"v\":1,\"seq\":%d,\"time\":\"2026-11-22T10:15:02.123Z\",\"kind\":\"%s\","
                "\"prev\":\"" ZEROS "\",%s}\n",
                seq++, kind, members);
}

static void cell(struct buf *text, int number, const char *outcome, const char *state)
{
    char members[256];
    (void)snprintf(
        members, sizeof members,
        "\"call\":%d,\"session\":\"default\",\"cell\":%d,\"code\":\"x\",\"arguments\":{}", number,
        number);
    add(text, "cell", members);
    (void)snprintf(members, sizeof members,
                   "\"call\":%d,\"session\":\"default\",\"outcome\":\"%s\",\"state\":\"%s\"",
                   number, outcome, state);
    add(text, "result", members);
}

static void what_led_to_the_final_state_is_live(void **)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    struct record_book book;
    struct fail fail = {};
    cell(&text, 1, "ok", "kept");
    cell(&text, 2, "ok", "kept");
    add(&text, "restore", "\"session\":\"default\",\"to\":1");
    cell(&text, 3, "error", "kept");
    cell(&text, 4, "crashed", "restored");
    add(&text, "undo", "\"session\":\"default\",\"to\":2"); /* what the restore took back */
    cell(&text, 5, "timeout", "interrupted");
    cell(&text, 6, "ok", "kept");
    put(buf_bytes(&text), buf_size(&text));
    assert_int_equal(record_book_read(AT_FDCWD, path, &book, &fail), 0);
    static const enum record_fate expected[] = {RECORD_LIVE, RECORD_LIVE, RECORD_UNDONE,
                                                RECORD_GONE, RECORD_CUT,  RECORD_LIVE};
    unsigned at = 0;
    for (size_t i = 0; i < book.count; i++) {
        if (strcmp(book.entries[i].kind, "cell") == 0) {
            assert_int_equal(book.entries[i].fate, expected[at++]);
        }
    }
    assert_int_equal(at, 6);
    record_book_done(&book);
}

static void no_text_of_a_session_is_obeyed(void **)
{
    static const char evil[] =
        "\\u001b]52;c;x\\u0007\\u202e<script>alert(1)</script>\\\" "
        "onerror=\\\"x\\u009b1m```\\r";
    static const char *const formats[] = {"html", "md", "py", NULL};
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    struct record_book book;
    struct fail fail = {};
    char members[2048];
    (void)snprintf(
        members, sizeof members,
        "\"session\":\"%s\",\"code\":\"%s\",\"call\":1,\"cell\":1,\"arguments\":{\"path\":"
        "\"%s\"},\"tool\":\"%s\",\"host\":\"%s\",\"rule\":\"%s\",\"text\":\"%s\"",
        evil, evil, evil, evil, evil, evil, evil);
    add(&text, "cell", members);
    (void)snprintf(members, sizeof members,
                   "\"call\":1,\"output\":[[\"%s\",\"%s\"]],\"value\":\"%s\",\"status\":\"%s\","
                   "\"traceback\":\"%s\",\"outcome\":\"refused\",\"refusal\":\"%s\","
                   "\"images\":[{\"data\":\"iVBORw0KGgo\\\"><script>\"}]",
                   evil, evil, evil, evil, evil, evil);
    add(&text, "result", members);
    (void)snprintf(members, sizeof members, "\"host\":\"%s\",\"rule\":\"%s\",\"decision\":\"%s\"",
                   evil, evil, evil);
    add(&text, "network", members);
    (void)snprintf(
        members, sizeof members,
        "\"tool\":\"%s\",\"arguments\":{\"path\":\"%s\"},\"content\":[{\"text\":\"%s\"}]", evil,
        evil, evil);
    add(&text, "change", members);
    put(buf_bytes(&text), buf_size(&text));
    assert_int_equal(record_book_read(AT_FDCWD, path, &book, &fail), 0);
    for (unsigned i = 0; i < sizeof formats / sizeof *formats; i++) {
        OWNED(buf_done) struct buf out = BUF_EMPTY;
        OWNED(buf_done) struct buf notes = BUF_EMPTY;
        if (formats[i]) {
            record_export_find(formats[i])(&book, NULL, &out, &notes);
        } else {
            record_show(&book, /* colours= */ false, &out);
            record_why(&book, 0, &out);
            record_summary(&book, &out);
        }
        for (size_t at = 0; at < buf_size(&out); at++) {
            unsigned char c = (unsigned char)buf_bytes(&out)[at];
            assert_true(c == '\n' || c == '\t' || (c >= ' ' && c != 0x7F));
        }
        assert_null(memmem(buf_bytes(&out), buf_size(&out), "\u202e", 3));
        assert_null(memmem(buf_bytes(&out), buf_size(&out), "\xc2\x9b", 2));
        bool is_page = formats[i] && strcmp(formats[i], "html") == 0;
        assert_true(!is_page || !memmem(buf_bytes(&out), buf_size(&out), "<script", 7));
        assert_true(!is_page || !memmem(buf_bytes(&out), buf_size(&out), "<img", 4));
    }
    record_book_done(&book);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_altered_removed_or_moved_line_is_found),
        cmocka_unit_test(other_lines_are_refused_with_their_number),
        cmocka_unit_test(a_line_of_more_than_64_mib_is_refused),
        cmocka_unit_test(only_regular_files_are_read),
        cmocka_unit_test(what_led_to_the_final_state_is_live),
        cmocka_unit_test(no_text_of_a_session_is_obeyed),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
