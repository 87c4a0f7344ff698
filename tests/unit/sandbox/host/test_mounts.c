#include "sandbox/host/mounts.h"

#include <errno.h>
#include <linux/limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox/host/python.h"
#include "sandbox/sandbox.h"
#include "tests/unit/temp.h"
#include "tests/unit/unit.h"

static struct temp temp;
static struct box_spec spec;
static struct box_mounts_wanted wanted;
static struct fail failure;

static const char *at(const char *name)
{
    static char paths[8][PATH_MAX];
    static unsigned next;
    return temp_path(&temp, name, paths[next++ % 8]);
}

static int set_up(void **)
{
    temp_make(&temp);
    temp_directory(&temp, "home/.ssh");
    temp_directory(&temp, "home/Documents");
    temp_directory(&temp, "home/Music");
    temp_directory(&temp, "srv/in/deep");
    temp_directory(&temp, "srv/out");
    temp_directory(&temp, "work");
    temp_file(&temp, "srv/file", "", 0644);
    temp_file(&temp, "home/notes.txt", "", 0644);
    temp_link(&temp, "in", "srv/link");
    temp_link(&temp, "../srv/in", "home/link");
    (void)setenv("HOME", at("home"), 1);
    (void)unsetenv("XDG_CACHE_HOME");
    box_spec_init(&spec);
    wanted = (struct box_mounts_wanted){};
    failure = (struct fail){};
    return 0;
}

static int tear_down(void **)
{
    box_mounts_done(&spec);
    temp_remove(&temp);
    return 0;
}

/* text: "DIR…" below the test's directory. */
static int resolve(const char *text)
{
    static char words[PATH_MAX + 64];
    (void)snprintf(words, sizeof words, "%s/%s", temp.path, text);
    wanted.at[wanted.count++] = words;
    failure = (struct fail){};
    box_mounts_done(&spec);
    int r = box_mounts_resolve(&spec, &wanted, &failure);
    wanted.count = 0;
    return r;
}

static void expect_refused(const char *text, const char *word)
{
    char sentence[FAIL_TEXT + 128];
    int r = resolve(text);
    (void)fail_describe(&failure, sentence, sizeof sentence);
    if (r >= 0 || !strstr(sentence, word) || spec.mount_count != 0) {
        fail_msg("%s: \"%s\"", text, sentence);
    }
}

static void expect_shown(const char *text, const char *name, const char *path)
{
    if (resolve(text) < 0) {
        fail_msg("%s: %s", text, failure.text);
    }
    assert_int_equal(spec.mount_count, 1);
    assert_string_equal(spec.mounts[0].name, name);
    assert_string_equal(spec.mounts[0].path, at(path));
}

static void directory_name_and_access_are_parsed(void **)
{
    static const struct {
        const char *text;
        const char *dir;
        const char *name; /* NULL: none */
        bool writable;
    } rows[] = {
        {"/a", "/a", NULL, false},          {"/a:rw", "/a", NULL, true},
        {"/a:ro", "/a", NULL, false},       {"/a:b", "/a", "b", false},
        {"/a:b:rw", "/a", "b", true},       {"/a:rw:ro", "/a", "rw", false},
        {"/a:rw:rw", "/a", "rw", true},     {"/a:b/c", "/a:b/c", NULL, false},
        {"/a:b/c:d", "/a:b/c", "d", false}, {"/a:b:c", "/a:b", "c", false},
        {"rw", "rw", NULL, false},          {"/a: b ", "/a", " b ", false},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[32];
        const char *dir = NULL;
        const char *name = NULL;
        bool writable = !rows[i].writable;
        (void)snprintf(text, sizeof text, "%s", rows[i].text);
        assert_int_equal(box_mount_split(text, &dir, &name, &writable, &failure), 0);
        assert_string_equal(dir, rows[i].dir);
        assert_string_equal(name ? name : "-", rows[i].name ? rows[i].name : "-");
        assert_int_equal(writable, rows[i].writable);
    }
}

static void an_invalid_name_is_refused(void **)
{
    static const char *const texts[] = {
        "",      ":a",     ":a:rw",  "/a:",  "/a::rw",  "/a:.",
        "/a:..", "/a:...", "/a:b\n", "/a\t", "/a:\xff", "/\xc3",
    };
    char name[300];
    const char *dir = NULL;
    const char *part = NULL;
    bool writable = false;
    for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++) {
        (void)snprintf(name, sizeof name, "%s", texts[i]);
        if (box_mount_split(name, &dir, &part, &writable, &failure) != -EINVAL ||
            !strstr(failure.text, "DIR[:NAME][:rw]")) {
            fail_msg("\"%s\" is taken", texts[i]);
        }
    }
    memset(name, 'x', sizeof name);
    memcpy(name, "/a:", 3);
    name[3 + 255] = '\0';
    assert_int_equal(box_mount_split(name, &dir, &part, &writable, &failure), 0);
    memset(name, 'x', sizeof name);
    memcpy(name, "/a:", 3);
    name[3 + 256] = '\0';
    assert_int_equal(box_mount_split(name, &dir, &part, &writable, &failure), -EINVAL);
}

static void text_is_utf_8_without_control_characters(void **)
{
    static const char *const good[] = {"", "a b", "\u00e9", "\u20ac", "\U0001f600", "\xed\x9f\xbf"};
    static const char *const bad[] = {"\x01",
                                      "a\n",
                                      "\x7f",
                                      "\x80",
                                      "\xc0\x80",
                                      "\xc3",
                                      "\xe0\x80\x80",
                                      "\xed\xa0\x80",
                                      "\xf0\x80\x80\x80",
                                      "\xf4\x90\x80\x80",
                                      "\xf5"};
    for (unsigned i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(box_mount_is_text(good[i]));
    }
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(box_mount_is_text(bad[i]));
    }
}

static void a_directory_is_known_by_its_real_path(void **)
{
    struct stat st;
    assert_int_equal(stat(at("srv/in"), &st), 0);
    assert_int_equal(resolve("srv/in"), 0);
    assert_int_equal(spec.mounts[0].uid, st.st_uid);
    assert_false(spec.mounts[0].writable);
    expect_shown("srv/in/", "in", "srv/in");
    expect_shown("srv/in/.", "in", "srv/in");
    expect_shown("srv/in/deep/..", "in", "srv/in");
    expect_shown("srv/link", "link", "srv/in");
    expect_shown("srv/link:x", "x", "srv/in");
    expect_shown("home/Documents", "Documents", "home/Documents");
    wanted.at[wanted.count++] = "~/Music";
    box_mounts_done(&spec);
    assert_int_equal(box_mounts_resolve(&spec, &wanted, &failure), 0);
    assert_string_equal(spec.mounts[0].path, at("home/Music"));
    assert_string_equal(spec.mounts[0].name, "Music");
}

static void directories_unfit_for_data_are_refused(void **)
{
    expect_refused("srv/none", "No such file");
    expect_refused("srv/file", "Not a directory");
    expect_refused("../../../../../../../../..", "the whole file system");
    expect_refused("../../../../../../../../../proc", "kernel file system");
    expect_refused("../../../../../../../../../etc:rw", "the system runs from it");
    expect_refused("../../../../../../../../../usr/lib:rw", "the system runs from it");
}

static void the_home_directory_is_shown_without_hidden_entries(void **)
{
    expect_refused("home", "--mount-home");
    expect_refused("home/../home/Music/..", "--mount-home");
    expect_refused(".", "contains the home directory");
    wanted.home = true;
    expect_refused(".", "contains the home directory");
    expect_refused("home:rw", "name a directory in it");
    assert_int_equal(resolve("home"), 0);
    assert_int_equal(spec.mount_count, 2);
    assert_string_equal(spec.mounts[0].name, "home/Documents");
    assert_string_equal(spec.mounts[0].path, at("home/Documents"));
    assert_string_equal(spec.mounts[1].name, "home/Music");
    /* The home directory's mount leaves out the server's own directory. */
    spec.workspace = at("home/Music");
    assert_int_equal(resolve("home:me"), 0);
    assert_int_equal(spec.mount_count, 1);
    assert_string_equal(spec.mounts[0].name, "me/Documents");
}

static void directories_of_the_server_are_refused(void **)
{
    spec.workspace = at("work");
    temp_directory(&temp, "work/inner");
    expect_refused("work", "the workspace");
    expect_refused("work/inner", "the workspace");
    spec.workspace = at("srv/in");
    expect_refused("srv", "the workspace");
    spec.workspace = NULL;
    temp_directory(&temp, "home/.cache/sandpiper/boxes");
    expect_refused("home/.cache", "installed packages");
    expect_refused("home/.cache/sandpiper/boxes", "installed packages");
    spec.cache = at("srv/out/cache"); /* does not exist yet */
    expect_refused("srv/out", "installed packages");
    spec.cache = NULL;
    wanted.config[0] = at("srv/out/config"); /* does not exist either */
    expect_refused("srv/out", "configuration");
    expect_refused("srv/out:rw", "configuration");
    expect_shown("srv/in", "in", "srv/in");
    wanted.config[0] = NULL;
    wanted.config[1] = at("srv/link/config");
    expect_refused("srv/in", "configuration");
}

static void writable_directories_contain_no_other(void **)
{
    char in[PATH_MAX];
    char deep[PATH_MAX];
    const char *words[] = {in, deep};
    for (unsigned i = 0; i < 4; i++) {
        (void)snprintf(in, sizeof in, "%.4000s%s", at("srv/in"), i & 1 ? ":rw" : "");
        (void)snprintf(deep, sizeof deep, "%.4000s%s", at("srv/in/deep"), i & 2 ? ":rw" : "");
        for (unsigned order = 0; order < 2; order++) {
            wanted.count = 2;
            wanted.at[0] = words[order];
            wanted.at[1] = words[!order];
            box_mounts_done(&spec);
            assert_int_equal(box_mounts_resolve(&spec, &wanted, &failure) == 0, i == 0);
        }
    }
    box_mounts_done(&spec);
    wanted.count = 2;
    wanted.at[0] = at("srv/in");
    wanted.at[1] = at("home/link/../in");
    assert_true(box_mounts_resolve(&spec, &wanted, &failure) < 0);
    assert_non_null(strstr(failure.text, "DIR:NAME"));
}

static void an_interpreter_where_code_writes_is_refused(void **)
{
    static struct python python;
    python_forget();
    temp_file(&temp, "srv/in/env/pyvenv.cfg", "home = /usr/bin\nversion = 3.11.2\n", 0644);
    temp_file(&temp, "srv/in/env/bin/python3", "", 0755);
    temp_file(&temp, "srv/in/env/lib/python3.11/os.py", "", 0644);
    spec.python = at("srv/in/env/bin/python3");
    assert_int_equal(resolve("srv/in"), 0);
    assert_int_equal(python_find(&spec, &python, &failure), 0);
    assert_int_equal(resolve("srv/in:x:rw"), 0);
    assert_int_equal(python_find(&spec, &python, &failure), -EPERM);
    assert_non_null(strstr(failure.text, "--workspace"));
    assert_int_equal(resolve("srv/out:rw"), 0);
    assert_int_equal(python_find(&spec, &python, &failure), 0);
}

static void kernel_file_systems_are_refused(void **)
{
    static const char head[] =
        "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        "21 20 0:5 / /proc rw - proc proc rw\n";
    static const struct {
        const char *line;
        bool refused;
    } rows[] = {
        {"22 20 8:2 / /srv/in rw shared:1 - ext4 /dev/sdb rw", false},
        {"22 20 0:7 / /srv/in/sub rw - nfs4 server:/ rw", false},
        {"22 20 0:7 / /srv/in/sub rw shared:1 master:2 - proc proc rw", true},
        {"22 20 0:7 / /srv/in rw - sysfs sysfs rw", true},
        {"22 20 0:7 / /srv rw - devtmpfs udev rw", true},
        {"22 20 0:7 / /srv/input rw - proc proc rw", false},
        {"22 20 0:7 / /srv/in/a\\040b rw - cgroup2 none rw", true},
        {"22 20 0:7 / /srv rw - proc proc rw\n23 22 8:2 / /srv/in rw - ext4 /dev/sdb rw", false},
        {"23 22 8:2 / /srv/in rw - ext4 /dev/sdb rw\n24 23 0:7 / /srv/in rw - proc proc rw", true},
        {"garbage", false},
        {"1 2 3 4 5 6 7", false},
    };
    spec.mount_count = 1;
    spec.mounts[0] = (struct box_mount){.name = "in", .path = "/srv/in"};
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512];
        (void)snprintf(text, sizeof text, "%s%s\n", head, rows[i].line);
        if (box_mounts_check(&spec, text, &failure) != (rows[i].refused ? -EPERM : 0)) {
            fail_msg("%s", rows[i].line);
        }
    }
    assert_int_equal(box_mounts_check_now(&spec, &failure), 0);
    spec.mount_count = 0; /* they were literals */
}

#define MOUNT_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(directory_name_and_access_are_parsed),
        cmocka_unit_test(an_invalid_name_is_refused),
        cmocka_unit_test(text_is_utf_8_without_control_characters),
        MOUNT_TEST(a_directory_is_known_by_its_real_path),
        MOUNT_TEST(directories_unfit_for_data_are_refused),
        MOUNT_TEST(the_home_directory_is_shown_without_hidden_entries),
        MOUNT_TEST(directories_of_the_server_are_refused),
        MOUNT_TEST(writable_directories_contain_no_other),
        MOUNT_TEST(an_interpreter_where_code_writes_is_refused),
        MOUNT_TEST(kernel_file_systems_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
