/* What the guest is executed with. */
#include <string.h>

#include "sandbox/host/python.h"
#include "sandbox/plan/plan_parts.h"

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
    plan->envp[n++] = plan_keep(plan, "no_proxy=%s", direct);
    plan->envp[n++] = plan_keep(plan, "NO_PROXY=%s", direct);
    return n;
}

/* The variables that guest/installer reads. */
static unsigned name_places(struct plan *plan, const struct box_paths *paths, unsigned n)
{
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
        n = name_places(plan, paths, n);
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
            plan->envp[n++] = "PIP_NO_INDEX=1"; /* it would retry for some seconds */
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
