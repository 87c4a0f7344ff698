#include <assert.h>
#include <errno.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "sandbox/host/host_facts.h"
#include "sandbox/host/python.h"
#include "sandbox/plan/plan.h"
#include "sandbox/policy/filter.h"
#include "sandbox/policy/landlock.h"

const char *plan_keep(struct plan *plan, const char *fmt, ...)
{
    char **strings = realloc(plan->strings, (plan->string_count + 1) * sizeof *strings);
    if (!strings) {
        return NULL;
    }
    plan->strings = strings;
    va_list args;
    va_start(args, fmt);
    int size = vasprintf(&strings[plan->string_count], fmt, args);
    va_end(args);
    return size < 0 ? NULL : strings[plan->string_count++];
}

struct plan_step *plan_add(struct plan *plan, enum plan_kind kind, const char *source,
                           const char *target)
{
    assert(plan->step_count < PLAN_STEPS);
    struct plan_step *step = &plan->steps[plan->step_count++];
    *step = (struct plan_step){.kind = kind, .source = source, .target = target, .mode = 0755};
    return step;
}

struct plan_step *plan_add_file(struct plan *plan, const char *target, const void *content,
                                size_t size)
{
    struct plan_step *step = plan_add(plan, PLAN_FILE, NULL, target);
    step->content = content;
    step->content_size = size;
    step->mode = 0444;
    return step;
}

void plan_allow(struct plan *plan, const char *path, uint64_t allowed)
{
    assert(plan->rule_count < PLAN_RULES);
    plan->rules[plan->rule_count++] = (struct landlock_rule){path, allowed};
}

void plan_add_locks(struct plan *plan, bool trusted)
{
    plan_add(plan, PLAN_NO_NAMESPACES, NULL, NULL)->optional = trusted;
    plan_add(plan, PLAN_DESCRIPTORS, NULL, NULL);
    plan_add(plan, PLAN_CAPABILITIES, NULL, NULL);
    /* After the ids and capabilities are final: changing them clears the signal, prctl(2). */
    plan_add(plan, PLAN_DEATH_SIGNAL, NULL, NULL);
}

/* Whether there was memory for everything necessary. */
static bool is_whole(const struct plan *plan)
{
    for (unsigned i = 0; i < plan->step_count; i++) {
        const struct plan_step *step = &plan->steps[i];
        bool needs_target = step->kind == PLAN_DIRECTORY || step->kind == PLAN_FILE;
        if ((needs_target && !step->target) || (step->kind == PLAN_OPEN_TREE && !step->source)) {
            return false;
        }
    }
    return true;
}

/* Whether a component of the path is "..", or there is none. */
static bool is_odd(const char *path)
{
    bool any = false;
    for (path += strspn(path, "/"); *path; path += strspn(path, "/")) {
        size_t size = strcspn(path, "/");
        if (size == 2 && strncmp(path, "..", 2) == 0) {
            return true;
        }
        any = any || size > 1 || *path != '.';
        path += size;
    }
    return !any;
}

int plan_check(const struct plan *plan, struct fail *ret_fail)
{
    if (!is_whole(plan)) {
        return fail_set(ret_fail, ENOMEM, "the sandbox's plan");
    }
    for (unsigned i = 0; i < plan->step_count; i++) {
        const struct plan_step *step = &plan->steps[i];
        if ((step->kind == PLAN_MOVE || step->kind == PLAN_SUBTREE) && step->target &&
            is_odd(step->target)) {
            return fail_refuse(ret_fail, EPERM, "the sandbox's plan has a mount at %.300s",
                               step->target);
        }
    }
    return 0;
}

/* Plans with an empty root, for processes that need no files. */

/* A root that holds only /dev/null. */
static void add_empty_root(struct plan *plan, const char *hostname)
{
    static const char null[] = "/dev/null";
    plan->tree_count = 1;
    plan_add(plan, PLAN_OPEN_TREE, null, NULL);
    plan_add(plan, PLAN_IDENTITY, NULL, NULL);
    plan_add(plan, PLAN_SESSION, NULL, NULL);
    plan_add(plan, PLAN_HOSTNAME, hostname, NULL)->optional = true;
    plan_add(plan, PLAN_PRIVATE, NULL, NULL);
    plan_add(plan, PLAN_ROOT, NULL, NULL)->data = "size=64k,nr_inodes=16,mode=0755";
    plan_add(plan, PLAN_DIRECTORY, NULL, "/work"); /* PLAN_PIVOT changes to it */
    plan_add(plan, PLAN_MOVE, null, null)->attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC;
    plan_add(plan, PLAN_READ_ONLY_ROOT, NULL, NULL);
    plan_add(plan, PLAN_PIVOT, NULL, NULL);
}

void plan_build_namespace_check(const struct host_facts *facts, struct plan *plan)
{
    *plan = (struct plan){.namespaces = PLAN_NAMESPACES | CLONE_NEWNET};
    plan_choose_ids(plan, facts, /* installer= */ false);
    add_empty_root(plan, BOX_HOSTNAME);
    plan_add(plan, PLAN_GROUP, NULL, NULL);
    plan_add(plan, PLAN_CGROUP_NAMESPACE, NULL, NULL);
}

void plan_build_proxy(const struct host_facts *facts, struct plan *plan)
{
    *plan = (struct plan){};
    plan->namespaces = PLAN_NAMESPACES; /* the proxy uses the host's network */
    plan_choose_ids(plan, facts, /* installer= */ false);
    add_empty_root(plan, "egress");
    plan_add_locks(plan, /* trusted= */ true);
    plan_add(plan, PLAN_EXECUTE, "sandpiper-proxy", NULL);
}

/* The seccomp programs of a plan. The process compiles each once. */

int plan_build_init_filter(struct plan *plan, struct fail *ret_fail)
{
    static struct filter_program kept;
    if (plan->level == BOX_CONTAINER) {
        /* The supervisor has no filter: it starts the processes that notify it, and has no more
         * rights than its guest. */
        return 0;
    }
    kept = kept.program ? kept : made_filters[MADE_INIT];
    int r = kept.program ? 0 : filter_build_init(&kept, ret_fail);
    plan->filter_init = kept;
    return r;
}

int plan_compile_full(struct plan *plan, struct fail *ret_fail)
{
    bool landlock = plan->landlock_abi >= LANDLOCK_ABI_LEAST;
    bool scopes = plan->landlock_abi >= LANDLOCK_ABI_SCOPES;
    const struct filter_asks asks = {.signals = !scopes, .writes = plan->asks_of_writes};
    int r = asks.signals || asks.writes ? filter_build_asks(&asks, &plan->filter_notified, ret_fail)
                                        : 0;
    plan->filter_arguments = made_filters[landlock ? MADE_WITH_LANDLOCK : MADE_ARGUMENTS];
    plan->filter_names = made_filters[MADE_NAMES];
    if (r == 0 && !plan->filter_names.program) {
        r = filter_build_arguments(landlock, &plan->filter_arguments, ret_fail);
        r = r ? r : filter_build_names(&plan->filter_names, ret_fail);
    }
    return r;
}

int plan_build_guest_filters(struct plan *plan, plan_compile_fn compile, struct fail *ret_fail)
{
    static struct {
        struct filter_program notified;
        struct filter_program arguments;
        struct filter_program names;
    } kept[6]; /* by everything that they depend on */
    typeof(*kept) *mine =
        &kept[(plan->level == BOX_CONTAINER ? 1 + plan->egress : 0) * 2 + plan->asks_of_writes];
    if (!mine->names.program) {
        int r = compile(plan, ret_fail);
        if (r < 0) {
            return r;
        }
        mine->notified = plan->filter_notified;
        mine->arguments = plan->filter_arguments;
        mine->names = plan->filter_names;
    }
    plan->filter_notified = mine->notified;
    plan->filter_arguments = mine->arguments;
    plan->filter_names = mine->names;
    return 0;
}

enum box_isolation level_choose(enum box_isolation requested, bool namespaces)
{
    if (requested != BOX_ISOLATION_BEST) {
        return requested;
    }
    return namespaces ? BOX_ISOLATION_AUTO : BOX_ISOLATION_CONTAINER;
}

enum box_level level_expected(enum box_isolation requested)
{
    return requested == BOX_ISOLATION_CONTAINER ? BOX_CONTAINER : BOX_FULL;
}

enum box_level level_found(enum box_level expected, bool has_proc)
{
    return expected == BOX_FULL && !has_proc ? BOX_FULL_WITHOUT_PROC : expected;
}

/* What the guest is executed with. */

/* The variables in which programs look for a proxy, each in both spellings. Programs reach the
 * sandbox's own loopback without it, except host addresses that the user has named. */
static unsigned set_proxy(struct plan *plan, const struct egress_policy *policy, unsigned n)
{
    static const char *const proxies[] = {
        "http_proxy=" EGRESS_PROXY_URL, "HTTP_PROXY=" EGRESS_PROXY_URL,
        "https_proxy=" EGRESS_PROXY_URL, "HTTPS_PROXY=" EGRESS_PROXY_URL};
    static const char *const own[] = {"localhost", "127.0.0.1", "::1"};
    char direct[64] = "";
    for (unsigned i = 0; i < sizeof own / sizeof *own; i++) {
        bool named = false;
        for (unsigned k = 0; k < policy->count; k++) {
            named = named || strcmp(policy->rows[k].host, own[i]) == 0;
        }
        if (!named) {
            (void)strncat(direct, direct[0] ? "," : "", 2);
            (void)strncat(direct, own[i], sizeof direct - strlen(direct) - 1);
        }
    }
    for (unsigned i = 0; i < sizeof proxies / sizeof *proxies; i++) {
        plan->envp[n++] = proxies[i];
    }
    plan->envp[n++] = "NODE_USE_ENV_PROXY=1"; /* from 22.21 and 24.5 on it then reads them */
    plan->envp[n++] = plan_keep(plan, "no_proxy=%s", direct);
    plan->envp[n++] = plan_keep(plan, "NO_PROXY=%s", direct);
    return n;
}

static const char *bundle_of(struct plan *plan, const struct box_spec *spec)
{
    return spec->bundle ? plan_keep(plan, "%s/" BOX_BUNDLE, spec->paths.run) : spec->certificates;
}

/* Programs and libraries that bring a list of their own (node, certifi) trust what the machine
 * trusts. */
static unsigned set_certificates(struct plan *plan, const struct box_spec *spec, unsigned n)
{
    static const char *const names[] = {"SSL_CERT_FILE",  "REQUESTS_CA_BUNDLE",
                                        "CURL_CA_BUNDLE", "PIP_CERT",
                                        "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS"};
    const char *path = bundle_of(plan, spec);
    for (unsigned i = 0; path && i < sizeof names / sizeof *names; i++) {
        plan->envp[n++] = plan_keep(plan, "%s=%s", names[i], path);
    }
    return n;
}

/* The variables that guest/installer reads. */
static unsigned name_places(struct plan *plan, const struct box_spec *spec, unsigned n)
{
    const struct box_paths *paths = &spec->paths;
    const char *bundle = bundle_of(plan, spec);
    plan->envp[n++] = plan_keep(plan, "SANDPIPER_BUNDLE=%s", bundle ? bundle : "");
    plan->envp[n++] = plan_keep(plan, "SANDPIPER_STAGE=%s", paths->staging);
    plan->envp[n++] = plan_keep(plan, "SANDPIPER_CACHE=%s", paths->cache);
    plan->envp[n++] = plan_keep(plan, "SANDPIPER_FIND_LINKS=%s", paths->find_links);
    plan->envp[n++] = plan_keep(plan, "SANDPIPER_CONSTRAINT=%s", paths->constraint);
    plan->envp[n++] = plan_keep(plan, "SANDPIPER_CERTIFICATE=%s", paths->certificate);
    return n;
}

/* Our programs come first (python may have another name elsewhere, or be another), then those
 * beside the interpreter, unless their directory cannot be an entry. */
static const char *search_path(struct plan *plan, const struct box_paths *paths,
                               const struct python *python)
{
    const char *slash = strrchr(python->path, '/');
    int size = slash && !strchr(python->path, ':') ? (int)(slash - python->path) : 0;
    return plan_keep(
        plan, "PATH=%s/bin:%.*s%s/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
        paths->run, size, python->path, size ? ":" : "");
}

void plan_set_environment(struct plan *plan, const struct box_spec *spec,
                          const struct plan_content *content)
{
    const struct python *python = content->python;
    const struct box_paths *paths = &spec->paths;
    unsigned n = 0;
    uint32_t cpus = (spec->limits.cpu_milli + 999) / 1000;
    if (python->environment[0]) {
        plan->envp[n++] = plan_keep(plan, "VIRTUAL_ENV=%s", python->environment);
    }
    plan->envp[n++] = search_path(plan, paths, python);
    /* All sessions write to $HOME: no Python imports from there as it starts. */
    plan->envp[n++] = python->user_base[0] ? plan_keep(plan, "PYTHONUSERBASE=%s", python->user_base)
                                           : "PYTHONNOUSERSITE=1";
    plan->envp[n++] = plan_keep(plan, "HOME=%s", paths->home);
    plan->envp[n++] = "USER=user";
    plan->envp[n++] = "LOGNAME=user";
    plan->envp[n++] = "SHELL=/bin/sh";
    plan->envp[n++] = "LANG=C.UTF-8";
    if (content->installer) {
        plan->envp[n++] = plan_keep(plan, "TMPDIR=%s/tmp", paths->staging);
        n = name_places(plan, spec, n);
    } else {
        plan->envp[n++] = plan_keep(plan, "TMPDIR=%s", paths->tmp);
        plan->envp[n++] = plan_keep(plan, "SANDPIPER_DIRECTORY=%s", paths->work);
        plan->envp[n++] = plan_keep(plan, "SANDPIPER_PYTHON=%s", python->path);
        if (python->hash_seed[0]) {
            plan->envp[n++] = plan_keep(plan, "PYTHONHASHSEED=%s", python->hash_seed);
        }
        /* Watchers of files look again and again, as there is no inotify(7). A checkpoint is a
         * fork, in which gRPC's handlers hang or end the process. The search for leaks at the end
         * of a program needs ptrace(2), and fails the program without it. */
        static const char *const fixed[] = {
            "CHOKIDAR_USEPOLLING=1", "WATCHPACK_POLLING=true", "WATCHFILES_FORCE_POLLING=true",
            "GRPC_ENABLE_FORK_SUPPORT=0", "ASAN_OPTIONS=detect_leaks=0"};
        for (unsigned i = 0; i < sizeof fixed / sizeof *fixed; i++) {
            plan->envp[n++] = fixed[i];
        }
        if (!spec->egress) {
            plan->envp[n++] = "PIP_NO_INDEX=1";             /* they would retry for some seconds, */
            plan->envp[n++] = "npm_config_fetch_retries=0"; /* or a minute */
        }
    }
    if (plan->cow) {
        /* git status writes nothing, whoever owns the files. The owner that the user's git noted
         * is not the one here: with core.checkStat, git does not take each file for changed. */
        plan->envp[n++] = "GIT_OPTIONAL_LOCKS=0";
        plan->envp[n++] = "GIT_CONFIG_COUNT=3";
        plan->envp[n++] = "GIT_CONFIG_KEY_0=safe.directory";
        plan->envp[n++] = "GIT_CONFIG_VALUE_0=*";
        plan->envp[n++] = "GIT_CONFIG_KEY_1=diff.autoRefreshIndex";
        plan->envp[n++] = "GIT_CONFIG_VALUE_1=false";
        plan->envp[n++] = "GIT_CONFIG_KEY_2=core.checkStat";
        plan->envp[n++] = "GIT_CONFIG_VALUE_2=minimal";
    }
    plan->envp[n++] = "TERM=dumb";
    plan->envp[n++] = "MPLBACKEND=Agg";
    plan->envp[n++] = "PYTHONDONTWRITEBYTECODE=1";
    plan->envp[n++] = "PYTHONIOENCODING=utf-8:backslashreplace";
    for (unsigned i = 0; cpus && i < 5; i++) {
        static const char *const names[] = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS",
                                            "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS",
                                            "VECLIB_MAXIMUM_THREADS"};
        plan->envp[n++] = plan_keep(plan, "%s=%u", names[i], cpus);
    }
    n = spec->egress ? set_proxy(plan, spec->egress, n) : n;
    n = spec->egress && !content->installer ? set_certificates(plan, spec, n) : n;
    plan->envp[n] = NULL;
}

void plan_set_arguments(struct plan *plan, const struct box_spec *spec,
                        const struct plan_content *content)
{
    const struct python *python = content->python;
    unsigned n = 0;
    plan->argv[n++] = plan_keep(plan, "%s", python->path);
    if (content->installer) { /* isolated from packages of unrelated processes */
        plan->argv[n++] = "-I";
        plan->argv[n++] = "-B";
    } else if (!python->user_base[0]) {
        plan->argv[n++] = "-s"; /* code writes to $HOME, and a new zygote would import from there */
    }
    plan->argv[n++] = plan_keep(plan, "%s/%s", spec->paths.run, content->main);
    for (unsigned i = 0; i < PLAN_ARGUMENTS && content->arguments[i]; i++) {
        plan->argv[n++] = plan_keep(plan, "%s", content->arguments[i]);
    }
    plan->argv[n] = NULL;
}

/* What programs read in /sys to know their machine, as far as it is true for the sandbox: the
 * processors that it may use, its limits, its network. launch/child.c has the rest. */

#define SYSTEM "/sys/devices/system"

enum { NUMBER_BYTES = 6 };

/* The first ones, as many as --cpus allows at a time. */
static struct box_processors usable(const struct box_spec *spec, const struct host_facts *facts)
{
    struct box_processors all = facts->processors;
    unsigned most = spec->limits.cpu_milli ? (spec->limits.cpu_milli + 999) / 1000 : BOX_PROCESSORS;
    for (unsigned i = 0; i < BOX_PROCESSORS; i++) {
        if (box_processors_has(&all, i) && most-- == 0) {
            all.bits[i / 64] &= (1ULL << i % 64) - 1;
            memset(all.bits + i / 64 + 1, 0, sizeof all.bits - (i / 64 + 1) * sizeof *all.bits);
            break;
        }
    }
    return all;
}

/* "0-3,8", as in cpuset(7). */
static void write_list(const struct box_processors *processors, char *text, size_t size)
{
    size_t length = 0;
    for (unsigned i = 0; i < BOX_PROCESSORS; i++) {
        unsigned first = i;
        while (box_processors_has(processors, i)) {
            i++;
        }
        if (i > first) {
            int more = snprintf(text + length, size - length, i > first + 1 ? "%s%u-%u" : "%s%u",
                                length ? "," : "", first, i - 1);
            length += (size_t)more;
        }
    }
}

/* Words of 32 bits, the highest first, as in cpuset(7). */
static void write_map(const struct box_processors *processors, char *text, size_t size)
{
    size_t length = 0;
    for (unsigned i = BOX_PROCESSORS / 32; i-- > 0;) {
        unsigned word = (unsigned)(processors->bits[i / 2] >> 32 * (i % 2));
        if (word || length || i == 0) {
            length +=
                (size_t)snprintf(text + length, size - length, "%s%08x", length ? "," : "", word);
        }
    }
}

static void add_text(struct plan *plan, const char *path, const char *text)
{
    (void)plan_add_file(plan, path, text, text ? strlen(text) : 0);
}

void plan_add_machine(struct plan *plan, const struct box_spec *spec,
                      const struct host_facts *facts)
{
    static const char *const lists[] = {SYSTEM "/cpu/possible", SYSTEM "/cpu/present",
                                        SYSTEM "/cpu/online", SYSTEM "/node/node0/cpulist"};
    static const struct {
        const char *path;
        const char *text;
    } fixed[] = {
        {SYSTEM "/node/possible", "0\n"},
        {SYSTEM "/node/online", "0\n"},
        {SYSTEM "/node/node0/distance", "10\n"},
        {"/sys/class/net/lo/address", "00:00:00:00:00:00\n"},
        {"/sys/class/net/lo/addr_len", "6\n"},
        {"/sys/class/net/lo/flags", "0x9\n"}, /* IFF_UP, IFF_LOOPBACK */
        {"/sys/class/net/lo/ifindex", "1\n"},
        {"/sys/class/net/lo/mtu", "65536\n"},
        {"/sys/class/net/lo/operstate", "unknown\n"},
        {"/sys/class/net/lo/type", "772\n"}, /* ARPHRD_LOOPBACK */
    };
    char text[BOX_PROCESSORS * NUMBER_BYTES];
    plan->processors = usable(spec, facts);
    write_list(&plan->processors, text, sizeof text);
    const char *list = plan_keep(plan, "%s\n", text);
    for (unsigned i = 0; i < sizeof lists / sizeof *lists; i++) {
        add_text(plan, lists[i], list);
    }
    write_map(&plan->processors, text, sizeof text);
    add_text(plan, SYSTEM "/node/node0/cpumap", plan_keep(plan, "%s\n", text));
    for (unsigned i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        add_text(plan, fixed[i].path, fixed[i].text);
    }
    /* Of version 2 of control groups, whichever the host has. */
    add_text(plan, "/sys/fs/cgroup/memory.max",
             plan_keep(plan, "%llu\n", (unsigned long long)spec->limits.memory_bytes));
    add_text(plan, "/sys/fs/cgroup/cpu.max",
             spec->limits.cpu_milli
                 ? plan_keep(plan, "%llu 100000\n", spec->limits.cpu_milli * 100ULL)
                 : "max 100000\n");
    plan_add(plan, PLAN_PROCESSORS, NULL, SYSTEM "/cpu");
}

static const char *const kind_names[PLAN_KIND_COUNT] = {
    [PLAN_CGROUP_NAMESPACE] = "unshare cgroup namespace",
    [PLAN_OPEN_TREE] = "open tree",
    [PLAN_TAKE_TREE] = "take tree with mapped ids",
    [PLAN_IDENTITY] = "set ids",
    [PLAN_SESSION] = "new session",
    [PLAN_HOSTNAME] = "set hostname",
    [PLAN_LOOPBACK] = "bring up loopback",
    [PLAN_PRIVATE] = "make mounts private",
    [PLAN_DISK] = "new disk on tmpfs",
    [PLAN_ROOT] = "new root on tmpfs",
    [PLAN_DIRECTORY] = "make directory",
    [PLAN_FILE] = "write file",
    [PLAN_COVER] = "mount over file",
    [PLAN_LINK] = "link",
    [PLAN_MOVE] = "mount tree",
    [PLAN_SUBTREE] = "mount directory",
    [PLAN_OVERLAY] = "mount overlay",
    [PLAN_HIDE] = "hide",
    [PLAN_PROTECT] = "protect settings and hard links in",
    [PLAN_PROC] = "mount proc with covers",
    [PLAN_PROCESSORS] = "show processors",
    [PLAN_MAKE_TERMINALS] = "make devpts beside the next steps",
    [PLAN_TERMINALS] = "mount devpts",
    [PLAN_KEEP] = "keep for init",
    [PLAN_READ_ONLY_ROOT] = "make root read-only",
    [PLAN_PIVOT] = "pivot to the new root",
    [PLAN_NO_NAMESPACES] = "forbid further namespaces",
    [PLAN_DESCRIPTORS] = "close descriptors",
    [PLAN_CAPABILITIES] = "drop capabilities",
    [PLAN_DEATH_SIGNAL] = "die with the server",
    [PLAN_SECCOMP] = "seccomp filter of init",
    [PLAN_GROUP] = "move to the control group",
    [PLAN_SUBREAPER] = "become subreaper",
    [PLAN_STEP_DOWN] = "drop privileges",
    [PLAN_ENTER] = "enter",
    [PLAN_EXECUTE] = "execute init",
};

const char *plan_kind_name(enum plan_kind kind)
{
    return kind < PLAN_KIND_COUNT ? kind_names[kind] : "?";
}

static void print_attributes(const struct plan_step *step, struct buf *out)
{
    static const struct {
        uint64_t flag;
        const char *name;
    } attributes[] = {
        {MOUNT_ATTR_RDONLY, " read-only"},
        {MOUNT_ATTR_NOSUID, " nosuid"},
        {MOUNT_ATTR_NODEV, " nodev"},
        {MOUNT_ATTR_NOEXEC, " noexec"},
    };
    for (unsigned i = 0; i < sizeof attributes / sizeof *attributes; i++) {
        if (step->attributes & attributes[i].flag) {
            buf_append_text(out, attributes[i].name);
        }
    }
}

int plan_print(const struct plan *plan, struct buf *out)
{
    for (unsigned i = 0; i < plan->step_count; i++) {
        const struct plan_step *step = &plan->steps[i];
        buf_appendf(out, "%3u  %s", i + 1, plan_kind_name(step->kind));
        if (step->source) {
            buf_appendf(out, " %s", step->source);
        }
        if (step->target) {
            buf_appendf(out, "%s%s", step->source ? " at " : " ", step->target);
        }
        if (step->data) {
            buf_appendf(out, " (%s)", step->data);
        }
        print_attributes(step, out);
        if (step->kind == PLAN_IDENTITY) {
            buf_appendf(out, " %d inside, %u:%u outside", PLAN_INSIDE_ID, plan->outside_uid,
                        plan->outside_gid);
        }
        if (step->kind == PLAN_STEP_DOWN) {
            buf_appendf(out, " to %u:%u", step->uid, step->gid);
        }
        if (step->optional || step->data_directory) {
            bool call = step->kind == PLAN_HOSTNAME || step->kind == PLAN_PROC ||
                        step->kind == PLAN_TERMINALS || step->kind == PLAN_NO_NAMESPACES;
            buf_append_text(out, call ? " [if allowed]" : " [if present]");
        }
        buf_append_text(out, "\n");
    }
    return buf_error(out);
}
