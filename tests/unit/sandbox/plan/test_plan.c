#include "sandbox/plan/plan.h"

#include <errno.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "sandbox/box/box.h"
#include "sandbox/host/host_facts.h"
#include "sandbox/host/python.h"
#include "sandbox/interpreter/process.h"
#include "sandbox/sandbox.h"
#include "tests/unit/temp.h"
#include "tests/unit/unit.h"

static const struct embedded guest[] = {
    {"driver.py", (const unsigned char *)"pass\n", 5},
    {"extra.py", (const unsigned char *)"", 0},
    {},
};
static struct plan plan;
static struct python python;
static struct box_spec spec;
static struct plan_content content;

static int set_up(void **)
{
    box_spec_init(&spec);
    spec.guest = guest;
    python = (struct python){.path = "/opt/py/bin/python3", .directory_count = 1};
    (void)snprintf(python.directories[0], PATH_MAX, "/opt/py");
    return 0;
}

static int tear_down(void **)
{
    plan_done(&plan);
    return 0;
}

static int build_plan(struct fail *fail)
{
    struct host_facts facts;
    host_facts_read(&spec, &facts);
    content.python = &python;
    return plan_build(plan_add_full, &spec, &facts, &content, &plan, fail);
}

static void build(void)
{
    struct fail fail = {};
    zygote_content(&spec, NULL, &content);
    assert_int_equal(build_plan(&fail), 0);
}

/* The number of steps of a kind, and the index of the first. */
static unsigned steps_of(enum plan_kind kind, unsigned *ret_first)
{
    unsigned found = 0;
    for (unsigned i = plan.step_count; i-- > 0;) {
        if (plan.steps[i].kind == kind) {
            *ret_first = i;
            found++;
        }
    }
    return found;
}

static const struct plan_step *step_at(enum plan_kind kind, const char *target)
{
    for (unsigned i = 0; i < plan.step_count; i++) {
        const struct plan_step *step = &plan.steps[i];
        if (step->kind == kind && step->target && strcmp(step->target, target) == 0) {
            return step;
        }
    }
    return NULL;
}

static const struct plan_step *expect_step(enum plan_kind kind, const char *target)
{
    const struct plan_step *step = step_at(kind, target);
    if (!step) {
        fail_msg("no step \"%s\" for %s", plan_kind_name(kind), target);
    }
    return step ? step : plan.steps;
}

static bool has_environment(const char *entry)
{
    for (unsigned i = 0; plan.envp[i]; i++) {
        if (strcmp(plan.envp[i], entry) == 0) {
            return true;
        }
    }
    return false;
}

static void nothing_is_mounted_over_the_root(void **)
{
    static const char *const odd[] = {"/", "//", "/.", "/..", "/opt/../x", "/opt/py/.."};
    zygote_content(&spec, NULL, &content);
    for (unsigned i = 0; i < sizeof odd / sizeof *odd; i++) {
        struct fail fail = {};
        (void)snprintf(python.directories[0], PATH_MAX, "%s", odd[i]);
        if (build_plan(&fail) != -EPERM) {
            fail_msg("%s: %s", odd[i], fail.text);
        }
    }
    (void)snprintf(python.directories[0], PATH_MAX, "/opt/..py");
    build();
}

/* Each kind exists once and before the next: capabilities go after the steps that need them, and
 * the filter comes last because it would refuse the steps before it. */
static void confinement_is_whole_and_in_order(void **)
{
    static const enum plan_kind order[] = {
        PLAN_IDENTITY,     PLAN_SESSION,       PLAN_HOSTNAME,
        PLAN_LOOPBACK,     PLAN_PRIVATE,       PLAN_MAKE_TERMINALS,
        PLAN_DISK,         PLAN_ROOT,          PLAN_KEEP,
        PLAN_PROC,         PLAN_PROCESSORS,    PLAN_READ_ONLY_ROOT,
        PLAN_PIVOT,        PLAN_GROUP,         PLAN_CGROUP_NAMESPACE,
        PLAN_TERMINALS,    PLAN_NO_NAMESPACES, PLAN_DESCRIPTORS,
        PLAN_CAPABILITIES, PLAN_DEATH_SIGNAL,  PLAN_SECCOMP,
        PLAN_EXECUTE,
    };
    build();
    unsigned before = 0;
    for (unsigned i = 0; i < sizeof order / sizeof *order; i++) {
        unsigned at = 0;
        assert_int_equal(steps_of(order[i], &at), 1);
        assert_true(i == 0 || at > before);
        bool may_be_refused =
            order[i] == PLAN_HOSTNAME || order[i] == PLAN_PROC || order[i] == PLAN_TERMINALS;
        assert_int_equal(plan.steps[at].optional, may_be_refused);
        before = at;
    }
    assert_int_equal(before, plan.step_count - 1);
}

/* A tree is opened while the host's paths and ids are accessible, and moved before the root becomes
 * read-only. */
static void each_tree_is_opened_first_and_moved_once(void **)
{
    unsigned identity = 0;
    unsigned root = 0;
    unsigned closed = 0;
    build();
    assert_int_equal(steps_of(PLAN_IDENTITY, &identity), 1);
    assert_int_equal(steps_of(PLAN_ROOT, &root), 1);
    assert_int_equal(steps_of(PLAN_READ_ONLY_ROOT, &closed), 1);
    unsigned opened[PLAN_TREES] = {};
    unsigned moved[PLAN_TREES] = {};
    for (unsigned i = 0; i < plan.step_count; i++) {
        const struct plan_step *step = &plan.steps[i];
        if (step->kind == PLAN_OPEN_TREE) {
            assert_true(i < identity);
            opened[step->slot]++;
        } else if (step->kind == PLAN_MOVE) {
            assert_true(i > root && i < closed);
            moved[step->slot]++;
        }
    }
    assert_in_range(plan.tree_count, 1, PLAN_TREES);
    for (unsigned i = 0; i < PLAN_TREES; i++) {
        assert_int_equal(opened[i], i < plan.tree_count);
        assert_int_equal(moved[i], i < plan.tree_count);
    }
}

static void nothing_of_the_host_is_writable_or_brings_set_ids(void **)
{
    build();
    for (unsigned i = 0; i < plan.step_count; i++) {
        const struct plan_step *step = &plan.steps[i];
        if (step->kind == PLAN_MOVE) {
            bool device = strncmp(step->target, "/dev/", 5) == 0;
            uint64_t needed = MOUNT_ATTR_NOSUID |
                              (device ? MOUNT_ATTR_NOEXEC : MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV);
            assert_int_equal(step->attributes & needed, needed);
        } else if (step->kind == PLAN_SUBTREE) {
            uint64_t needed = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
            assert_int_equal(step->attributes & needed, needed);
        }
    }
    assert_null(step_at(PLAN_MOVE, "/home"));
    assert_null(step_at(PLAN_MOVE, "/root"));
    assert_null(step_at(PLAN_MOVE, "/etc"));
    assert_null(step_at(PLAN_MOVE, "/run"));
    assert_null(step_at(PLAN_MOVE, "/var"));
}

static void names_of_the_host_are_replaced_by_the_sandboxs_own(void **)
{
    static const char *const files[] = {"/etc/passwd", "/etc/group", "/etc/hosts",
                                        "/etc/nsswitch.conf", "/etc/resolv.conf"};
    build();
    for (unsigned i = 0; i < sizeof files / sizeof *files; i++) {
        const struct plan_step *step = expect_step(PLAN_FILE, files[i]);
        assert_int_equal(step->mode, 0444);
    }
    const struct plan_step *driver = expect_step(PLAN_FILE, "/run/sandpiper/driver.py");
    assert_int_equal(driver->content_size, 5);
    (void)expect_step(PLAN_FILE, "/run/sandpiper/extra.py");
}

static void workspace_is_on_the_sandboxs_disk_by_default(void **)
{
    spec.limits.disk_bytes = 12345678;
    spec.limits.disk_inodes = 321;
    build();
    unsigned disk = 0;
    assert_int_equal(steps_of(PLAN_DISK, &disk), 1);
    assert_string_equal(plan.steps[disk].data, "size=12345678,nr_inodes=321,mode=0755");
    assert_string_equal(expect_step(PLAN_SUBTREE, "/work")->source, "work");
    assert_null(step_at(PLAN_MOVE, "/work"));
}

static void named_workspace_is_the_only_writable_host_directory(void **)
{
    struct temp temp;
    temp_make(&temp);
    spec.workspace = temp.path;
    build();
    const struct plan_step *work = expect_step(PLAN_MOVE, "/work");
    assert_string_equal(work->source, temp.path);
    assert_int_equal(work->attributes, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    assert_false(work->optional);
    assert_null(step_at(PLAN_SUBTREE, "/work"));
    unsigned taken = 0;
    assert_int_equal(steps_of(PLAN_TAKE_TREE, &taken), plan.workspace_idmap ? 1 : 0);
    for (unsigned i = 0; i < plan.step_count; i++) {
        const struct plan_step *step = &plan.steps[i];
        bool writable = step->kind == PLAN_MOVE && !(step->attributes & MOUNT_ATTR_RDONLY);
        assert_true(!writable || step == work || strncmp(step->target, "/dev/", 5) == 0);
    }
    temp_remove(&temp);
}

/* The index of the step; fails where there is none. */
static unsigned place_of(enum plan_kind kind, const char *target)
{
    return (unsigned)(expect_step(kind, target) - plan.steps);
}

static void expect_overlay(void)
{
    const struct plan_step *lower = expect_step(PLAN_MOVE, "/run/cow/lower");
    assert_string_equal(lower->source, spec.workspace);
    assert_true(lower->attributes & MOUNT_ATTR_RDONLY);
    assert_false(lower->optional);
    unsigned overlay = place_of(PLAN_OVERLAY, "/work");
    assert_true(overlay > place_of(PLAN_MOVE, "/run/cow/lower"));
    /* Before code runs nothing names the layers any more. */
    assert_true(place_of(PLAN_HIDE, "/run/cow/lower") > overlay);
    assert_true(place_of(PLAN_HIDE, "/run/cow/changes") > overlay);
    assert_null(step_at(PLAN_MOVE, "/work"));
    assert_null(step_at(PLAN_SUBTREE, "/work"));
    assert_null(step_at(PLAN_PROTECT, "/work"));
    for (unsigned i = 0; i < plan.step_count; i++) {
        const struct plan_step *step = &plan.steps[i];
        bool opens = step->kind == PLAN_OPEN_TREE || step->kind == PLAN_TAKE_TREE;
        bool is_layer = opens && (step->slot == lower->slot ||
                                  (spec.store && strcmp(step->source, spec.store->layers) == 0));
        assert_int_equal(step->is_layer, is_layer);
    }
    assert_true(has_environment("GIT_OPTIONAL_LOCKS=0"));
    assert_true(has_environment("GIT_CONFIG_COUNT=3"));
    assert_true(has_environment("GIT_CONFIG_KEY_0=safe.directory"));
    assert_true(has_environment("GIT_CONFIG_VALUE_0=*"));
    assert_true(has_environment("GIT_CONFIG_KEY_1=diff.autoRefreshIndex"));
    assert_true(has_environment("GIT_CONFIG_VALUE_1=false"));
    assert_true(has_environment("GIT_CONFIG_KEY_2=core.checkStat"));
    assert_true(has_environment("GIT_CONFIG_VALUE_2=minimal"));
}

static void copy_on_write_workspace_has_its_upper_layer_in_memory(void **)
{
    struct temp temp;
    temp_make(&temp);
    spec.workspace = temp.path;
    spec.cow = true;
    build();
    assert_int_equal(plan.cow, WIRE_COW_MEMORY);
    expect_overlay();
    assert_string_equal(expect_step(PLAN_SUBTREE, "/run/cow/changes")->source, "changes");
    plan_done(&plan);
    spec.cow = false;
    build();
    assert_false(has_environment("GIT_OPTIONAL_LOCKS=0"));
    temp_remove(&temp);
}

static void copy_on_write_workspace_has_its_upper_layer_in_a_store(void **)
{
    static const struct box_store store = {.fd = -1, .layers = "/srv/store/0/layers"};
    struct temp temp;
    temp_make(&temp);
    spec.workspace = temp.path;
    spec.cow = true;
    spec.store = &store;
    build();
    assert_int_equal(plan.cow, WIRE_COW_STORE);
    expect_overlay();
    const struct plan_step *changes = expect_step(PLAN_MOVE, "/run/cow/changes");
    assert_string_equal(changes->source, store.layers);
    assert_false(changes->optional);
    assert_int_equal(changes->attributes, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    assert_null(step_at(PLAN_SUBTREE, "/run/cow/changes"));
    assert_non_null(step_at(PLAN_OVERLAY, "/work"));
    temp_remove(&temp);
}

static void an_interpreter_in_the_workspace_is_read_only_there_and_cannot_be_moved(void **)
{
    static const struct {
        const char *path;
        bool writable;
    } rows[] = {{"/work/a", true}, {"/work/a/b c", true}, {"/work/a/b c/env", false}};
    struct temp temp;
    temp_make(&temp);
    spec.workspace = temp.path;
    python.inside_count = 1;
    (void)snprintf(python.inside[0], sizeof python.inside[0], "a/b c/env");
    build();
    const struct plan_step *before = expect_step(PLAN_MOVE, "/work");
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct plan_step *step = expect_step(PLAN_SUBTREE, rows[i].path);
        assert_null(step->source);
        assert_int_equal(!(step->attributes & MOUNT_ATTR_RDONLY), rows[i].writable);
        assert_true(step > before);
        before = step;
    }
    python.inside_count = 0;
    temp_remove(&temp);
}

/* Root shows a directory through a mapping if its owner is not the uid of code. */
static void data_is_shown_for_reading_unless_the_user_says_more(void **)
{
    const uint64_t data = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
    spec.mount_count = 2;
    spec.mounts[0] = (struct box_mount){.name = "in", .path = "/srv/in", .uid = 7, .gid = 8};
    spec.mounts[1] = (struct box_mount){
        .name = "me/out", .path = "/srv/out", .uid = geteuid(), .writable = true};
    build();
    const struct plan_step *in = expect_step(PLAN_MOVE, "/data/in");
    const struct plan_step *out = expect_step(PLAN_MOVE, "/data/me/out");
    assert_string_equal(in->source, "/srv/in");
    assert_int_equal(in->attributes, data | MOUNT_ATTR_RDONLY);
    assert_int_equal(out->attributes, data);
    assert_int_equal(plan.data_count, 2);
    assert_string_equal(plan.data[1], "/data/me/out");
    assert_int_equal(plan.data_writable, 2);
    const struct landlock_rule *rule = NULL;
    for (unsigned i = 0; i < plan.rule_count; i++) {
        assert_string_not_equal(plan.rules[i].path, "/data/in");
        rule = strcmp(plan.rules[i].path, "/data/me/out") == 0 ? &plan.rules[i] : rule;
    }
    assert_true(rule && rule->allowed == LANDLOCK_RULE_WRITE);
    bool foreign = plan.outside_uid != geteuid();
    for (unsigned i = 0; i < plan.step_count; i++) {
        const struct plan_step *step = &plan.steps[i];
        if (step->kind == PLAN_OPEN_TREE || step->kind == PLAN_TAKE_TREE) {
            bool shown = step->slot == in->slot || step->slot == out->slot;
            assert_int_equal(step->data_directory, shown);
            assert_int_equal(step->kind == PLAN_TAKE_TREE, shown && foreign);
        }
        if (step->kind == PLAN_TAKE_TREE && step->slot == in->slot) {
            assert_int_equal(step->uid, 7);
            assert_int_equal(step->gid, 8);
        }
    }
}

static void an_installer_sees_no_data(void **)
{
    struct fail fail = {};
    content = (struct plan_content){.files = guest, .installer = true};
    spec.mount_count = 1;
    spec.mounts[0] = (struct box_mount){.name = "in", .path = "/srv/in"};
    assert_int_equal(build_plan(&fail), 0);
    assert_null(step_at(PLAN_MOVE, "/data/in"));
    assert_int_equal(plan.data_count, 0);
}

static void workspace_that_is_no_directory_is_refused_with_its_name(void **)
{
    struct temp temp;
    struct fail fail = {};
    char path[PATH_MAX];
    temp_make(&temp);
    temp_file(&temp, "file", "", 0644);
    spec.workspace = temp_path(&temp, "file", path);
    assert_int_equal(build_plan(&fail), -ENOTDIR);
    assert_non_null(strstr(fail.text, path));
    spec.workspace = temp_path(&temp, "missing", path);
    assert_int_equal(build_plan(&fail), -ENOENT);
    assert_non_null(strstr(fail.text, path));
    temp_remove(&temp);
}

static void guest_runs_as_an_id_that_owns_nothing(void **)
{
    build();
    if (geteuid() != 0) {
        assert_int_equal(plan.outside_uid, geteuid());
    } else if (plan.outside_uid != 0) {
        assert_true(plan.outside_uid >= 1879048192);
        assert_int_equal(plan.outside_gid, plan.outside_uid);
    }
}

static void expect_text(const char *path, const char *text)
{
    const struct plan_step *step = expect_step(PLAN_FILE, path);
    assert_string_equal((const char *)step->content, text);
    assert_int_equal(step->content_size, strlen(text));
}

static void machine_has_the_processors_that_may_be_used_at_a_time(void **)
{
    static const struct {
        uint32_t cpu_milli;
        const char *list;
        const char *map;
        const char *most;
    } rows[] = {
        {0, "1,3-5,64\n", "00000001,00000000,0000003a\n", "max 100000\n"},
        {4500, "1,3-5,64\n", "00000001,00000000,0000003a\n", "450000 100000\n"},
        {2500, "1,3-4\n", "0000001a\n", "250000 100000\n"},
        {100, "1\n", "00000002\n", "10000 100000\n"},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct host_facts facts;
        struct fail fail = {};
        zygote_content(&spec, NULL, &content);
        host_facts_read(&spec, &facts);
        content.python = &python;
        facts.processors = (struct box_processors){{0x3a, 1}};
        spec.limits.cpu_milli = rows[i].cpu_milli;
        spec.limits.memory_bytes = 3 << 20;
        plan_done(&plan);
        assert_int_equal(plan_build(plan_add_full, &spec, &facts, &content, &plan, &fail), 0);
        expect_text("/sys/devices/system/cpu/possible", rows[i].list);
        expect_text("/sys/devices/system/cpu/online", rows[i].list);
        expect_text("/sys/devices/system/node/node0/cpumap", rows[i].map);
        expect_text("/sys/fs/cgroup/cpu.max", rows[i].most);
        expect_text("/sys/fs/cgroup/memory.max", "3145728\n");
        assert_false(box_processors_has(&plan.processors, 0));
        assert_true(box_processors_has(&plan.processors, 1));
        assert_int_equal(box_processors_has(&plan.processors, 64), i < 2);
    }
}

static void environment_is_built_from_nothing(void **)
{
    spec.limits.cpu_milli = 1500;
    (void)snprintf(python.environment, sizeof python.environment, "/opt/env");
    build();
    assert_string_equal(plan.argv[0], "/opt/py/bin/python3");
    assert_string_equal(plan.argv[1], "-s");
    assert_string_equal(plan.argv[2], "/run/sandpiper/driver.py");
    assert_string_equal(plan.argv[3], "install");
    assert_null(plan.argv[4]);
    assert_true(has_environment("SANDPIPER_DIRECTORY=/work"));
    assert_true(has_environment("HOME=/tmp/home"));
    assert_true(has_environment("PYTHONNOUSERSITE=1"));
    assert_true(has_environment("VIRTUAL_ENV=/opt/env"));
    assert_true(
        has_environment("PATH=/run/sandpiper/bin:/opt/py/bin:/usr/local/bin:/usr/bin:/bin:"
                        "/usr/local/sbin:/usr/sbin:/sbin"));
    assert_true(has_environment("GRPC_ENABLE_FORK_SUPPORT=0"));
    assert_true(has_environment("ASAN_OPTIONS=detect_leaks=0"));
    assert_true(has_environment("CHOKIDAR_USEPOLLING=1"));
    assert_true(has_environment("SANDPIPER_PYTHON=/opt/py/bin/python3"));
    assert_true(has_environment("PIP_NO_INDEX=1"));
    assert_true(has_environment("npm_config_fetch_retries=0"));
    assert_true(has_environment("OMP_NUM_THREADS=2"));
}

static void interpreters_directory_that_cannot_be_an_entry_is_not_in_path(void **)
{
    (void)snprintf(python.path, sizeof python.path, "/opt/a:b/bin/python3");
    build();
    assert_true(
        has_environment("PATH=/run/sandpiper/bin:/usr/local/bin:/usr/bin:/bin:"
                        "/usr/local/sbin:/usr/sbin:/sbin"));
}

static void interpreter_gets_package_settings_only_with_install(void **)
{
    spec.packages = false;
    build();
    assert_string_equal(plan.argv[2], "/run/sandpiper/driver.py");
    assert_null(plan.argv[3]);
}

static void an_installer_has_its_own_program_ids_and_paths(void **)
{
    struct fail fail = {};
    uid_t uid = 0;
    gid_t gid = 0;
    struct host_facts facts;
    host_facts_read(NULL, &facts);
    plan_installer_ids(&facts, &uid, &gid);
    content = (struct plan_content){
        .files = guest, .main = "x.py", .arguments = {"y"}, .installer = true};
    plan_show(&content, "/srv/layers", "/packages", /* writable= */ false);
    plan_show(&content, "/srv/stage", "/stage", /* writable= */ true);
    assert_int_equal(build_plan(&fail), 0);
    assert_string_equal(plan.argv[1], "-I");
    assert_string_equal(plan.argv[3], "/run/sandpiper/x.py");
    assert_string_equal(plan.argv[4], "y");
    assert_null(plan.argv[5]);
    assert_true(expect_step(PLAN_MOVE, "/packages")->attributes & MOUNT_ATTR_RDONLY);
    assert_int_equal(expect_step(PLAN_MOVE, "/stage")->attributes,
                     MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    assert_true(has_environment("TMPDIR=/stage/tmp"));
    assert_true(has_environment("SANDPIPER_STAGE=/stage"));
    assert_int_equal(plan.outside_uid, uid);
    assert_true(geteuid() != 0 || uid != 0 || !idmap_covers(1879048192));
}

static void user_packages_are_named_to_the_interpreter(void **)
{
    (void)snprintf(python.user_base, sizeof python.user_base, "/srv/user/.local");
    (void)snprintf(python.directories[python.directory_count++], PATH_MAX,
                   "/srv/user/.local/lib/python3.11/site-packages");
    build();
    assert_true(has_environment("PYTHONUSERBASE=/srv/user/.local"));
    assert_false(has_environment("PYTHONNOUSERSITE=1"));
    assert_string_not_equal(plan.argv[1], "-s");
    (void)expect_step(PLAN_MOVE, "/srv/user/.local/lib/python3.11/site-packages");
    assert_null(step_at(PLAN_MOVE, "/srv/user/.local"));
    assert_null(step_at(PLAN_MOVE, "/srv/user"));
}

static void hash_seed_reaches_the_code(void **)
{
    (void)snprintf(python.hash_seed, sizeof python.hash_seed, "4294967295");
    build();
    assert_true(has_environment("PYTHONHASHSEED=4294967295"));
}

static void fullest_plan_fits(void **)
{
    static const struct box_store store = {.fd = -1, .layers = "/srv/store/0/layers"};
    static struct embedded many[51];
    static char names[50][16];
    struct temp temp;
    temp_make(&temp);
    spec.cow = true;
    spec.store = &store;
    spec.workspace = temp.path;
    for (unsigned i = 0; i < 50; i++) {
        (void)snprintf(names[i], sizeof names[i], "file%u.py", i);
        many[i] = (struct embedded){names[i], (const unsigned char *)"", 0};
    }
    spec.guest = many;
    for (python.directory_count = 0; python.directory_count < PYTHON_DIRECTORIES;
         python.directory_count++) {
        (void)snprintf(python.directories[python.directory_count], PATH_MAX, "/opt/py%u",
                       python.directory_count);
    }
    for (spec.mount_count = 0; spec.mount_count < BOX_MOUNTS; spec.mount_count++) {
        spec.mounts[spec.mount_count] = (struct box_mount){.name = "x", .path = "/x"};
    }
    build();
    assert_int_equal(plan.data_count, BOX_MOUNTS);
    /* Trees that this host lacks but another may have: three files of other Pythons, a store, and
     * six system directories that are not symlinks. */
    assert_true(plan.tree_count + 20 <= PLAN_TREES);
    assert_true(plan.step_count + 40 <= PLAN_STEPS);
    (void)expect_step(PLAN_OVERLAY, "/work");
    temp_remove(&temp);
}

static void each_step_is_printed_on_a_line_with_its_number(void **)
{
    struct buf text = BUF_EMPTY;
    build();
    assert_int_equal(plan_print(&plan, &text), 0);
    assert_int_equal(buf_append(&text, "", 1), 0);
    const char *line = buf_bytes(&text);
    for (unsigned i = 0; i < plan.step_count; i++) {
        char start[64];
        (void)snprintf(start, sizeof start, "%3u  %s", i + 1, plan_kind_name(plan.steps[i].kind));
        assert_memory_equal(line, start, strlen(start));
        line = strchr(line, '\n');
        assert_non_null(line);
        line++;
    }
    assert_int_equal(*line, '\0');
    assert_non_null(strstr(buf_bytes(&text), "mount tree /usr at /usr read-only nosuid nodev\n"));
    assert_non_null(
        strstr(buf_bytes(&text), "mount tree /dev/null at /dev/null read-only nosuid noexec\n"));
    buf_done(&text);
}

static void each_kind_has_a_unique_name(void **)
{
    for (unsigned i = 0; i < PLAN_KIND_COUNT; i++) {
        assert_non_null(plan_kind_name((enum plan_kind)i));
        for (unsigned k = 0; k < i; k++) {
            assert_string_not_equal(plan_kind_name((enum plan_kind)i),
                                    plan_kind_name((enum plan_kind)k));
        }
    }
    assert_string_equal(plan_kind_name(PLAN_KIND_COUNT), "?");
}

#define PLAN_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLAN_TEST(nothing_is_mounted_over_the_root),
        PLAN_TEST(confinement_is_whole_and_in_order),
        PLAN_TEST(each_tree_is_opened_first_and_moved_once),
        PLAN_TEST(nothing_of_the_host_is_writable_or_brings_set_ids),
        PLAN_TEST(names_of_the_host_are_replaced_by_the_sandboxs_own),
        PLAN_TEST(workspace_is_on_the_sandboxs_disk_by_default),
        PLAN_TEST(named_workspace_is_the_only_writable_host_directory),
        PLAN_TEST(copy_on_write_workspace_has_its_upper_layer_in_memory),
        PLAN_TEST(copy_on_write_workspace_has_its_upper_layer_in_a_store),
        PLAN_TEST(an_interpreter_in_the_workspace_is_read_only_there_and_cannot_be_moved),
        PLAN_TEST(data_is_shown_for_reading_unless_the_user_says_more),
        PLAN_TEST(an_installer_sees_no_data),
        PLAN_TEST(workspace_that_is_no_directory_is_refused_with_its_name),
        PLAN_TEST(guest_runs_as_an_id_that_owns_nothing),
        PLAN_TEST(machine_has_the_processors_that_may_be_used_at_a_time),
        PLAN_TEST(environment_is_built_from_nothing),
        PLAN_TEST(interpreters_directory_that_cannot_be_an_entry_is_not_in_path),
        PLAN_TEST(interpreter_gets_package_settings_only_with_install),
        PLAN_TEST(an_installer_has_its_own_program_ids_and_paths),
        PLAN_TEST(user_packages_are_named_to_the_interpreter),
        PLAN_TEST(hash_seed_reaches_the_code),
        PLAN_TEST(fullest_plan_fits),
        PLAN_TEST(each_step_is_printed_on_a_line_with_its_number),
        cmocka_unit_test(each_kind_has_a_unique_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
