#include "tools/content/mounts.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "sandbox/sandbox.h"
#include "tests/unit/unit.h"

static struct box_spec spec;

static void show(const char *name, const char *path, bool writable)
{
    spec.mounts[spec.mount_count++] =
        (struct box_mount){.name = name, .path = path, .writable = writable};
}

static int set_up(void **)
{
    box_spec_init(&spec);
    return 0;
}

static void expect_described(size_t size, const char *text)
{
    char *out = malloc(size); /* so that a sanitizer reports each byte beyond */
    assert_non_null(out);
    data_describe(&spec, out, size);
    assert_string_equal(out, text);
    free(out);
}

static void directories_are_reported_by_what_code_may_do(void **)
{
    expect_described(64, "");
    show("in", "/srv/in", false);
    expect_described(200, " The user's directories, read-only: /data/in.");
    show("out", "/srv/out", true);
    show("b c", "/srv/b c", false);
    expect_described(
        200, " The user's directories, read-only: /data/in, /data/b c; writable: /data/out.");
    spec.mounts[0].writable = true;
    spec.mounts[2].writable = true;
    expect_described(200, " The user's directories, writable: /data/in, /data/out, /data/b c.");
}

static void the_home_directory_is_reported_once(void **)
{
    show("me/Documents", "/srv/me/Documents", false);
    show("me/Music", "/srv/me/Music", false);
    show("me2", "/srv/me2", false);
    expect_described(200, " The user's directories, read-only: /data/me, /data/me2.");
}

static void a_long_list_is_reported_without_names(void **)
{
    static const char full[] =
        " The user's directories, read-only: /data/inputs-of-2023; writable: /data/out.";
    static const char brief[] =
        " The user's directories are below /data; the instructions list them.";
    show("inputs-of-2023", "/srv/in", false);
    show("out", "/srv/out", true);
    expect_described(sizeof full, full);
    spec.mounts[1].name = "out-";
    for (size_t size = 72; size < sizeof full + 1; size++) {
        expect_described(size, brief);
    }
    spec.mounts[0].name = "a-name-that-alone-is-longer-than-what-there-is-space-for-in-this";
    expect_described(72, brief);
}

static void each_directory_is_listed_with_its_place(void **)
{
    struct buf text = BUF_EMPTY;
    show("in", "/srv/in", false);
    show("out", "/srv/out", true);
    assert_int_equal(data_list(&spec, &text), 0);
    assert_int_equal(buf_append(&text, "", 1), 0);
    assert_string_equal(buf_bytes(&text),
                        "Data: /data/in is the user's directory /srv/in, read-only.\n"
                        "Data: /data/out is the user's directory /srv/out, writable.\n");
    buf_done(&text);
}

static void names_lead_to_data(void **)
{
    static const struct {
        const char *path;
        const char *guess; /* NULL: none */
    } rows[] = {
        {"sales/a.csv", "/data/sales/a.csv"},
        {"/work/sales/a.csv", "/data/sales/a.csv"},
        {"sales", "/data/sales"},
        {"/srv/in/a.csv", NULL},
        {"sales2/a.csv", NULL},
        {"/workers/sales", NULL},
        {"a/sales/a.csv", NULL},
        {"/data/sales/a.csv", NULL},
    };
    char out[64];
    show("other", "/srv/other", false);
    show("sales", "/srv/in", false);
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool found = data_guess(&spec, rows[i].path, out, sizeof out);
        if (found != (rows[i].guess != NULL) || (found && strcmp(out, rows[i].guess) != 0)) {
            fail_msg("%s → %s", rows[i].path, found ? out : "nothing");
        }
    }
    assert_false(data_guess(&spec, "sales/a.csv", out, 10));
}

static void paths_of_the_host_are_explained(void **)
{
    char out[128];
    show("sales", "/srv/in", false);
    spec.workspace = "/srv/ann/site";
    assert_true(data_explain(&spec, "[Errno 2] No such file: '/srv/in/a.csv'", out, sizeof out));
    assert_string_equal(out, "the user's directory /srv/in is /data/sales here");
    assert_true(data_explain(&spec, "/srv/ann/site/b.npy not found.", out, sizeof out));
    assert_string_equal(out, "the user's directory /srv/ann/site is /work here");
    assert_true(data_explain(&spec, "no /srv/input and no '/srv/in'", out, sizeof out));
    assert_false(data_explain(&spec, "/data/srv/in/a", out, sizeof out));
    assert_false(data_explain(&spec, "/srv/in.csv /srv/input /srv", out, sizeof out));
    assert_false(data_explain(&spec, "", out, sizeof out));
    spec.workspace = "/work"; /* as in a container of the server's own */
    assert_false(data_explain(&spec, "'/work/a.csv'", out, sizeof out));
}

/* Without its own root, the sandbox has them at their paths on the host. */
static void without_mounts_the_host_paths_are_reported(void **)
{
    char out[64];
    struct buf text = BUF_EMPTY;
    spec.paths.data = NULL;
    show("in", "/srv/in", false);
    show("me/Music", "/srv/me/Music", true);
    expect_described(200, " The user's directories, read-only: /srv/in; writable: /srv/me/Music.");
    assert_int_equal(data_list(&spec, &text), 0);
    assert_int_equal(buf_append(&text, "", 1), 0);
    assert_string_equal(buf_bytes(&text),
                        "Data: /srv/in is the user's directory, read-only.\n"
                        "Data: /srv/me/Music is the user's directory, writable.\n");
    buf_done(&text);
    assert_true(data_guess(&spec, "in/a.csv", out, sizeof out));
    assert_string_equal(out, "/srv/in/a.csv");
    assert_false(data_guess(&spec, "/srv/in/a.csv", out, sizeof out));
}

#define DATA_TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        DATA_TEST(directories_are_reported_by_what_code_may_do),
        DATA_TEST(the_home_directory_is_reported_once),
        DATA_TEST(a_long_list_is_reported_without_names),
        DATA_TEST(each_directory_is_listed_with_its_place),
        DATA_TEST(names_lead_to_data),
        DATA_TEST(paths_of_the_host_are_explained),
        DATA_TEST(without_mounts_the_host_paths_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
