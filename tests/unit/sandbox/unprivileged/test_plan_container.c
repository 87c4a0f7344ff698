#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox/box/box.h"
#include "sandbox/host/host_facts.h"
#include "sandbox/interpreter/process.h"
#include "sandbox/sandbox.h"
#include "sandbox/unprivileged/unprivileged.h"
#include "tests/unit/temp.h"
#include "tests/unit/unit.h"

static const struct embedded guest[] = {{"driver.py", (const unsigned char *)"pass\n", 5}, {}};
static struct temp temp;
static struct box_spec spec;
static struct box_scratch *scratch;
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
    python = (struct python){.path = "/opt/py/bin/python3", .directory_count = 1};
    (void)snprintf(python.directories[0], PATH_MAX, "/opt/py");
    return box_scratch_open(&spec, &scratch, &fail);
}

static int tear_down(void **)
{
    plan_done(&plan);
    box_scratch_close(scratch);
    (void)unsetenv("TMPDIR");
    temp_remove(&temp);
    return 0;
}

static int build(struct fail *fail)
{
    zygote_content(&spec, NULL, &content);
    struct host_facts facts;
    host_facts_read(&spec, &facts);
    content.python = &python;
    return plan_build(level_plan(&spec), &spec, &facts, &content, &plan, fail);
}

/* What code may do in its own directories, if they are not symlinks. */
#define WORK (LANDLOCK_RULE_READ | LANDLOCK_RULE_WRITE | LANDLOCK_RULE_STRAIGHT)

/* The rights in path's rule; 0: there is none. */
static uint64_t allowed(const char *path)
{
    uint64_t all = 0;
    for (unsigned i = 0; i < plan.rule_count; i++) {
        all |= strcmp(plan.rules[i].path, path) == 0 ? plan.rules[i].allowed : 0;
    }
    return all;
}

static void privileges_go_before_the_supervisor_is_executed(void **)
{
    static const enum plan_kind order[] = {PLAN_SESSION,   PLAN_GROUP,     PLAN_DESCRIPTORS,
                                           PLAN_SUBREAPER, PLAN_STEP_DOWN, PLAN_ENTER,
                                           PLAN_EXECUTE};
    struct fail fail = {};
    assert_int_equal(build(&fail), 0);
    assert_int_equal(plan.level, BOX_CONTAINER);
    assert_int_equal(plan.namespaces, 0);
    assert_int_equal(plan.step_count, sizeof order / sizeof *order);
    for (unsigned i = 0; i < plan.step_count; i++) {
        assert_int_equal(plan.steps[i].kind, order[i]);
    }
    assert_string_equal(plan.steps[5].target, spec.paths.work);
}

static void code_may_write_to_its_directories_only(void **)
{
    struct fail fail = {};
    const char *const own[] = {spec.paths.work, spec.paths.tmp, spec.paths.home};
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
    assert_true(allowed(spec.paths.run) && !(allowed(spec.paths.run) & ~LANDLOCK_RULE_READ));
}

static void paths_that_name_others_are_hidden(void **)
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
    spec.workspace = "/nonexistent/directory";
    assert_int_equal(build(&fail), -ENOENT);
    assert_non_null(strstr(fail.text, "/nonexistent/directory"));
}

#define PLAN_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLAN_TEST(privileges_go_before_the_supervisor_is_executed),
        PLAN_TEST(code_may_write_to_its_directories_only),
        PLAN_TEST(paths_that_name_others_are_hidden),
        PLAN_TEST(data_is_no_program_and_read_only_unless_the_user_says_more),
        PLAN_TEST(a_workspace_must_be_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
