#include "tools/files/listing.h"

#include <errno.h>
#include <string.h>

#include "tests/unit/unit.h"

static struct box_spec spec = {.workspace = "/srv/ann/site",
                               .mounts = {{.name = "sales", .path = "/srv/in"},
                                          {.name = "tmp", .path = "/tmp/shared"},
                                          {.name = "deep", .path = "/srv/in/deep"},
                                          {.name = "in", .path = "/data"},
                                          {.name = "me", .path = "/mnt/c/Users/me"}},
                               .mount_count = 5};

static const char *take(const char *bytes, size_t size, char *out)
{
    spec.paths = box_paths_full;
    json_t *argument = json_stringn_nocheck(bytes, size);
    const char *problem = path_take(&spec, argument, out);
    json_decref(argument);
    return problem;
}

static void path_is_taken_as_it_is(void **)
{
    static const char *const paths[] = {"a", "/", "../x", "/work/../etc/passwd", "é b\n"};
    char out[LIMIT_PATH_BYTES];
    for (unsigned i = 0; i < sizeof paths / sizeof *paths; i++) {
        assert_null(take(paths[i], strlen(paths[i]), out));
        assert_string_equal(out, paths[i]);
    }
}

static void paths_of_the_host_and_of_the_home_directory_are_the_sandboxs(void **)
{
    static const char *const rows[][2] = {
        {"/srv/ann/site/a b.html", "/work/a b.html"},
        {"/srv/ann/site", "/work"},
        {"/srv/ann/site/", "/work/"},
        {"/srv/ann/site2/a", "/srv/ann/site2/a"},
        {"/srv/ann", "/srv/ann"},
        {"/srv/ann/site/../b", "/srv/ann/site/../b"},
        {"/srv/ann/site/..", "/srv/ann/site/.."},
        {"/srv/ann/site/..a", "/work/..a"},
        {"/srv/in/a.csv", "/data/sales/a.csv"},
        {"/srv/in/deep/a.csv", "/data/deep/a.csv"},
        {"/tmp/shared/a", "/data/tmp/a"},
        {"/tmp/own", "/tmp/own"},
        {"/data/sales/a.csv",
         "/data/sales/a.csv"}, /* the sandbox's, though the host has /data too */
        {"/data/a.csv", "/data/a.csv"},
        {"~/notes.txt", "/tmp/home/notes.txt"},
        {"~", "/tmp/home"},
        {"~/site/a.csv", "/work/a.csv"},
        {"~/site", "/work"},
        {"~/site2/a.csv", "/tmp/home/site2/a.csv"},
        {"~ann/notes.txt", "~ann/notes.txt"},
        {"a/~/b", "a/~/b"},
        {"sandpiper://workspace/out/a%20b.csv", "out/a b.csv"},
        {"file:///work/out/a%20b.csv", "/work/out/a b.csv"},
        {"file://localhost/srv/ann/site/a", "/work/a"},
        {"file:///srv/in/a.csv", "/data/sales/a.csv"},
        {"sandbox:/work/a.csv", "/work/a.csv"},
        {"sandbox:a", "sandbox:a"},
        {"file://host/a", "file://host/a"},
        {"file:///a%00b", "file:///a%00b"},
    };
    char out[LIMIT_PATH_BYTES];
    char most[LIMIT_PATH_BYTES] = "~/";
    assert_int_equal(setenv("HOME", "/srv/ann", 1), 0);
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_null(take(rows[i][0], strlen(rows[i][0]), out));
        assert_string_equal(out, rows[i][1]);
    }
    memset(most + 2, 'x', LIMIT_PATH_BYTES - 11);
    assert_null(take(most, LIMIT_PATH_BYTES - 9, out));
    assert_int_equal(strlen(out), LIMIT_PATH_BYTES - 1);
    most[LIMIT_PATH_BYTES - 9] = 'x';
    assert_non_null(take(most, LIMIT_PATH_BYTES - 8, out));
    /* Without a root of its own, the sandbox has the host's paths. */
    spec.paths.work = "/srv/ann/site";
    spec.paths.data = NULL;
    json_t *argument = json_string("/srv/in/a.csv");
    assert_null(path_take(&spec, argument, out));
    assert_string_equal(out, "/srv/in/a.csv");
    json_decref(argument);
    argument = json_string("~/site/a.csv");
    assert_null(path_take(&spec, argument, out));
    assert_string_equal(out, "/srv/ann/site/a.csv");
    json_decref(argument);
}

static void paths_of_windows_are_those_of_wsl_or_are_refused(void **)
{
    static const char *const refused[] = {"D:\\a.txt", "c:/a.txt", "C:\\", "\\\\host\\share\\a"};
    char out[LIMIT_PATH_BYTES];
    for (unsigned i = 0; i < sizeof refused / sizeof *refused; i++) {
        const char *problem = take(refused[i], strlen(refused[i]), out);
        assert_non_null(problem);
        assert_non_null(strstr(problem, "path of Windows"));
    }
    assert_null(take("C:\\Users\\me\\in\\a.txt", 20, out));
    assert_string_equal(out, "/data/me/in/a.txt");
}

static void path_at_the_limit_passes_one_over_fails(void **)
{
    char out[LIMIT_PATH_BYTES];
    char path[LIMIT_PATH_BYTES + 1];
    memset(path, 'x', sizeof path);
    assert_null(take(path, LIMIT_PATH_BYTES - 1, out));
    assert_int_equal(strlen(out), LIMIT_PATH_BYTES - 1);
    const char *problem = take(path, LIMIT_PATH_BYTES, out);
    assert_non_null(problem);
    assert_non_null(strstr(problem, "4095"));
}

static void empty_path_and_nul_are_refused_with_a_sentence(void **)
{
    char out[LIMIT_PATH_BYTES];
    const char *problem = take("", 0, out);
    assert_non_null(problem);
    assert_memory_equal(problem, "/path: is empty", 15);
    problem = take("a\0b", 3, out);
    assert_non_null(problem);
    assert_non_null(strstr(problem, "NUL"));
    assert_non_null(path_take(&spec, NULL, out));
}

static void error_is_a_sentence_with_the_name(void **)
{
    char out[512];
    assert_ptr_equal(path_error(&box_paths_full, "a/b", ENOENT, out, sizeof out), out);
    assert_string_equal(out, "a/b not found.");
    assert_non_null(strstr(path_error(&box_paths_full, "a", ENOSPC, out, sizeof out), "--disk"));
    assert_non_null(
        strstr(path_error(&box_paths_full, "a", EEXIST, out, sizeof out), "mode=\"overwrite\""));
    assert_non_null(strstr(path_error(&box_paths_full, "a", EMEDIUMTYPE, out, sizeof out),
                           "not a regular file"));
    assert_string_equal(path_error(&box_paths_full, "/root/a", EACCES, out, sizeof out),
                        "/root/a is not accessible from the sandbox; what it can use is below "
                        "/work and /tmp.");
    assert_string_equal(path_error(&box_paths_full, "a", EACCES, out, sizeof out),
                        "a is not accessible from the sandbox.");
    assert_non_null(
        strstr(path_error(&box_paths_full, "a", EOVERFLOW, out, sizeof out), "user or group"));
    /* An errno value without a sentence is still reported. */
    assert_string_equal(path_error(&box_paths_full, "a", EXDEV, out, sizeof out),
                        "a Invalid cross-device link.");
}

static void read_only_path_out_of_the_workspace_gets_no_flag(void **)
{
    static const char *const inside[] = {".git/config", "/work/.vscode/a", "a/../.envrc",
                                         "./.zed/b"};
    static const char *const outside[] = {"/usr/a", "../srv", "a/../../opt", "/work/../b",
                                          "/works/c"};
    char out[512];
    for (unsigned i = 0; i < sizeof inside / sizeof *inside; i++) {
        (void)path_error(&box_paths_full, inside[i], EROFS, out, sizeof out);
        assert_non_null(strstr(out, "--allow-write"));
    }
    for (unsigned i = 0; i < sizeof outside / sizeof *outside; i++) {
        (void)path_error(&box_paths_full, outside[i], EROFS, out, sizeof out);
        assert_non_null(strstr(out, "write below /work or /tmp."));
    }
}

static void long_name_leaves_space_for_the_reason(void **)
{
    char path[LIMIT_PATH_BYTES];
    char out[512];
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    assert_non_null(
        strstr(path_error(&box_paths_full, path, ENOENT, out, sizeof out), "xxx\"... not found."));
    (void)path_error(&box_paths_full, path, ENOENT, out, 16);
    assert_int_equal(strlen(out), 15);
}

static void path_that_symlinks_lead_out_of_the_workspace_is_found(void **)
{
    static const struct {
        const char *path;
        const char *leads_to;
        bool out;
    } rows[] = {
        {"a/b", "/tmp/b", true},
        {"/work/a", "/tmp/a", true},
        {"a/../b", "/data/in/b", true},
        {"a/b", "b", false},
        {"/tmp/a", "/tmp/a", false},
        {"../tmp/a", "/tmp/a", false},
        {"/work/../tmp/a", "/tmp/a", false},
        {"../work/a", "a", false},
        {"/data/in/a", "/data/in/a", false},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(path_leads_out(&box_paths_full, rows[i].path, rows[i].leads_to),
                         rows[i].out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(path_is_taken_as_it_is),
        cmocka_unit_test(paths_of_the_host_and_of_the_home_directory_are_the_sandboxs),
        cmocka_unit_test(paths_of_windows_are_those_of_wsl_or_are_refused),
        cmocka_unit_test(path_at_the_limit_passes_one_over_fails),
        cmocka_unit_test(empty_path_and_nul_are_refused_with_a_sentence),
        cmocka_unit_test(error_is_a_sentence_with_the_name),
        cmocka_unit_test(read_only_path_out_of_the_workspace_gets_no_flag),
        cmocka_unit_test(long_name_leaves_space_for_the_reason),
        cmocka_unit_test(path_that_symlinks_lead_out_of_the_workspace_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
