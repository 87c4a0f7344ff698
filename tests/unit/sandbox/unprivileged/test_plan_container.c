#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox/box.h"
#include "sandbox/room_inside.h"
#include "tests/unit/temp.h"
#include "tests/unit/unit.h"

static const struct embedded guest[] = {{"driver.py", (const unsigned char *)"pass\n", 5}, {}};
static struct temp temp;
static struct box_spec spec;
static struct box_room *room;
static struct python python;
static struct plan_content content;
static struct plan plan;

static int set_up(void **)
{
    struct fail fail = {};
    temp_make(&temp);
    (void)setenv("TMPDIR", temp.path, 1);
    box_spec_init(&spec);
    spec.guest = guest;
    spec.isolation = BOX_ISOLATION_CONTAINER;
    python = (struct python){.path = "/opt/py/bin/python3", .folder_count = 1};
    (void)snprintf(python.folders[0], PATH_MAX, "/opt/py");
    return box_room_open(&spec, &room, &fail);
}

static int tear_down(void **)
{
    plan_done(&plan);
    box_room_close(room);
    (void)unsetenv("TMPDIR");
    temp_remove(&temp);
    return 0;
}

static int build(struct fail *fail)
{
    zygote_content(&spec, NULL, &content);
    return plan_build(&spec, &python, &content, &plan, fail);
}

/* What code may do in its own folders, while they are no links. */
#define WORK (LANDLOCK_RULE_READ | LANDLOCK_RULE_WRITE | LANDLOCK_RULE_STRAIGHT)

/* What is allowed by the rule for path, 0: there is none. */
static uint64_t allowed(const char *path)
{
    uint64_t all = 0;
    for (unsigned i = 0; i < plan.rule_count; i++) {
        all |= strcmp(plan.rules[i].path, path) == 0 ? plan.rules[i].allowed : 0;
    }
    return all;
}

static void privileges_go_before_the_guardian_is_executed(void **)
{
    static const enum plan_kind order[] = {PLAN_SESSION,   PLAN_WAIT,      PLAN_DESCRIPTORS,
                                           PLAN_SUBREAPER, PLAN_STEP_DOWN, PLAN_ENTER,
                                           PLAN_EXECUTE};
    struct fail fail = {};
    assert_int_equal(build(&fail), 0);
    assert_int_equal(plan.profile, BOX_CONTAINER);
    assert_int_equal(plan.namespaces, 0);
    assert_int_equal(plan.step_count, sizeof order / sizeof *order);
    for (unsigned i = 0; i < plan.step_count; i++) {
        assert_int_equal(plan.steps[i].kind, order[i]);
    }
    assert_string_equal(plan.steps[5].target, spec.view.work);
}

static void code_may_write_to_its_folders_only(void **)
{
    struct fail fail = {};
    const char *const own[] = {spec.view.work, spec.view.tmp, spec.view.home};
    assert_int_equal(build(&fail), 0);
    for (unsigned i = 0; i < plan.rule_count; i++) {
        const struct landlock_rule *rule = &plan.rules[i];
        bool writable = strncmp(rule->path, "/dev/", 5) == 0;
        for (unsigned k = 0; k < 3; k++) {
            writable = writable || strcmp(rule->path, own[k]) == 0;
        }
        assert_true(writable || !(rule->allowed & ~(LANDLOCK_RULE_READ)));
    }
    for (unsigned k = 0; k < 3; k++) {
        assert_int_equal(allowed(own[k]), WORK);
    }
    assert_true(allowed(spec.view.run) && !(allowed(spec.view.run) & ~LANDLOCK_RULE_READ));
}

static void what_names_others_is_not_shown(void **)
{
    static const char *const hidden[] = {"/",    "/etc", "/proc", "/sys", "/home",
                                         "/run", "/var", "/tmp",  "/dev", "/etc/passwd"};
    struct fail fail = {};
    assert_int_equal(build(&fail), 0);
    for (unsigned i = 0; i < sizeof hidden / sizeof *hidden; i++) {
        assert_int_equal(allowed(hidden[i]), 0);
    }
    assert_int_equal(allowed("/dev/shm") & LANDLOCK_FS_READ_DIR, 0);
    assert_int_equal(allowed("/opt/py"), LANDLOCK_RULE_READ);
}

static void data_is_no_program_and_read_only_unless_the_user_says_more(void **)
{
    struct fail fail = {};
    spec.mounts[0] = (struct box_mount){.name = "a", .path = "/srv/a"};
    spec.mounts[1] = (struct box_mount){.name = "b", .path = "/srv/b", .writable = true};
    spec.mount_count = 2;
    assert_int_equal(build(&fail), 0);
    assert_int_equal(allowed("/srv/a"),
                     LANDLOCK_RULE_STRAIGHT | LANDLOCK_FS_READ_FILE | LANDLOCK_FS_READ_DIR);
    assert_int_equal(allowed("/srv/b"),
                     LANDLOCK_RULE_STRAIGHT | (LANDLOCK_RULE_WRITE & ~LANDLOCK_FS_EXECUTE));
}

static void a_workspace_must_be_there(void **)
{
    struct fail fail = {};
    spec.workspace = "/nonexistent/folder";
    assert_int_equal(build(&fail), -ENOENT);
    assert_non_null(strstr(fail.text, "/nonexistent/folder"));
}

#define PLAN_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLAN_TEST(privileges_go_before_the_guardian_is_executed),
        PLAN_TEST(code_may_write_to_its_folders_only),
        PLAN_TEST(what_names_others_is_not_shown),
        PLAN_TEST(data_is_no_program_and_read_only_unless_the_user_says_more),
        PLAN_TEST(a_workspace_must_be_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
