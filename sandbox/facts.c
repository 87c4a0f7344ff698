/* What doctor says beside the layers. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/own.h"
#include "base/parse.h"
#include "sandbox/box.h"
#include "sandbox/grade/surrounding.h"
#include "sandbox/packages/packages.h"
#include "sandbox/plan/plan.h"
#include "sandbox/python/python.h"

struct facts {
    struct box_fact *entries;
    unsigned count;
};

__attribute__((format(printf, 4, 5))) static void add(struct facts *facts, const char *name,
                                                      bool warning, const char *fmt, ...)
{
    struct box_fact *fact = &facts->entries[facts->count++];
    va_list args;
    *fact = (struct box_fact){.name = name, .warning = warning};
    va_start(args, fmt);
    (void)vsnprintf(fact->text, sizeof fact->text, fmt, args);
    va_end(args);
}

/* Bugs by which an unprivileged process wrote to the page cache, which read-only mounts share with
 * the host, and the first fixed release of branches of kernel.org. Distributions bring fixes back to
 * others without changing these numbers. */
#define COPY_FAIL "CVE-2026-31431 (Copy Fail)"
#define DIRTY_PIPE "CVE-2022-0847 (Dirty Pipe)"
static const struct {
    const char *bug;
    uint64_t major, minor, fixed;
} fixes[] = {
    {DIRTY_PIPE, 5, 10, 102}, {DIRTY_PIPE, 5, 15, 25}, {DIRTY_PIPE, 5, 16, 11},
    {COPY_FAIL, 6, 18, 22},   {COPY_FAIL, 6, 19, 12},
};

/* "6.18.44-cloud" → 6, 18, 44. A release candidate has no third number. */
static void read_release(const char *release, uint64_t numbers[3])
{
    for (unsigned i = 0; i < 3 && parse_digits(release, &numbers[i], &release) == 0; i++) {
        release += *release == '.';
    }
}

static void add_kernel(struct facts *facts)
{
    struct utsname kernel = {};
    uint64_t number[3] = {};
    const char *bug = NULL;
    (void)uname(&kernel);
    read_release(kernel.release, number);
    bool fixed = number[0] >= 7;
    for (unsigned i = 0; i < sizeof fixes / sizeof *fixes; i++) {
        if (number[0] == fixes[i].major && number[1] == fixes[i].minor) {
            fixed = number[2] >= fixes[i].fixed && strcmp(fixes[i].bug, COPY_FAIL) == 0;
            bug = number[2] >= fixes[i].fixed ? NULL : fixes[i].bug;
        }
    }
    if (bug) {
        add(facts, "kernel", true,
            "%s is older than the release that fixes %s: update it, unless your distribution has "
            "brought the fix back; the filters refuse the calls that are known to reach it",
            kernel.release, bug);
    } else if (fixed) {
        add(facts, "kernel", false, "%s has the fixes of the known page cache bugs",
            kernel.release);
    } else {
        add(facts, "kernel", false,
            "%s: ask your distribution whether " COPY_FAIL
            " is fixed in it; the filters refuse the "
            "calls that are known to reach it",
            kernel.release);
    }
}

static void add_identity(struct facts *facts, const struct plan *plan)
{
    if (plan->profile == BOX_CONTAINER) {
        bool own = plan->outside_uid != geteuid();
        add(facts, "identity", false,
            own ? "code uses uid %u" : "code shares the container's uid %u", plan->outside_uid);
    } else if (plan->outside_uid != geteuid()) {
        add(facts, "identity", false, "code runs as uid %u, gid %u outside, which owns nothing%s",
            plan->outside_uid, plan->outside_gid,
            plan->workspace_idmap ? "; the workspace changes hands by a mapping" : "");
    } else if (geteuid() == 0) {
        add(facts, "identity", false, "code runs as root outside: no other id can be given here");
    } else {
        add(facts, "identity", false,
            "code runs with your uid %u outside, and none of your files%s", plan->outside_uid,
            plan->data_count > 0 ? " but those that you show it" : "");
    }
}

static void add_workspace(struct facts *facts, const struct box_spec *spec)
{
    struct statvfs fs;
    if (!spec->workspace && spec->room) {
        add(facts, "workspace", false, "%.200s, gone with the server", spec->view.work);
    } else if (!spec->workspace) {
        add(facts, "workspace", false, "in memory, gone with the server");
    } else if (statvfs(spec->workspace, &fs) < 0) {
        add(facts, "workspace", true, "%.300s: %s", spec->workspace, strerror(errno));
    } else {
        add(facts, "workspace", false,
            "%.200s: code can fill the %llu MiB that are free in its file system%s",
            spec->workspace,
            (unsigned long long)fs.f_bavail * (unsigned long long)fs.f_frsize >> 20,
            fs.f_flag & ST_NOSUID ? "" : "; set-id files cannot be made in it");
    }
}

/* What code is not to write to in a workspace of the user's. */
static void add_protected(struct facts *facts, const struct box_spec *spec,
                          const struct box_protected *found)
{
    bool container = surrounding_expect(spec->isolation) == BOX_CONTAINER;
    if (!spec->workspace) {
        return;
    }
    add(facts, "settings", container,
        "%u files and directories on which programs outside act (.git/hooks, .vscode, ...: "
        "--allow-write in the manual) are %s; the creation of others is reported%s",
        found->names, container ? "writable at this isolation level" : "read-only",
        found->shared       ? "; another sandbox is at work here: what it moves about may be missed"
        : found->incomplete ? "; the workspace has too many entries to find all of them"
                            : "");
    if (found->links > 0) {
        add(facts, "hard links", found->links_open > 0,
            "%u files or package directories have names outside of the workspace; %u of them are "
            "writable, and what is written to them changes it there",
            found->links, found->links_open);
    }
}

static void add_data(struct facts *facts, const struct box_spec *spec)
{
    if (spec->mount_count == 0) {
        add(facts, "data", false, "no folders of yours; --mount DIR shows one below /data");
    }
    for (unsigned i = 0; i < spec->mount_count; i++) {
        const struct box_mount *mount = &spec->mounts[i];
        struct statvfs fs;
        if (statvfs(mount->path, &fs) < 0) {
            add(facts, "data", true, "/data/%.64s: %.200s: %s", mount->name, mount->path,
                strerror(errno));
        } else if (!mount->writable) {
            add(facts, "data", false, "/data/%.64s is %.200s, read-only", mount->name, mount->path);
        } else {
            add(facts, "data", false,
                "/data/%.64s is %.200s: code can change all of it, and fill the %llu MiB that are "
                "free there",
                mount->name, mount->path,
                (unsigned long long)fs.f_bavail * (unsigned long long)fs.f_frsize >> 20);
        }
    }
}

static void add_python(struct facts *facts, const struct python *python)
{
    char folders[256] = "";
    size_t used = 0;
    for (unsigned i = 0; i < python->folder_count && used < sizeof folders; i++) {
        int size = snprintf(folders + used, sizeof folders - used, "%s%s", i ? ", " : "",
                            python->folders[i]);
        used += size > 0 ? (size_t)size : 0;
    }
    add(facts, "view", false, "code can read %.300s, and the system's programs and libraries",
        folders[0] ? folders : "/usr");
}

static void add_network(struct facts *facts, const struct box_spec *spec)
{
    const struct egress_policy *policy = spec->egress;
    char hosts[320] = "";
    size_t used = 0;
    for (unsigned i = 0; policy && i < policy->count && used < sizeof hosts; i++) {
        const struct egress_row *row = &policy->rows[i];
        used += (size_t)snprintf(hosts + used, sizeof hosts - used, "%s%.80s", i ? ", " : "",
                                 row->host);
        if (!row->ports[1] && used < sizeof hosts) {
            used +=
                (size_t)snprintf(hosts + used, sizeof hosts - used, " (port %u)", row->ports[0]);
        }
    }
    add(facts, "network", false, "%s%s",
        hosts[0]     ? "none, but a proxy that reaches "
        : spec->room ? "none, and no loopback"
                     : "none but a loopback of its own",
        hosts);
}

static void add_leftovers(struct facts *facts)
{
    struct cgroup cgroup;
    cgroup_find(&cgroup);
    unsigned count = cgroup_count_stale(&cgroup);
    cgroup_leave(&cgroup);
    if (count > 0) {
        add(facts, "leftovers", true,
            "%u control groups of servers that are gone; the next server's end removes them",
            count);
    } else {
        add(facts, "leftovers", false, "none of earlier servers");
    }
}

/* The folder that packages go to, or why there is none. */
static int look_at_place(const struct box_spec *spec, char path[PATH_MAX], uint64_t *ret_free,
                         struct fail *ret_fail)
{
    struct statvfs fs = {};
    defer_close int fd = packages_place(spec, /* make= */ true, path, ret_fail);
    if (fd < 0) {
        return fd;
    }
    if (faccessat(fd, ".", W_OK, AT_EACCESS) < 0 || fstatvfs(fd, &fs) < 0) {
        return fail_set(ret_fail, errno, "write to %s", path);
    }
    *ret_free = (uint64_t)fs.f_bavail * fs.f_frsize;
    return 0;
}

static void add_packages(struct facts *facts, const struct box_spec *spec)
{
    char path[PATH_MAX] = "";
    char text[FAIL_TEXT + 128];
    struct fail fail = {};
    uint64_t free_bytes = 0;
    if (!spec->packages) {
        add(facts, "packages", false, "%s", "install_package is switched off");
    } else if (look_at_place(spec, path, &free_bytes, &fail) < 0) {
        add(facts, "packages", true, "have no place: %s; name a folder of yours with --cache DIR",
            fail_describe(&fail, text, sizeof text));
    } else {
        add(facts, "packages", false,
            "in %.200s, at most %llu MiB of the %llu MiB that are free there", path,
            (unsigned long long)spec->packages_bytes >> 20, (unsigned long long)free_bytes >> 20);
    }
}

unsigned box_facts(const struct box_spec *spec, const struct box_grade *grade,
                   struct box_fact facts[BOX_FACTS])
{
    struct facts all = {.entries = facts};
    struct fail fail = {};
    struct python *python = calloc(1, sizeof *python);
    struct plan *plan = calloc(1, sizeof *plan);
    struct plan_content content;
    zygote_content(spec, NULL, &content);
    add_kernel(&all);
    if (python && plan && python_find(spec, python, &fail) == 0 &&
        plan_build(spec, python, &content, plan, &fail) == 0) {
        add_identity(&all, plan);
        add_python(&all, python);
        plan_done(plan);
    }
    add_workspace(&all, spec);
    add_protected(&all, spec, &grade->protected_names);
    add_data(&all, spec);
    add_network(&all, spec);
    add_leftovers(&all);
    add_packages(&all, spec);
    free(python);
    free(plan);
    return all.count;
}
