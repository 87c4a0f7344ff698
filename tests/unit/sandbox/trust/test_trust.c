#include "sandbox/trust/trust.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox/sandbox.h"
#include "sandbox/unprivileged/unprivileged.h"
#include "tests/unit/temp.h"
#include "tests/unit/unit.h"

static struct temp temp;
static struct box_spec spec;
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
    temp_file(&temp, "safe/bin/tool", "#!/bin/sh\n", 0755);
    temp_file(&temp, "work/bin/tool", "#!/bin/sh\n", 0755);
    temp_directory(&temp, "home/deep");
    temp_directory(&temp, "out");
    box_spec_init(&spec);
    spec.workspace = at("work");
    failure = (struct fail){};
    assert_int_equal(setenv("HOME", at("home"), 1), 0);
    return 0;
}

static int tear_down(void **)
{
    temp_remove(&temp);
    return 0;
}

static enum overlap way(const char *path, char rest[PATH_MAX])
{
    return overlap_of(at(path), at("work"), rest);
}

static void each_component_of_a_path_counts(void **)
{
    static const struct {
        const char *path;
        enum overlap overlap;
        const char *rest; /* where it is inside */
    } rows[] = {
        {"safe/bin/tool", OVERLAP_NONE, NULL},
        {"work", OVERLAP_INSIDE, ""},
        {"work/.", OVERLAP_INSIDE, ""},
        {"work/bin/tool", OVERLAP_INSIDE, "bin/tool"},
        {"work//bin/./tool", OVERLAP_INSIDE, "bin/tool"},
        {"work/new/file", OVERLAP_INSIDE, "new/file"}, /* code can make it */
        {"work/..", OVERLAP_NONE, NULL},               /* the directory itself stays where it is */
        {"work/../safe/bin/tool", OVERLAP_NONE, NULL},
        {"work/bin/../../safe/bin/tool", OVERLAP_THROUGH, NULL},
        {"safe/../work/bin", OVERLAP_INSIDE, "bin"},
        {"alias/bin", OVERLAP_INSIDE, "bin"},
        {"work/out", OVERLAP_THROUGH, NULL},
        {"work/out/bin/tool", OVERLAP_THROUGH, NULL},
        {"work/inner", OVERLAP_THROUGH, NULL},
        {"hop", OVERLAP_THROUGH, NULL}, /* through work/out, and out again */
        {"hop/bin/tool", OVERLAP_THROUGH, NULL},
        {"to-file", OVERLAP_INSIDE, "bin/tool"},
        {"dangling", OVERLAP_INSIDE, "none"},
        {"circle", OVERLAP_NONE, NULL}, /* a loop outside the directory */
        {"work/circle", OVERLAP_THROUGH, NULL},
        {"workbench", OVERLAP_NONE, NULL},
    };
    char rest[PATH_MAX];
    temp_directory(&temp, "workbench");
    temp_link(&temp, "work", "alias");
    temp_link(&temp, at("safe"), "work/out");
    temp_link(&temp, "bin", "work/inner");
    temp_link(&temp, "work/out", "hop");
    temp_link(&temp, at("work/bin/tool"), "to-file");
    temp_link(&temp, "work/none", "dangling");
    temp_link(&temp, "circle", "circle");
    temp_link(&temp, "circle", "work/circle");
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        enum overlap overlap = way(rows[i].path, rest);
        if (overlap != rows[i].overlap || (rows[i].rest && strcmp(rest, rows[i].rest) != 0)) {
            fail_msg("%s: %d \"%s\"", rows[i].path, (int)overlap, rest);
        }
    }
    assert_int_equal(overlap_of(at("work"), "/", rest), OVERLAP_INSIDE);
    assert_int_equal(overlap_of("/", at("work"), rest), OVERLAP_NONE);
    assert_int_equal(overlap_of(at("work"), NULL, rest), OVERLAP_NONE);
    assert_int_equal(overlap_of(at("work"), at("none"), rest), OVERLAP_NONE);
}

static void path_that_cannot_be_followed_is_not_trusted(void **)
{
    char rest[PATH_MAX];
    char path[2 * PATH_MAX];
    memset(path, 'x', sizeof path);
    path[0] = '/';
    path[sizeof path - 1] = '\0';
    assert_int_equal(overlap_of(path, at("work"), rest), OVERLAP_THROUGH);
    int size = snprintf(path, sizeof path, "%s/", at("work"));
    memset(path + size, 'x', NAME_MAX + 1);
    path[size + NAME_MAX + 1] = '\0';
    assert_int_equal(overlap_of(path, at("work"), rest), OVERLAP_THROUGH);
}

static void relative_path_starts_at_the_current_directory(void **)
{
    char rest[PATH_MAX];
    char before[PATH_MAX];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(at("work")), 0);
    assert_int_equal(overlap_of(".", at("work"), rest), OVERLAP_INSIDE);
    assert_int_equal(overlap_of("config", at("work"), rest), OVERLAP_INSIDE);
    assert_int_equal(overlap_of("../safe", at("work"), rest), OVERLAP_NONE);
    assert_int_equal(chdir(before), 0);
}

static void all_directories_that_code_writes_are_found(void **)
{
    static struct box_scratch scratch;
    assert_non_null(trust_meets(&spec, at("work/x")).path);
    assert_null(trust_meets(&spec, at("out/x")).path);
    spec.mounts[0] = (struct box_mount){.name = "out", .path = at("out")};
    spec.mount_count = 1;
    assert_null(trust_meets(&spec, at("out/x")).path);
    spec.mounts[0].writable = true;
    assert_non_null(trust_meets(&spec, at("out/x")).path);
    spec.workspace_elsewhere = spec.workspace; /* an installer's */
    spec.workspace = NULL;
    assert_non_null(trust_meets(&spec, at("work/x")).path);
    spec.workspace_elsewhere = NULL;
    assert_null(trust_meets(&spec, at("work/x")).path);
    (void)snprintf(scratch.path, sizeof scratch.path, "%.200s", at("scratch"));
    (void)snprintf(scratch.work, sizeof scratch.work, "%.200s", at("work"));
    (void)snprintf(scratch.tmp, sizeof scratch.tmp, "%.200s", at("out"));
    (void)snprintf(scratch.home, sizeof scratch.home, "%.200s", at("home"));
    spec.mount_count = 0;
    spec.scratch = &scratch;
    assert_non_null(trust_meets(&spec, at("work/x")).path);
    assert_non_null(trust_meets(&spec, at("out/x")).path);
    assert_non_null(trust_meets(&spec, at("home/x")).path);
    assert_null(trust_meets(&spec, at("safe/x")).path);
}

/* Names that a bind mount gives, in both directions. */
static void other_mounts_of_a_directory_are_found(void **)
{
    static const char head[] =
        "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        "21 20 8:2 /@srv /srv rw - btrfs /dev/sda2 rw\n";
    static const struct {
        const char *line;
        bool alias;
    } rows[] = {
        {"22 20 8:2 /@srv/u/ws/conf /root/.config rw shared:1 - btrfs /dev/sda2 rw", true},
        {"22 20 8:2 /@srv/u/ws /mnt rw - btrfs /dev/sda2 rw", true},
        {"22 20 8:2 /@srv/u/wsx /mnt rw - btrfs /dev/sda2 rw", false},
        {"22 20 8:2 /@srv/u /mnt rw - btrfs /dev/sda2 rw", false}, /* resolving finds it */
        {"22 20 8:2 / /mnt rw - btrfs /dev/sda2 rw", false},
        {"22 20 8:1 /srv/u/ws/x /mnt rw - ext4 /dev/sda1 rw", false}, /* another device */
        {"22 20 8:1 /root/.config /srv/u/ws/conf rw - ext4 /dev/sda1 rw", true},
        {"22 20 8:1 /root /srv/u/ws\\040x rw - ext4 /dev/sda1 rw", false},
        {"garbage", false},
    };
    spec.workspace = "/srv/u/ws";
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512];
        (void)snprintf(text, sizeof text, "%s%s\n", head, rows[i].line);
        assert_int_equal(trust_read_aliases(&spec, text, &failure), 0);
        if (spec.aliases.count != rows[i].alias) {
            fail_msg("%s: %u", rows[i].line, spec.aliases.count);
        }
    }
    trust_forget_aliases(&spec);
    spec.workspace = at("work");
    assert_int_equal(trust_find_aliases(&spec, &failure), 0);
    assert_int_equal(spec.aliases.count, 0);
}

static void without_namespaces_code_writes_to_shared_memory(void **)
{
    if (access("/dev/shm", F_OK) < 0) {
        unit_skip("shm", "/dev/shm is not here");
    }
    assert_null(trust_meets(&spec, "/dev/shm/x").path);
    spec.isolation = BOX_ISOLATION_CONTAINER;
    assert_non_null(trust_meets(&spec, "/dev/shm/x").path);
}

static void refusal_names_object_place_and_fix(void **)
{
    temp_link(&temp, at("work/settings"), "home/config");
    assert_int_equal(trust_check(&spec, "the file", at("home/config"), "move it", &failure),
                     -EPERM);
    assert_non_null(strstr(failure.text, "the file "));
    assert_non_null(strstr(failure.text, at("home/config")));
    assert_non_null(strstr(failure.text, " is in the workspace "));
    assert_non_null(strstr(failure.text, "move it"));
    assert_int_equal(trust_check(&spec, "the file", at("home/other"), "move it", &failure), 0);
    assert_int_equal(trust_check(&spec, "the directory", temp.path, "move it", &failure), 0);
    assert_int_equal(trust_check_tree(&spec, "the directory", temp.path, "move it", &failure),
                     -EPERM);
    assert_non_null(strstr(failure.text, " contains "));
}

static void path_keeps_the_entries_that_code_cannot_write(void **)
{
    char path[8 * 256];
    char wanted[8 * 256];
    char before[PATH_MAX];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(at("work")), 0);
    temp_link(&temp, "work/bin", "sly");
    (void)snprintf(path, sizeof path,
                   ":bin:.:%s/work/bin:%s/sly:%s/safe/bin:%s/none::/usr/bin:", temp.path, temp.path,
                   temp.path, temp.path);
    assert_int_equal(setenv("PATH", path, 1), 0);
    trust_path(&spec, path, sizeof path);
    (void)snprintf(wanted, sizeof wanted, "%s/safe/bin:%s/none:/usr/bin", temp.path, temp.path);
    assert_string_equal(path, wanted);
    trust_path(&spec, path, 12);
    assert_string_equal(path, "/usr/bin");
    assert_int_equal(setenv("PATH", "", 1), 0);
    trust_path(&spec, path, sizeof path);
    assert_string_equal(path, "/usr/local/bin:/usr/bin:/bin");
    assert_int_equal(chdir(before), 0);
}

static void system_program_is_not_searched_in_path(void **)
{
    char found[PATH_MAX];
    temp_file(&temp, "safe/bin/sandpiper-none", "#!/bin/sh\n", 0755);
    temp_file(&temp, "safe/bin/env", "#!/bin/sh\n", 0755);
    assert_int_equal(setenv("PATH", at("safe/bin"), 1), 0);
    assert_false(trust_find_system_program(&spec, "sandpiper-none", found));
    assert_true(trust_find_system_program(&spec, "env", found));
    assert_memory_equal(found, "/usr/bin/env", sizeof "/usr/bin/env");
    spec.workspace = "/usr"; /* no command line can request this */
    assert_false(trust_find_system_program(&spec, "env", found));
}

/* A part of a mount in the workspace that is also mounted elsewhere, and mounts in or from that. */
static void other_mounts_of_nested_mounts_are_found(void **)
{
    char text[] =
        "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        "27 20 0:52 /deep /late rw - tmpfs none rw\n" /* deliberately out of order */
        "26 25 0:52 / /opt/t/in rw - tmpfs none rw\n"
        "25 20 0:50 /t /opt/t rw - tmpfs none rw\n"
        "28 20 0:53 / /elsewhere rw - tmpfs none rw\n"
        "29 20 0:50 /u /srv/ws/mnt/u rw - tmpfs none rw\n"
        "22 20 0:50 / /srv/ws/mnt rw - tmpfs none rw\n";
    static const char *const expected[] = {"/srv/ws/mnt", "/srv/ws/mnt/u", "/opt/t", "/opt/t/in",
                                           "/late"};
    spec.workspace = "/srv/ws";
    assert_int_equal(trust_read_aliases(&spec, text, &failure), 0);
    for (unsigned i = 0; i < sizeof expected / sizeof *expected; i++) {
        unsigned found = 0;
        for (unsigned k = 0; k < spec.aliases.count; k++) {
            found += strcmp(spec.aliases.at[k], expected[i]) == 0;
        }
        if (found != 1) {
            fail_msg("%s: %u", expected[i], found);
        }
    }
    assert_int_equal(spec.aliases.count, sizeof expected / sizeof *expected);
    trust_forget_aliases(&spec);
}

static void expect_self(const char *variable, const char *value, bool refused)
{
    failure = (struct fail){};
    assert_int_equal(setenv(variable, value, 1), 0);
    int r = trust_check_self(&spec, &failure);
    assert_int_equal(unsetenv(variable), 0);
    if (r != (refused ? -EPERM : 0) || (refused && !strstr(failure.text, variable))) {
        fail_msg("%s=\"%s\": %d %s", variable, value, r, failure.text);
    }
}

static void libraries_that_code_can_write_are_refused(void **)
{
    static const struct {
        const char *variable;
        const char *value; /* @: the test's directory */
        bool refused;
    } rows[] = {
        {"LD_LIBRARY_PATH", "", false},
        {"LD_LIBRARY_PATH", "@/safe", false},
        {"LD_LIBRARY_PATH", "@/safe:@/home", false},
        {"LD_LIBRARY_PATH", "@/safe:@/work/lib", true},
        {"LD_LIBRARY_PATH", ":@/safe", true}, /* the current directory */
        {"LD_LIBRARY_PATH", "@/safe:", true},
        {"LD_LIBRARY_PATH", "@/safe::@/home", true},
        {"LD_LIBRARY_PATH", "lib", true},
        {"LD_PRELOAD", "libx.so", false}, /* searched in the libraries' directories */
        {"LD_PRELOAD", "@/safe/x.so:./x.so", true},
        {"LD_PRELOAD", "libx.so @/work/x.so", true},
        {"LD_AUDIT", "@/safe/x.so", false},
        {"LD_AUDIT", "@/safe/x.so:@/work/x.so", true},
    };
    char before[PATH_MAX];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(trust_check_self(&spec, &failure), 0);
    assert_int_equal(chdir(at("work")), 0);
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        char value[1024] = "";
        for (const char *at = rows[i].value; *at; at++) {
            size_t used = strlen(value);
            (void)snprintf(value + used, sizeof value - used, "%.*s", *at == '@' ? 256 : 1,
                           *at == '@' ? temp.path : at);
        }
        expect_self(rows[i].variable, value, rows[i].refused);
    }
    assert_int_equal(chdir("/"), 0);
    expect_self("LD_LIBRARY_PATH", ":/usr/lib", false);
    assert_int_equal(chdir(before), 0);
}

static void server_program_that_code_can_write_is_refused(void **)
{
    char program[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", program, sizeof program - 1);
    assert_true(size > 0);
    program[size] = '\0';
    *strrchr(program, '/') = '\0';
    spec.workspace = program;
    assert_int_equal(trust_check_self(&spec, &failure), -EPERM);
    assert_non_null(strstr(failure.text, "the server's own program"));
}

/* --- directories granted to code --- */

static int resolve(const char *workspace, char path[PATH_MAX])
{
    failure = (struct fail){};
    spec.workspace = workspace;
    return box_workspace_resolve(&spec, path, &failure);
}

static void expect_no_workspace(const char *workspace, const char *word)
{
    char path[PATH_MAX];
    char sentence[FAIL_TEXT + 128];
    int r = resolve(workspace, path);
    (void)fail_describe(&failure, sentence, sizeof sentence);
    if (r >= 0 || !strstr(sentence, word) || strstr(sentence, "isolation")) {
        fail_msg("%s: %d \"%s\"", workspace, r, sentence);
    }
}

static void workspace_is_known_by_its_real_path(void **)
{
    char path[PATH_MAX];
    temp_link(&temp, "work", "alias");
    assert_int_equal(resolve(at("alias/bin/.."), path), 0);
    assert_ptr_equal(spec.workspace, path);
    assert_string_equal(path, at("work"));
    assert_int_equal(resolve("~/deep", path), 0);
    assert_string_equal(path, at("home/deep"));
    assert_int_equal(resolve(NULL, path), 0);
}

static void workspace_that_is_more_than_data_is_refused(void **)
{
    static const char *const system[] = {"/usr",     "/etc",       "/var",     "/boot",
                                         "/etc/ssl", "/bin",       "/usr/lib", "/usr/./bin/../bin",
                                         "/dev",     "/usr/share", "/lib"};
    temp_link(&temp, "/", "root");
    temp_link(&temp, "/usr", "sly");
    temp_link(&temp, "home", "alias");
    expect_no_workspace("/", "the whole file system");
    expect_no_workspace("//", "the whole file system");
    expect_no_workspace(at("root"), "the whole file system");
    for (unsigned i = 0; i < sizeof system / sizeof *system; i++) {
        if (access(system[i], F_OK) == 0) {
            expect_no_workspace(system[i], "the system runs from it");
        }
    }
    expect_no_workspace(at("sly"), "the system runs from it");
    expect_no_workspace(at("home"), "the home directory");
    expect_no_workspace("~", "the home directory");
    expect_no_workspace(at("alias/deep/.."), "the home directory");
    expect_no_workspace(temp.path, "contains the home directory");
    expect_no_workspace(at("none"), "No such file");
    expect_no_workspace(at("safe/bin/tool"), "Not a directory");
}

/* A wrong HOME does not exempt the right one. */
static void home_of_the_passwd_file_is_found_too(void **)
{
    struct directory_homes homes;
    static const char *const values[] = {NULL, "", "relative", "/nonexistent", "/"};
    for (unsigned i = 0; i < sizeof values / sizeof *values; i++) {
        assert_int_equal(values[i] ? setenv("HOME", values[i], 1) : unsetenv("HOME"), 0);
        directory_find_homes(&homes);
        assert_string_equal(homes.paths[0], "");
        if (!homes.paths[1][0]) {
            unit_skip("passwd", "this user has no entry");
        }
        expect_no_workspace(homes.paths[1], "the home directory");
    }
}

#define TRUST_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TRUST_TEST(each_component_of_a_path_counts),
        TRUST_TEST(path_that_cannot_be_followed_is_not_trusted),
        TRUST_TEST(relative_path_starts_at_the_current_directory),
        TRUST_TEST(all_directories_that_code_writes_are_found),
        TRUST_TEST(other_mounts_of_a_directory_are_found),
        TRUST_TEST(other_mounts_of_nested_mounts_are_found),
        TRUST_TEST(without_namespaces_code_writes_to_shared_memory),
        TRUST_TEST(refusal_names_object_place_and_fix),
        TRUST_TEST(path_keeps_the_entries_that_code_cannot_write),
        TRUST_TEST(system_program_is_not_searched_in_path),
        TRUST_TEST(libraries_that_code_can_write_are_refused),
        TRUST_TEST(server_program_that_code_can_write_is_refused),
        TRUST_TEST(workspace_is_known_by_its_real_path),
        TRUST_TEST(workspace_that_is_more_than_data_is_refused),
        TRUST_TEST(home_of_the_passwd_file_is_found_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
