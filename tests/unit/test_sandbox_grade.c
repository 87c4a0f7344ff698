#include "sandbox/grade/grade.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "sandbox/grade/remedy.h"
#include "sandbox/grade/surrounding.h"
#include "tests/unit/unit.h"

struct world {
    struct box_spec spec;
    struct cgroup cgroup;
    struct proof_verdict verdict;
    struct host host;
    struct grade_facts facts;
    struct box_grade grade;
};

/* A host on which everything holds. */
static void world_init(struct world *world)
{
    *world = (struct world){};
    box_spec_init(&world->spec);
    (void)snprintf(world->cgroup.name, sizeof world->cgroup.name, "sandpiper-1");
    for (unsigned i = 0; i < CGROUP_CONTROLLERS; i++) {
        world->cgroup.controller_fd[i] = 0;
    }
    world->facts = (struct grade_facts){.spec = &world->spec,
                                        .has_hostname = true,
                                        .host = &world->host,
                                        .cgroup = &world->cgroup,
                                        .verdict = &world->verdict,
                                        .failed_step = PLAN_KIND_COUNT,
                                        .landlock_abi = 7,
                                        .python_path = "/usr/bin/python3",
                                        .python_version = "3.11.2"};
}

static const struct box_layer_report *compute(struct world *world, enum box_layer layer)
{
    grade_compute(&world->facts, &world->grade);
    return &world->grade.layers[layer];
}

static void lose(struct world *world, enum cgroup_controller controller)
{
    world->cgroup.controller_fd[controller] = -1;
    (void)snprintf(world->cgroup.why[controller], sizeof world->cgroup.why[controller],
                   "it is read-only");
}

static void all_on_is_usable_and_has_no_gaps(void **)
{
    struct world world;
    world_init(&world);
    (void)compute(&world, BOX_LAYER_MEMORY);
    assert_true(world.grade.usable);
    assert_true(world.grade.proven);
    assert_int_equal(box_grade_gaps(&world.grade), 0);
    assert_string_equal(world.grade.refusal, "");
    for (unsigned i = 0; i < BOX_LAYER_COUNT; i++) {
        assert_int_equal(world.grade.layers[i].state, BOX_LAYER_ON);
        assert_string_equal(world.grade.layers[i].remedy, "");
        assert_string_equal(world.grade.layers[i].consequence, "");
        assert_true(world.grade.layers[i].detail[0]);
    }
}

static void nothing_allows_a_mandatory_layer_to_be_off(void **)
{
    for (unsigned i = 0; i <= BOX_LAYER_SECCOMP; i++) {
        struct world world;
        world_init(&world);
        world.spec.allow_degraded = ~0U;
        proof_found(&world.verdict, (enum box_layer)i, "it leaks");
        const struct box_layer_report *report = compute(&world, (enum box_layer)i);
        assert_int_equal(report->state, BOX_LAYER_OFF);
        assert_true(report->required);
        assert_false(world.grade.usable);
        assert_non_null(strstr(world.grade.refusal, box_layer_name((enum box_layer)i)));
        assert_non_null(strstr(world.grade.refusal, "it leaks"));
    }
}

static void weaker_limits_are_named_and_used(void **)
{
    struct world world;
    world_init(&world);
    lose(&world, CGROUP_MEMORY);
    const struct box_layer_report *report = compute(&world, BOX_LAYER_MEMORY);
    assert_int_equal(report->state, BOX_LAYER_DEGRADED);
    assert_non_null(strstr(report->detail, "it is read-only"));
    assert_true(report->consequence[0]);
    assert_true(report->remedy[0]);
    assert_true(world.grade.usable);
    assert_int_equal(box_grade_gaps(&world.grade), 1U << BOX_LAYER_MEMORY);
}

static void require_refuses_what_is_weaker(void **)
{
    struct world world;
    world_init(&world);
    lose(&world, CGROUP_MEMORY);
    world.spec.require = 1U << BOX_LAYER_MEMORY;
    (void)compute(&world, BOX_LAYER_MEMORY);
    assert_false(world.grade.usable);
    assert_non_null(strstr(world.grade.refusal, "memory: "));
    assert_non_null(strstr(world.grade.refusal, "--require"));
    world_init(&world);
    world.spec.require = 1U << BOX_LAYER_MEMORY;
    (void)compute(&world, BOX_LAYER_MEMORY);
    assert_true(world.grade.usable);
}

static void a_limit_that_was_asked_for_and_cannot_be_kept_refuses_unless_allowed(void **)
{
    struct world world;
    world_init(&world);
    lose(&world, CGROUP_CPU);
    assert_int_equal(compute(&world, BOX_LAYER_CPU)->state, BOX_LAYER_DEGRADED);
    assert_true(world.grade.usable);
    world.spec.limits.cpu_milli = 1500;
    assert_int_equal(compute(&world, BOX_LAYER_CPU)->state, BOX_LAYER_OFF);
    assert_false(world.grade.usable);
    assert_non_null(strstr(world.grade.refusal, "--cpus 1.5"));
    assert_non_null(strstr(world.grade.refusal, "--allow-degraded cpu"));
    world.spec.allow_degraded = 1U << BOX_LAYER_CPU;
    assert_int_equal(compute(&world, BOX_LAYER_CPU)->state, BOX_LAYER_OFF);
    assert_true(world.grade.usable);
}

static void landlock_that_is_there_and_does_nothing_refuses(void **)
{
    struct world world;
    world_init(&world);
    proof_found(&world.verdict, BOX_LAYER_LANDLOCK, "signals leave");
    assert_int_equal(compute(&world, BOX_LAYER_LANDLOCK)->state, BOX_LAYER_OFF);
    assert_false(world.grade.usable);
    world_init(&world);
    world.facts.landlock_abi = 0;
    assert_int_equal(compute(&world, BOX_LAYER_LANDLOCK)->state, BOX_LAYER_DEGRADED);
    assert_true(world.grade.usable);
}

static void a_limit_that_reads_back_otherwise_is_off(void **)
{
    struct world world;
    world_init(&world);
    proof_found(&world.verdict, BOX_LAYER_PIDS, "not what was set");
    assert_int_equal(compute(&world, BOX_LAYER_PIDS)->state, BOX_LAYER_OFF);
    assert_false(world.grade.usable);
}

static void a_failure_is_one_layers_and_the_rest_is_unknown(void **)
{
    struct world world;
    struct fail failure = {};
    world_init(&world);
    (void)fail_set(&failure, EPERM, "mount /proc");
    world.facts.verdict = NULL;
    world.facts.cgroup = NULL;
    world.facts.python_version = NULL;
    world.facts.failure = &failure;
    world.facts.failed = BOX_LAYER_MOUNTS;
    world.facts.failed_step = PLAN_PROC;
    (void)compute(&world, BOX_LAYER_MOUNTS);
    assert_false(world.grade.usable);
    assert_false(world.grade.proven);
    assert_int_equal(world.grade.layers[BOX_LAYER_NAMESPACES].state, BOX_LAYER_UNKNOWN);
    assert_int_equal(world.grade.layers[BOX_LAYER_SECCOMP].state, BOX_LAYER_UNKNOWN);
    assert_int_equal(world.grade.layers[BOX_LAYER_MEMORY].state, BOX_LAYER_UNKNOWN);
    assert_non_null(strstr(world.grade.refusal, "mount /proc: Operation not permitted"));
    /* Accepted or not: without a box there is nothing to use. */
    world.facts.failed = BOX_LAYER_MEMORY;
    world.spec.allow_degraded = 1U << BOX_LAYER_MEMORY;
    (void)compute(&world, BOX_LAYER_MEMORY);
    assert_false(world.grade.usable);
}

static void a_refusal_names_the_other_choice_where_there_is_one(void **)
{
    struct world world;
    struct fail failure = {};
    world_init(&world);
    (void)fail_set(&failure, EPERM, "new namespaces");
    world.facts.verdict = NULL;
    world.facts.failure = &failure;
    world.facts.failed = BOX_LAYER_NAMESPACES;
    (void)compute(&world, BOX_LAYER_NAMESPACES);
    assert_non_null(strstr(world.grade.refusal, "--isolation=container"));
    world.facts.landlock_abi = 0;
    (void)compute(&world, BOX_LAYER_NAMESPACES);
    assert_null(strstr(world.grade.refusal, "--isolation"));
}

static void without_proc_is_used_and_named(void **)
{
    struct world world;
    world_init(&world);
    world.facts.profile = BOX_FULL_WITHOUT_PROC;
    assert_int_equal(compute(&world, BOX_LAYER_MOUNTS)->state, BOX_LAYER_DEGRADED);
    assert_true(world.grade.usable);
    assert_true(world.grade.layers[BOX_LAYER_MOUNTS].remedy[0]);
    world.spec.require = 1U << BOX_LAYER_MOUNTS;
    (void)compute(&world, BOX_LAYER_MOUNTS);
    assert_false(world.grade.usable);
}

static void without_namespaces_landlock_is_mandatory(void **)
{
    struct world world;
    world_init(&world);
    world.facts.profile = BOX_CONTAINER;
    assert_int_equal(compute(&world, BOX_LAYER_NAMESPACES)->state, BOX_LAYER_OFF);
    assert_true(world.grade.usable);
    assert_non_null(*box_profile_not_promised(world.grade.profile));
    world.facts.landlock_abi = 1;
    world.spec.allow_degraded = 1U << BOX_LAYER_LANDLOCK;
    assert_int_equal(compute(&world, BOX_LAYER_LANDLOCK)->state, BOX_LAYER_OFF);
    assert_false(world.grade.usable);
    world_init(&world);
    world.facts.profile = BOX_CONTAINER;
    proof_found(&world.verdict, BOX_LAYER_SECCOMP, "it leaks");
    (void)compute(&world, BOX_LAYER_SECCOMP);
    assert_false(world.grade.usable);
    world_init(&world);
    world.facts.profile = BOX_CONTAINER;
    world.spec.require = 1U << BOX_LAYER_NAMESPACES;
    (void)compute(&world, BOX_LAYER_NAMESPACES);
    assert_non_null(strstr(world.grade.refusal, "leave namespaces out of --require"));
}

static void a_wish_is_kept_unless_it_is_the_best(void **)
{
    assert_int_equal(surrounding_choose(BOX_ISOLATION_AUTO, false), BOX_ISOLATION_AUTO);
    assert_int_equal(surrounding_choose(BOX_ISOLATION_FULL, false), BOX_ISOLATION_FULL);
    assert_int_equal(surrounding_choose(BOX_ISOLATION_CONTAINER, true), BOX_ISOLATION_CONTAINER);
    assert_int_equal(surrounding_choose(BOX_ISOLATION_BEST, true), BOX_ISOLATION_AUTO);
    assert_int_equal(surrounding_choose(BOX_ISOLATION_BEST, false), BOX_ISOLATION_CONTAINER);
}

/* Each kind of host gets its own remedy. */
static void remedies_fit_the_host(void **)
{
    static const struct {
        struct host host;
        enum box_layer layer;
        enum plan_kind step;
        int error;
        const char *word;
    } rows[] = {
        {{.userns_none = true},
         BOX_LAYER_NAMESPACES,
         PLAN_KIND_COUNT,
         ENOSPC,
         "user.max_user_namespaces="},
        {{.inside_userns = true}, BOX_LAYER_NAMESPACES, PLAN_KIND_COUNT, ENOSPC, "bubblewrap"},
        {{.chrooted = true}, BOX_LAYER_NAMESPACES, PLAN_KIND_COUNT, EPERM, "a chroot"},
        {{.container = HOST_FIREJAIL},
         BOX_LAYER_NAMESPACES,
         PLAN_KIND_COUNT,
         EPERM,
         "--ignore=restrict-namespaces"},
        {{.container = HOST_DOCKER, .filtered = true},
         BOX_LAYER_NAMESPACES,
         PLAN_KIND_COUNT,
         EPERM,
         "a seccomp filter refuses it"},
        {{.container = HOST_DOCKER, .apparmor = "docker-default"},
         BOX_LAYER_MOUNTS,
         PLAN_PRIVATE,
         EACCES,
         "docker-default refuses it: start the container with --security-opt "
         "seccomp=sandpiper.json (from packaging/seccomp) --security-opt apparmor="},
        {{.userns_clone_off = true},
         BOX_LAYER_NAMESPACES,
         PLAN_KIND_COUNT,
         EPERM,
         "kernel.unprivileged_userns_clone=1"},
        {{.container = HOST_DOCKER},
         BOX_LAYER_NAMESPACES,
         PLAN_KIND_COUNT,
         EPERM,
         "--security-opt seccomp=sandpiper.json"},
        {{.container = HOST_PODMAN},
         BOX_LAYER_MOUNTS,
         PLAN_PROC,
         EPERM,
         "--security-opt unmask=ALL"},
        {{.container = HOST_KUBERNETES},
         BOX_LAYER_NAMESPACES,
         PLAN_KIND_COUNT,
         EPERM,
         "localhostProfile: sandpiper.json"},
        {{.apparmor_restricts_userns = true},
         BOX_LAYER_NAMESPACES,
         PLAN_KIND_COUNT,
         EACCES,
         "the lines to paste"},
        {{.apparmor_restricts_userns = true},
         BOX_LAYER_MOUNTS,
         PLAN_PRIVATE,
         EACCES,
         "the lines to paste"},
        {{.proc_masked = true}, BOX_LAYER_MOUNTS, PLAN_PROC, EPERM, "over parts of /proc"},
        {{}, BOX_LAYER_MOUNTS, PLAN_OPEN_TREE, ENOSYS, "5.12"},
        {{.filtered = true}, BOX_LAYER_NAMESPACES, PLAN_KIND_COUNT, EPERM, "RestrictNamespaces=no"},
        {{}, BOX_LAYER_NAMESPACES, PLAN_KIND_COUNT, EINVAL, "CONFIG_USER_NS"},
        {{}, BOX_LAYER_SECCOMP, PLAN_SECCOMP, EINVAL, "CONFIG_SECCOMP_FILTER"},
        {{}, BOX_LAYER_PYTHON, PLAN_KIND_COUNT, 0, "--python"},
        {{}, BOX_LAYER_PRIVILEGES, PLAN_CAPABILITIES, EPERM, "report"},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct box_grade grade = {};
        remedy_for_layer(rows[i].layer, rows[i].step, rows[i].error, &rows[i].host, &grade);
        if (!strstr(grade.layers[rows[i].layer].remedy, rows[i].word)) {
            fail_msg("row %u: %s", i, grade.layers[rows[i].layer].remedy);
        }
        assert_true(strlen(grade.layers[rows[i].layer].remedy) <
                    sizeof grade.layers[0].remedy - 1); /* not cut off */
        assert_int_equal(grade.apparmor[0] != '\0',
                         strcmp(rows[i].word, "the lines to paste") == 0);
    }
}

static void the_apparmor_lines_name_this_program(void **)
{
    struct box_grade grade = {};
    struct host host = {.apparmor_restricts_userns = true};
    (void)snprintf(host.program, sizeof host.program, "/opt/ann/.local/bin [1]/sandpiper");
    remedy_for_layer(BOX_LAYER_NAMESPACES, PLAN_KIND_COUNT, EACCES, &host, &grade);
    assert_string_equal(grade.apparmor,
                        "sudo tee /etc/apparmor.d/opt.ann..local.bin__1_.sandpiper <<'END'\n"
                        "abi <abi/4.0>,\n"
                        "\"/opt/ann/.local/bin \\[1\\]/sandpiper\" flags=(unconfined) "
                        "{ userns, }\n"
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
        struct box_layer_report report = {};
        struct host host = {.landlock_error = rows[i].error};
        remedy_for_landlock(&host, &report);
        assert_non_null(strstr(report.remedy, rows[i].word));
    }
}

static void assert_described(const struct world *world, const char *word)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    assert_int_equal(box_grade_describe(&world->grade, &world->spec, &text), 0);
    assert_int_equal(buf_append(&text, "", 1), 0);
    if (!strstr(buf_bytes(&text), word)) {
        fail_msg("no \"%s\" in: %s", word, buf_bytes(&text));
    }
    assert_true(buf_size(&text) < 1200); /* beside the other instructions, below 2 kB in all */
}

static void hosts_hear_one_line_or_the_gaps_by_name(void **)
{
    struct world world;
    world_init(&world);
    (void)compute(&world, BOX_LAYER_MEMORY);
    assert_described(&world, "Isolation: full: ");
    assert_described(&world, "1024 MiB of memory");
    lose(&world, CGROUP_MEMORY);
    lose(&world, CGROUP_PIDS);
    lose(&world, CGROUP_CPU);
    world.facts.landlock_abi = 0;
    world.spec.workspace = "/data";
    (void)compute(&world, BOX_LAYER_MEMORY);
    assert_described(&world, "Weaker on this machine: landlock (");
    assert_described(&world, "; memory (");
    assert_described(&world, "; disk (");
    world.facts.verdict = NULL;
    world.facts.cgroup = NULL;
    (void)compute(&world, BOX_LAYER_MEMORY);
    assert_described(&world, "proven before any code runs");
    world.verdict = (struct proof_verdict){};
    proof_found(&world.verdict, BOX_LAYER_MOUNTS, "/ is the host's own");
    world.facts.verdict = &world.verdict;
    (void)compute(&world, BOX_LAYER_MEMORY);
    assert_described(&world, "Tools refuse to run code here: mounts: / is the host's own");
}

static void layers_are_found_by_their_whole_name(void **)
{
    assert_int_equal(box_layer_find("cpu", 3), BOX_LAYER_CPU);
    assert_int_equal(box_layer_find("cpu,pids", 3), BOX_LAYER_CPU);
    assert_int_equal(box_layer_find("cpus", 4), BOX_LAYER_COUNT);
    assert_int_equal(box_layer_find("c", 1), BOX_LAYER_COUNT);
    assert_int_equal(box_layer_find("", 0), BOX_LAYER_COUNT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_on_is_usable_and_has_no_gaps),
        cmocka_unit_test(nothing_allows_a_mandatory_layer_to_be_off),
        cmocka_unit_test(weaker_limits_are_named_and_used),
        cmocka_unit_test(require_refuses_what_is_weaker),
        cmocka_unit_test(a_limit_that_was_asked_for_and_cannot_be_kept_refuses_unless_allowed),
        cmocka_unit_test(landlock_that_is_there_and_does_nothing_refuses),
        cmocka_unit_test(a_limit_that_reads_back_otherwise_is_off),
        cmocka_unit_test(a_failure_is_one_layers_and_the_rest_is_unknown),
        cmocka_unit_test(a_refusal_names_the_other_choice_where_there_is_one),
        cmocka_unit_test(without_proc_is_used_and_named),
        cmocka_unit_test(without_namespaces_landlock_is_mandatory),
        cmocka_unit_test(a_wish_is_kept_unless_it_is_the_best),
        cmocka_unit_test(remedies_fit_the_host),
        cmocka_unit_test(the_apparmor_lines_name_this_program),
        cmocka_unit_test(landlocks_remedy_follows_its_error),
        cmocka_unit_test(hosts_hear_one_line_or_the_gaps_by_name),
        cmocka_unit_test(layers_are_found_by_their_whole_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
