#include "record/record.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/own.h"
#include "tests/unit/unit.h"

enum { TEXT_BYTES = 1 << 20 };

struct place {
    char directory[64];
    char text[TEXT_BYTES]; /* of the last record */
    size_t size;
};

static int make_place(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    assert_non_null(place);
    (void)snprintf(place->directory, sizeof place->directory, "/tmp/sp-record-XXXXXX");
    assert_non_null(mkdtemp(place->directory));
    *state = place;
    return 0;
}

static int remove_place(void **state)
{
    struct place *place = *state;
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf %s", place->directory);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c): a fixed command */
    free(place);
    return 0;
}

static struct record *open_record(const struct place *place, uint64_t bytes)
{
    struct fail fail = {};
    struct record *record =
        record_new(&(struct record_config){.directory = place->directory, .bytes = bytes});
    assert_non_null(record);
    assert_true(record_open(record, &fail));
    return record;
}

static void read_last(struct place *place)
{
    struct fail fail = {};
    OWNED(record_names_done) struct record_names names = {};
    defer_close int dir_fd = record_directory_open(place->directory, false, &fail);
    record_directory_list(dir_fd, &names);
    assert_true(names.count > 0);
    defer_close int fd = openat(dir_fd, names.at[names.count - 1], O_RDONLY);
    ssize_t size = fd_pread_all(fd, place->text, TEXT_BYTES - 1, 0);
    assert_true(size >= 0);
    place->size = (size_t)size;
    place->text[size] = '\0';
}

static void each_line_has_the_hash_of_the_one_before(void **state)
{
    struct place *place = *state;
    char prev[SHA256_TEXT];
    json_int_t seq = 0;
    struct record *record = open_record(place, 1 << 20);
    for (int i = 0; i < 5; i++) {
        record_add(record, "cell", json_pack("{s:i}", "number", i));
    }
    record_end(record, "a test");
    record_free(record);
    read_last(place);
    memset(prev, '0', sizeof prev - 1);
    prev[sizeof prev - 1] = '\0';
    char *rest = place->text;
    for (char *line = NULL; (line = strsep(&rest, "\n")) && *line; seq++) {
        json_auto_t *event = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        assert_int_equal(json_integer_value(json_object_get(event, "seq")), seq);
        assert_string_equal(json_string_value(json_object_get(event, "prev")), prev);
        (void)sha256_of(line, strlen(line), prev);
    }
    assert_int_equal(seq, 7); /* with start and end */
}

static void events_beyond_the_bound_are_counted(void **state)
{
    struct place *place = *state;
    struct record *record = open_record(place, 1 << 20);
    record_add(record, "cell", json_object());
    for (unsigned i = 0; i < LIMIT_RECORD_CAUSED + 5; i++) {
        record_add_caused(record, "network", json_object());
    }
    record_add_missed(record, 7);
    record_end(record, "a test");
    record_free(record);
    read_last(place);
    assert_non_null(strstr(place->text, "\"missed\":12}"));
}

static void a_failed_write_leaves_whole_lines(void **state)
{
    struct place *place = *state;
    struct rlimit before;
    struct record *record = open_record(place, 1 << 20);
    record_add(record, "cell", json_pack("{s:s}", "code", "1"));
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit small = {600, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (int i = 0; i < 10; i++) {
        record_add(record, "cell", json_pack("{s:s}", "code", "a longer line of the record"));
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_non_null(strstr(record_take_news(record), "the record has ended"));
    assert_string_equal(record_take_news(record), "");
    record_add(record, "cell", json_object());
    record_free(record);
    read_last(place);
    assert_true(place->size < 600);
    assert_int_equal(place->text[place->size - 1], '\n');
}

static void make_file(const struct place *place, const char *name, const char *begin, size_t size)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", place->directory, name);
    defer_fclose FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(begin, file) >= 0);
    assert_int_equal(ftruncate(fileno(file), (off_t)size), 0);
}

static bool exists(const struct place *place, const char *name)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", place->directory, name);
    return access(path, F_OK) == 0;
}

static void the_oldest_records_make_space(void **state)
{
    struct place *place = *state;
    static const char oldest[] = "2020-01-01T00-00-00Z-1.jsonl";
    static const char held[] = "2020-01-02T00-00-00Z-1-2.jsonl";
    static const char other[] = "2020-01-03T00-00-00Z-1.jsonl";
    static const char newest[] = "2020-01-04T00-00-00Z-1.jsonl";
    static const char notes[] = "notes.jsonl";
    char path[128];
    make_file(place, oldest, RECORD_BEGIN, 600 << 10);
    make_file(place, held, RECORD_BEGIN, 10);
    make_file(place, held, RECORD_BEGIN, 200 << 10);
    make_file(place, other, "{\"mine\":1}", 10);
    make_file(place, newest, RECORD_BEGIN, 100 << 10);
    make_file(place, notes, RECORD_BEGIN, 100 << 10);
    (void)snprintf(path, sizeof path, "%s/%s", place->directory, held);
    defer_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    struct record *record = open_record(place, 900 << 10);
    record_add(record, "cell", json_object());
    record_free(record);
    assert_false(exists(place, oldest));
    assert_true(exists(place, held));
    assert_true(exists(place, other));
    assert_true(exists(place, newest));
    assert_true(exists(place, notes));
}

static void outputs_are_left_out_at_a_quarter_and_all_ends_at_half(void **state)
{
    struct place *place = *state;
    char code[4096];
    memset(code, 'x', sizeof code - 1);
    code[sizeof code - 1] = '\0';
    struct record *record = open_record(place, 64 << 10);
    for (int i = 0; i < 3; i++) {
        assert_true(record_has_space(record, 100));
        record_add(record, "cell", json_pack("{s:s}", "code", code));
    }
    assert_false(record_has_space(record, 8000));
    assert_false(record_has_space(record, 1));
    assert_non_null(strstr(record_take_news(record), "without outputs"));
    for (int i = 0; i < 10; i++) {
        record_add(record, "cell", json_pack("{s:s}", "code", code));
    }
    assert_non_null(strstr(record_take_news(record), "the record has ended"));
    record_free(record);
    read_last(place);
    assert_true(place->size <= 32 << 10);
    const char *note = strstr(place->text, "\"note\"");
    assert_non_null(note);
    assert_null(strstr(note + 1, "\"note\""));
}

static void other_directories_are_refused(void **state)
{
    struct place *place = *state;
    struct fail fail = {};
    struct record_config config = {place->directory, 1 << 20, .required = true};
    assert_int_equal(chmod(place->directory, 0750), 0);
    assert_true(record_check(place->directory, &fail) < 0);
    struct record *record = record_new(&config);
    assert_false(record_open(record, &fail));
    record_add(record, "cell", json_object());
    record_free(record);
    struct stat st;
    assert_int_equal(stat(place->directory, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0750);
}

static void messages_lose_what_urls_hide(void **)
{
    static const char *const rows[][2] = {
        {"see https://user:secret@a.org/x?token=1#frag now", "see https://a.org/x now"},
        {"(http://a@b@c.org)", "(http://c.org)"},
        {"git+ssh://u:p@h/p?q", "git+ssh://h/p"},
        {"https://u:p(w@h/x", "https://h/x"},
        {"socks5://u:secret@h:80/x s3://k:secret@b", "socks5://h:80/x s3://b"},
        {"https://u:p'secret@h/x", "https://h/x"},
        {"https://u:se/secret@h 'https://h:8080/@x': no", "https://h 'https://h:8080/@x': no"},
        {"https://h/x?token=a,secret;b end", "https://h/x end"},
        {"https://h: refused, ask x@y", "https://h: refused, ask x@y"},
        {"no URL: a@b ? c", "no URL: a@b ? c"},
        {"https://", "https://"},
        {"", ""},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_auto_t *clean = record_message(rows[i][0], strlen(rows[i][0]));
        assert_string_equal(json_string_value(clean), rows[i][1]);
    }
}

static void names_of_records_are_known(void **)
{
    assert_true(record_is_name("2026-11-22T10-15-02Z-4711.jsonl"));
    assert_true(record_is_name("2026-11-22T10-15-02Z-4711-2.jsonl"));
    assert_false(record_is_name("2026-11-22T10-15-02Z-.jsonl"));
    assert_false(record_is_name("2026-11-22T10-15-02Z-4711.jsonl.bak"));
    assert_false(record_is_name("x2026-11-22T10-15-02Z-4711.jsonl"));
    assert_false(record_is_name("notes.jsonl"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_line_has_the_hash_of_the_one_before, make_place,
                                        remove_place),
        cmocka_unit_test_setup_teardown(events_beyond_the_bound_are_counted, make_place,
                                        remove_place),
        cmocka_unit_test_setup_teardown(a_failed_write_leaves_whole_lines, make_place,
                                        remove_place),
        cmocka_unit_test_setup_teardown(the_oldest_records_make_space, make_place, remove_place),
        cmocka_unit_test_setup_teardown(outputs_are_left_out_at_a_quarter_and_all_ends_at_half,
                                        make_place, remove_place),
        cmocka_unit_test_setup_teardown(other_directories_are_refused, make_place, remove_place),
        cmocka_unit_test(messages_lose_what_urls_hide),
        cmocka_unit_test(names_of_records_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
