#include "sandbox/report/report.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "sandbox/plan/plan.h"
#include "sandbox/sandbox.h"
#include "sandbox/workspace/store.h"
#include "tests/unit/unit.h"

struct world {
    struct box_spec spec;
    struct cgroup cgroup;
    struct selftest_verdict verdict;
    struct host host;
    struct report_facts facts;
    struct box_report report;
};

/* A host on which every protection is on. */
static void world_init(struct world *world)
{
    *world = (struct world){};
    box_spec_init(&world->spec);
    (void)snprintf(world->cgroup.name, sizeof world->cgroup.name, "sandpiper-1");
    for (unsigned i = 0; i < CGROUP_CONTROLLERS; i++) {
        world->cgroup.controller_fd[i] = 0;
    }
    world->facts = (struct report_facts){.spec = &world->spec,
                                         .has_hostname = true,
                                         .has_machine = true,
                                         .host = &world->host,
                                         .cgroup = &world->cgroup,
                                         .verdict = &world->verdict,
                                         .failed_step = PLAN_KIND_COUNT,
                                         .landlock_abi = 7,
                                         .python_path = "/usr/bin/python3",
                                         .python_version = "3.11.2"};
}

static const struct box_protection_report *compute(struct world *world,
                                                   enum box_protection protection)
{
    report_compute(&world->facts, &world->report);
    return &world->report.protections[protection];
}

static void lose(struct world *world, enum cgroup_controller controller)
{
    world->cgroup.controller_fd[controller] = -1;
    (void)snprintf(world->cgroup.why[controller], sizeof world->cgroup.why[controller],
                   "it is read-only");
}

static void all_on_is_usable_and_not_degraded(void **)
{
    struct world world;
    world_init(&world);
    (void)compute(&world, BOX_PROTECTION_MEMORY);
    assert_true(world.report.usable);
    assert_true(world.report.tested);
    assert_int_equal(box_report_degraded(&world.report), 0);
    assert_string_equal(world.report.refusal, "");
    for (unsigned i = 0; i < BOX_PROTECTION_COUNT; i++) {
        assert_int_equal(world.report.protections[i].state, BOX_PROTECTION_ON);
        assert_string_equal(world.report.protections[i].remedy, "");
        assert_string_equal(world.report.protections[i].consequence, "");
        assert_true(world.report.protections[i].detail[0]);
    }
}

static void nothing_allows_a_mandatory_protection_to_be_off(void **)
{
    for (unsigned i = 0; i <= BOX_PROTECTION_SECCOMP; i++) {
        struct world world;
        world_init(&world);
        world.spec.allow_degraded = ~0U;
        selftest_found(&world.verdict, (enum box_protection)i, "it leaks");
        const struct box_protection_report *entry = compute(&world, (enum box_protection)i);
        assert_int_equal(entry->state, BOX_PROTECTION_OFF);
        assert_true(entry->required);
        assert_false(world.report.usable);
        assert_non_null(strstr(world.report.refusal, box_protection_name((enum box_protection)i)));
        assert_non_null(strstr(world.report.refusal, "it leaks"));
    }
}

static void weaker_limits_are_named_and_used(void **)
{
    struct world world;
    world_init(&world);
    lose(&world, CGROUP_MEMORY);
    const struct box_protection_report *entry = compute(&world, BOX_PROTECTION_MEMORY);
    assert_int_equal(entry->state, BOX_PROTECTION_DEGRADED);
    assert_non_null(strstr(entry->detail, "it is read-only"));
    assert_true(entry->consequence[0]);
    assert_true(entry->remedy[0]);
    assert_true(world.report.usable);
    assert_int_equal(box_report_degraded(&world.report), 1U << BOX_PROTECTION_MEMORY);
}

static void require_refuses_a_degraded_protection(void **)
{
    struct world world;
    world_init(&world);
    lose(&world, CGROUP_MEMORY);
    world.spec.require = 1U << BOX_PROTECTION_MEMORY;
    (void)compute(&world, BOX_PROTECTION_MEMORY);
    assert_false(world.report.usable);
    assert_non_null(strstr(world.report.refusal, "memory: "));
    assert_non_null(strstr(world.report.refusal, "--require"));
    world_init(&world);
    world.spec.require = 1U << BOX_PROTECTION_MEMORY;
    (void)compute(&world, BOX_PROTECTION_MEMORY);
    assert_true(world.report.usable);
}

static void unavailable_requested_limit_refuses_unless_allowed(void **)
{
    struct world world;
    world_init(&world);
    lose(&world, CGROUP_CPU);
    assert_int_equal(compute(&world, BOX_PROTECTION_CPU)->state, BOX_PROTECTION_DEGRADED);
    assert_true(world.report.usable);
    world.spec.limits.cpu_milli = 1500;
    assert_int_equal(compute(&world, BOX_PROTECTION_CPU)->state, BOX_PROTECTION_OFF);
    assert_false(world.report.usable);
    assert_non_null(strstr(world.report.refusal, "--cpus 1.5"));
    assert_non_null(strstr(world.report.refusal, "--allow-degraded cpu"));
    world.spec.allow_degraded = 1U << BOX_PROTECTION_CPU;
    assert_int_equal(compute(&world, BOX_PROTECTION_CPU)->state, BOX_PROTECTION_OFF);
    assert_true(world.report.usable);
}

static void landlock_without_effect_refuses_code(void **)
{
    struct world world;
    world_init(&world);
    selftest_found(&world.verdict, BOX_PROTECTION_LANDLOCK, "signals leave");
    assert_int_equal(compute(&world, BOX_PROTECTION_LANDLOCK)->state, BOX_PROTECTION_OFF);
    assert_false(world.report.usable);
    world_init(&world);
    world.facts.landlock_abi = 0;
    assert_int_equal(compute(&world, BOX_PROTECTION_LANDLOCK)->state, BOX_PROTECTION_DEGRADED);
    assert_true(world.report.usable);
}

static void a_limit_with_another_value_is_off(void **)
{
    struct world world;
    world_init(&world);
    selftest_found(&world.verdict, BOX_PROTECTION_PIDS, "not what was set");
    assert_int_equal(compute(&world, BOX_PROTECTION_PIDS)->state, BOX_PROTECTION_OFF);
    assert_false(world.report.usable);
}

static void a_failure_concerns_one_protection_and_the_rest_is_unknown(void **)
{
    struct world world;
    struct fail failure = {};
    world_init(&world);
    (void)fail_set(&failure, EPERM, "mount /proc");
    world.facts.verdict = NULL;
    world.facts.cgroup = NULL;
    world.facts.python_version = NULL;
    world.facts.failure = &failure;
    world.facts.failed = BOX_PROTECTION_MOUNTS;
    world.facts.failed_step = PLAN_PROC;
    (void)compute(&world, BOX_PROTECTION_MOUNTS);
    assert_false(world.report.usable);
    assert_false(world.report.tested);
    assert_int_equal(world.report.protections[BOX_PROTECTION_NAMESPACES].state,
                     BOX_PROTECTION_UNKNOWN);
    assert_int_equal(world.report.protections[BOX_PROTECTION_SECCOMP].state,
                     BOX_PROTECTION_UNKNOWN);
    assert_int_equal(world.report.protections[BOX_PROTECTION_MEMORY].state, BOX_PROTECTION_UNKNOWN);
    assert_non_null(strstr(world.report.refusal, "mount /proc: Operation not permitted"));
    /* Even if accepted: without a sandbox no code can run. */
    world.facts.failed = BOX_PROTECTION_MEMORY;
    world.spec.allow_degraded = 1U << BOX_PROTECTION_MEMORY;
    (void)compute(&world, BOX_PROTECTION_MEMORY);
    assert_false(world.report.usable);
}

/* Level container has no overlay, so it is no alternative. */
static void an_overlays_refusal_names_what_it_needs(void **)
{
    static const struct box_store store = {.fd = -1};
    static const struct {
        int error;
        bool in_store;
        const char *words;
        const char *asked; /* --cow-store */
    } rows[] = {
        {ENODEV, false, "modprobe overlay"},
        {EOPNOTSUPP, false, "on a disk with --cow-store"},
        {EOPNOTSUPP, false, "end that server, or name another", "/store"},
        {EOPNOTSUPP, true, "XFS or btrfs with --cow-store"},
        {EINVAL, false, "of the workspace (before Linux 5.19"},
        {EINVAL, true, "of the store or of the workspace:"},
        {EBUSY, true, "uses the store: try again"},
        {EPERM, false, "use Linux 5.11 or newer"},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct world world;
        struct fail failure = {};
        world_init(&world);
        (void)fail_set(&failure, rows[i].error, "mount overlay /work");
        world.spec.cow = true;
        world.spec.store = rows[i].in_store ? &store : NULL;
        world.spec.cow_store = rows[i].asked;
        world.facts.verdict = NULL;
        world.facts.failure = &failure;
        world.facts.failed = BOX_PROTECTION_MOUNTS;
        world.facts.failed_step = PLAN_OVERLAY;
        (void)compute(&world, BOX_PROTECTION_MOUNTS);
        assert_false(world.report.usable);
        if (!strstr(world.report.refusal, rows[i].words) ||
            strstr(world.report.refusal, "--isolation")) {
            fail_msg("%s", world.report.refusal);
        }
    }
}

static void a_refusal_names_the_alternative(void **)
{
    struct world world;
    struct fail failure = {};
    world_init(&world);
    (void)fail_set(&failure, EPERM, "cannot create namespaces");
    world.facts.verdict = NULL;
    world.facts.failure = &failure;
    world.facts.failed = BOX_PROTECTION_NAMESPACES;
    (void)compute(&world, BOX_PROTECTION_NAMESPACES);
    assert_non_null(strstr(world.report.refusal, "--isolation=container"));
    world.facts.landlock_abi = 0;
    (void)compute(&world, BOX_PROTECTION_NAMESPACES);
    assert_null(strstr(world.report.refusal, "--isolation"));
}

static void without_proc_is_used_and_named(void **)
{
    struct world world;
    world_init(&world);
    world.facts.level = BOX_FULL_WITHOUT_PROC;
    assert_int_equal(compute(&world, BOX_PROTECTION_MOUNTS)->state, BOX_PROTECTION_DEGRADED);
    assert_true(world.report.usable);
    assert_true(world.report.protections[BOX_PROTECTION_MOUNTS].remedy[0]);
    world.spec.require = 1U << BOX_PROTECTION_MOUNTS;
    (void)compute(&world, BOX_PROTECTION_MOUNTS);
    assert_false(world.report.usable);
}

static void proc_without_the_machine_is_named(void **)
{
    struct world world;
    world_init(&world);
    assert_null(strstr(compute(&world, BOX_PROTECTION_MOUNTS)->detail, "/proc"));
    world.facts.has_machine = false;
    assert_non_null(strstr(compute(&world, BOX_PROTECTION_MOUNTS)->detail, "processes only"));
    world.facts.level = BOX_CONTAINER;
    assert_null(strstr(compute(&world, BOX_PROTECTION_MOUNTS)->detail, "processes only"));
}

static void without_namespaces_landlock_is_mandatory(void **)
{
    struct world world;
    world_init(&world);
    world.facts.level = BOX_CONTAINER;
    assert_int_equal(compute(&world, BOX_PROTECTION_NAMESPACES)->state, BOX_PROTECTION_OFF);
    assert_true(world.report.usable);
    assert_non_null(*box_level_not_promised(world.report.level));
    world.facts.landlock_abi = 1;
    world.spec.allow_degraded = 1U << BOX_PROTECTION_LANDLOCK;
    assert_int_equal(compute(&world, BOX_PROTECTION_LANDLOCK)->state, BOX_PROTECTION_OFF);
    assert_false(world.report.usable);
    world_init(&world);
    world.facts.level = BOX_CONTAINER;
    selftest_found(&world.verdict, BOX_PROTECTION_SECCOMP, "it leaks");
    (void)compute(&world, BOX_PROTECTION_SECCOMP);
    assert_false(world.report.usable);
    world_init(&world);
    world.facts.level = BOX_CONTAINER;
    world.spec.require = 1U << BOX_PROTECTION_NAMESPACES;
    (void)compute(&world, BOX_PROTECTION_NAMESPACES);
    assert_non_null(strstr(world.report.refusal, "leave namespaces out of --require"));
}

static void a_named_level_is_kept_and_best_is_resolved(void **)
{
    assert_int_equal(level_choose(BOX_ISOLATION_AUTO, false), BOX_ISOLATION_AUTO);
    assert_int_equal(level_choose(BOX_ISOLATION_FULL, false), BOX_ISOLATION_FULL);
    assert_int_equal(level_choose(BOX_ISOLATION_CONTAINER, true), BOX_ISOLATION_CONTAINER);
    assert_int_equal(level_choose(BOX_ISOLATION_BEST, true), BOX_ISOLATION_AUTO);
    assert_int_equal(level_choose(BOX_ISOLATION_BEST, false), BOX_ISOLATION_CONTAINER);
}

/* Each kind of host gets its own fix. */
static void remedies_fit_the_host(void **)
{
    static const struct {
        struct host host;
        enum box_protection protection;
        enum plan_kind step;
        int error;
        const char *word;
    } rows[] = {
        {{.userns_none = true},
         BOX_PROTECTION_NAMESPACES,
         PLAN_KIND_COUNT,
         ENOSPC,
         "user.max_user_namespaces="},
        {{.inside_userns = true}, BOX_PROTECTION_NAMESPACES, PLAN_KIND_COUNT, ENOSPC, "bubblewrap"},
        {{.container = HOST_DOCKER},
         BOX_PROTECTION_NAMESPACES,
         PLAN_KIND_COUNT,
         EAGAIN,
         "--pids-limit"},
        {{}, BOX_PROTECTION_PYTHON, PLAN_KIND_COUNT, EAGAIN, "ulimit -u"},
        {{.chrooted = true}, BOX_PROTECTION_NAMESPACES, PLAN_KIND_COUNT, EPERM, "a chroot"},
        {{.container = HOST_FIREJAIL},
         BOX_PROTECTION_NAMESPACES,
         PLAN_KIND_COUNT,
         EPERM,
         "--ignore=restrict-namespaces"},
        {{.container = HOST_DOCKER, .filtered = true},
         BOX_PROTECTION_NAMESPACES,
         PLAN_KIND_COUNT,
         EPERM,
         "a seccomp filter refuses it"},
        {{.container = HOST_DOCKER, .apparmor = "docker-default"},
         BOX_PROTECTION_MOUNTS,
         PLAN_PRIVATE,
         EACCES,
         "docker-default refuses it: start the container with --security-opt "
         "seccomp=sandpiper.json (from packaging/seccomp) --security-opt apparmor="},
        {{.userns_clone_off = true},
         BOX_PROTECTION_NAMESPACES,
         PLAN_KIND_COUNT,
         EPERM,
         "kernel.unprivileged_userns_clone=1"},
        {{.container = HOST_DOCKER},
         BOX_PROTECTION_NAMESPACES,
         PLAN_KIND_COUNT,
         EPERM,
         "--security-opt seccomp=sandpiper.json"},
        {{.container = HOST_PODMAN},
         BOX_PROTECTION_MOUNTS,
         PLAN_PROC,
         EPERM,
         "--security-opt unmask=ALL"},
        {{.container = HOST_KUBERNETES},
         BOX_PROTECTION_NAMESPACES,
         PLAN_KIND_COUNT,
         EPERM,
         "localhostProfile: sandpiper.json"},
        {{.apparmor_restricts_userns = true},
         BOX_PROTECTION_NAMESPACES,
         PLAN_KIND_COUNT,
         EACCES,
         "the lines to paste"},
        {{.apparmor_restricts_userns = true},
         BOX_PROTECTION_MOUNTS,
         PLAN_PRIVATE,
         EACCES,
         "the lines to paste"},
        {{.proc_masked = true}, BOX_PROTECTION_MOUNTS, PLAN_PROC, EPERM, "/proc are masked"},
        {{}, BOX_PROTECTION_MOUNTS, PLAN_OPEN_TREE, ENOSYS, "5.12"},
        {{.filtered = true},
         BOX_PROTECTION_NAMESPACES,
         PLAN_KIND_COUNT,
         EPERM,
         "RestrictNamespaces=no"},
        {{}, BOX_PROTECTION_NAMESPACES, PLAN_KIND_COUNT, EINVAL, "CONFIG_USER_NS"},
        {{}, BOX_PROTECTION_SECCOMP, PLAN_SECCOMP, EINVAL, "CONFIG_SECCOMP_FILTER"},
        {{}, BOX_PROTECTION_PYTHON, PLAN_KIND_COUNT, 0, "--python"},
        {{}, BOX_PROTECTION_PRIVILEGES, PLAN_CAPABILITIES, EPERM, "report"},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct box_report report = {};
        remedy_for_protection(rows[i].protection, rows[i].step, rows[i].error, &rows[i].host,
                              &report);
        if (!strstr(report.protections[rows[i].protection].remedy, rows[i].word)) {
            fail_msg("row %u: %s", i, report.protections[rows[i].protection].remedy);
        }
        assert_true(strlen(report.protections[rows[i].protection].remedy) <
                    sizeof report.protections[0].remedy - 1); /* not cut off */
        assert_int_equal(report.apparmor[0] != '\0',
                         strcmp(rows[i].word, "the lines to paste") == 0);
    }
}

static void a_forbidden_memfd_is_named(void **)
{
    struct box_report report = {};
    struct host host = {.memfd_noexec = true, .container = HOST_DOCKER};
    remedy_for_protection(BOX_PROTECTION_MOUNTS, PLAN_KIND_COUNT, EACCES, &host, &report);
    assert_non_null(strstr(report.protections[BOX_PROTECTION_MOUNTS].remedy, "vm.memfd_noexec=1"));
}

static void the_apparmor_lines_name_this_program(void **)
{
    struct box_report report = {};
    struct host host = {.apparmor_restricts_userns = true};
    (void)snprintf(host.program, sizeof host.program, "/opt/ann/.local/bin [1]/sandpiper");
    remedy_for_protection(BOX_PROTECTION_NAMESPACES, PLAN_KIND_COUNT, EACCES, &host, &report);
    assert_string_equal(report.apparmor,
                        "sudo tee /etc/apparmor.d/opt.ann..local.bin__1_.sandpiper <<'END'\n"
                        "abi <abi/4.0>,\n"
                        "\"/opt/ann/.local/bin \\[1\\]/sandpiper\" "
                        "flags=(attach_disconnected, mediate_deleted) {\n"
                        "  userns, mount, umount, pivot_root, capability, "
                        "/{,**} rwlkm, /{,**} pix,\n"
                        "  network, unix, mqueue, io_uring, signal, ptrace, dbus,\n"
                        "}\n"
                        "END\n"
                        "sudo apparmor_parser -r "
                        "/etc/apparmor.d/opt.ann..local.bin__1_.sandpiper\n");
}

static void landlocks_remedy_follows_its_error(void **)
{
    static const struct {
        int error;
        const char *word;
    } rows[] = {{ENOSYS, "CONFIG_SECURITY_LANDLOCK"},
                {EOPNOTSUPP, "lsm="},
                {EPERM, "seccomp filter"},
                {0, "5.19"}};
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct box_protection_report entry = {};
        struct host host = {.landlock_error = rows[i].error};
        remedy_for_landlock(&host, &entry);
        assert_non_null(strstr(entry.remedy, rows[i].word));
    }
}

static void assert_described(const struct world *world, const char *word)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    assert_int_equal(box_report_describe(&world->report, &world->spec, &text), 0);
    assert_int_equal(buf_append(&text, "", 1), 0);
    if (!strstr(buf_bytes(&text), word)) {
        fail_msg("no \"%s\" in: %s", word, buf_bytes(&text));
    }
    assert_true(buf_size(&text) < 1200); /* with the other instructions below 2 kB */
}

static void clients_get_one_line_or_the_degraded_protections(void **)
{
    struct world world;
    world_init(&world);
    (void)compute(&world, BOX_PROTECTION_MEMORY);
    assert_described(&world, "Isolation: full.");
    world.spec.limits.cpu_milli = 1500;
    assert_described(&world, " The code has 1.5 processors.");
    world.spec.limits.cpu_milli = 0;
    lose(&world, CGROUP_MEMORY);
    lose(&world, CGROUP_PIDS);
    lose(&world, CGROUP_CPU);
    world.facts.landlock_abi = 0;
    world.spec.workspace = "/data";
    (void)compute(&world, BOX_PROTECTION_MEMORY);
    assert_described(&world, "Degraded on this machine: landlock (");
    assert_described(&world, "; memory (");
    assert_described(&world, "; disk (");
    world.facts.verdict = NULL;
    world.facts.cgroup = NULL;
    (void)compute(&world, BOX_PROTECTION_MEMORY);
    assert_described(&world, "tested before any code runs");
    world.verdict = (struct selftest_verdict){};
    selftest_found(&world.verdict, BOX_PROTECTION_MOUNTS, "/ is the host's root directory");
    world.facts.verdict = &world.verdict;
    (void)compute(&world, BOX_PROTECTION_MEMORY);
    assert_described(&world,
                     "Tools refuse to run code here: mounts: / is the host's root directory");
}

static void protections_are_found_by_their_whole_name(void **)
{
    assert_int_equal(box_protection_find("cpu", 3), BOX_PROTECTION_CPU);
    assert_int_equal(box_protection_find("cpu,pids", 3), BOX_PROTECTION_CPU);
    assert_int_equal(box_protection_find("cpus", 4), BOX_PROTECTION_COUNT);
    assert_int_equal(box_protection_find("c", 1), BOX_PROTECTION_COUNT);
    assert_int_equal(box_protection_find("", 0), BOX_PROTECTION_COUNT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_on_is_usable_and_not_degraded),
        cmocka_unit_test(nothing_allows_a_mandatory_protection_to_be_off),
        cmocka_unit_test(weaker_limits_are_named_and_used),
        cmocka_unit_test(require_refuses_a_degraded_protection),
        cmocka_unit_test(unavailable_requested_limit_refuses_unless_allowed),
        cmocka_unit_test(landlock_without_effect_refuses_code),
        cmocka_unit_test(a_limit_with_another_value_is_off),
        cmocka_unit_test(a_failure_concerns_one_protection_and_the_rest_is_unknown),
        cmocka_unit_test(an_overlays_refusal_names_what_it_needs),
        cmocka_unit_test(a_refusal_names_the_alternative),
        cmocka_unit_test(without_proc_is_used_and_named),
        cmocka_unit_test(proc_without_the_machine_is_named),
        cmocka_unit_test(without_namespaces_landlock_is_mandatory),
        cmocka_unit_test(a_named_level_is_kept_and_best_is_resolved),
        cmocka_unit_test(remedies_fit_the_host),
        cmocka_unit_test(a_forbidden_memfd_is_named),
        cmocka_unit_test(the_apparmor_lines_name_this_program),
        cmocka_unit_test(landlocks_remedy_follows_its_error),
        cmocka_unit_test(clients_get_one_line_or_the_degraded_protections),
        cmocka_unit_test(protections_are_found_by_their_whole_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
