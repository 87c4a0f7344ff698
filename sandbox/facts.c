/* For doctor: what it prints besides the protections; and the check of one real sandbox. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/own.h"
#include "sandbox/box.h"
#include "sandbox/box/box.h"
#include "sandbox/host/host_facts.h"
#include "sandbox/host/mounts.h"
#include "sandbox/host/python.h"
#include "sandbox/interpreter/process.h"
#include "sandbox/packages/store.h"
#include "sandbox/plan/plan.h"
#include "sandbox/report/isolation.h"
#include "sandbox/trust/trust.h"
#include "sandbox/types.h"
#include "sandbox/unprivileged/unprivileged.h"
#include "sandbox/workspace/store.h"

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

/* Which releases have the fixes only a distribution knows: it backports them. */
static void add_kernel(struct facts *facts)
{
    struct utsname kernel = {};
    (void)uname(&kernel);
    add(facts, "kernel", false,
        "%s: keep it updated; by bugs such as CVE-2022-0847 (Dirty Pipe) and CVE-2026-31431 (Copy "
        "Fail), processes wrote to files of the host that mounts show read-only. The filters "
        "refuse the calls that are known to reach these two",
        kernel.release);
}

static void add_identity(struct facts *facts, const struct plan *plan)
{
    if (plan->level == BOX_CONTAINER) {
        bool own = plan->outside_uid != geteuid();
        add(facts, "identity", false,
            own ? "code runs with a separate uid, %u" : "code shares the container's uid %u",
            plan->outside_uid);
    } else if (plan->outside_uid != geteuid()) {
        add(facts, "identity", false,
            "outside the sandbox, code has uid %u and gid %u, which own no files%s",
            plan->outside_uid, plan->outside_gid,
            plan->workspace_idmap ? "; the workspace's ids are mapped" : "");
    } else if (geteuid() == 0) {
        add(facts, "identity", false,
            "outside the sandbox, code has root's uid: no other uid is available");
    } else {
        add(facts, "identity", false,
            "outside the sandbox, code has your uid %u; it sees none of your files%s",
            plan->outside_uid, plan->data_count > 0 ? " except --mount directories" : "");
    }
}

/* The kernel keeps a file's owner and group when it copies the file up, ovl_set_attr() in
 * fs/overlayfs/copy_up.c, and the sandbox has one of each. */
static void add_group(struct facts *facts, const struct host_facts *host, const struct plan *plan)
{
    if (plan->cow && !plan->workspace_idmap && host->workspace_gid != plan->outside_gid) {
        add(facts, "group", true,
            "code cannot change files of group %u, to which the workspace belongs: give them to "
            "group %u (chgrp -R)",
            host->workspace_gid, plan->outside_gid);
    }
}

static unsigned long long free_mib(const struct statvfs *fs)
{
    return (unsigned long long)fs->f_bavail * (unsigned long long)fs->f_frsize >> 20;
}

static void add_workspace(struct facts *facts, const struct box_spec *spec)
{
    struct statvfs fs;
    if (!spec->workspace && spec->scratch) {
        add(facts, "workspace", false, "%.200s, removed when the server exits", spec->paths.work);
    } else if (!spec->workspace) {
        add(facts, "workspace", false, "in memory, until the server exits");
    } else if (statvfs(spec->workspace, &fs) < 0) {
        add(facts, "workspace", true, "%.300s: %s", spec->workspace, strerror(errno));
    } else if (spec->cow) {
        add(facts, "workspace", false, "%.200s, which code sees and cannot change",
            spec->workspace);
    } else {
        add(facts, "workspace", false,
            "%.200s: code can fill the %llu MiB that are free on its file system%s",
            spec->workspace, free_mib(&fs),
            fs.f_flag & ST_NOSUID ? "" : "; code cannot create set-id files in it");
    }
}

/* What undo goes back over where the user works in the same directory. */
static void add_undo(struct facts *facts, const struct box_spec *spec,
                     const struct host_facts *host)
{
    if (!box_spec_is_written_through(spec) || box_spec_undo_files_bytes(spec) == 0) {
        return;
    }
    if (host->writes_unseen) {
        add(facts, "undo", true, BOX_UNSEEN_WRITES, host->writes_unseen);
    } else {
        add(facts, "undo", false,
            "takes back what any program of a call did to files of the workspace, and nothing that "
            "the user did");
    }
}

/* Where the changes of a copy-on-write workspace are, and what it does not show. */
static void add_changes(struct facts *facts, const struct box_spec *spec)
{
    char hidden[240] = "";
    struct statvfs fs = {};
    struct fail fail = {};
    defer_free char *mounts = NULL;
    if (!spec->cow) {
        return;
    }
    if (box_store_is_taken(spec)) {
        add(facts, "changes", true,
            "another server has locked the store in %.200s: they are kept in memory, and gone when "
            "the server exits unless they are applied",
            spec->cow_store);
    } else if (spec->store) {
        (void)statvfs(spec->store->path, &fs);
        add(facts, "changes", false,
            "in %.200s, which no other server uses, until they are applied; %llu MiB are free "
            "there",
            spec->store->path, free_mib(&fs));
    } else {
        add(facts, "changes", false,
            "in memory; gone when the server exits unless they are applied");
    }
    (void)trust_read_mounts(&mounts, &fail);
    const char *path = NULL;
    for (char *at = mounts; (path = box_mounts_below(&at, spec->workspace));) {
        buf_extend(hidden, sizeof hidden, "%s%s", hidden[0] ? ", " : "", path);
    }
    if (hidden[0]) {
        add(facts, "hidden", true, "not visible in the workspace, with --cow: %s", hidden);
    }
}

/* The names in the user's workspace that code may not write to. */
static void add_protected(struct facts *facts, const struct box_spec *spec,
                          const struct box_protected *found)
{
    bool container = level_expected(spec->isolation) == BOX_CONTAINER;
    if (!spec->workspace || spec->cow) {
        return;
    }
    char count[16] = "no";
    if (found->names > 0) {
        (void)snprintf(count, sizeof count, "%u", found->names);
    }
    add(facts, "settings", container,
        "%s settings files and directories of programs outside the sandbox (.git/hooks, .vscode, "
        "...: see --allow-write in the manual) are %s; new ones are reported%s",
        count,
        found->names == 0 ? "there"
        : container       ? "writable at this isolation level"
                          : "read-only",
        found->shared ? "; another sandbox uses this workspace: files that it moves may be missed"
        : found->incomplete ? "; the workspace has too many entries to check all of them"
                            : "");
    if (found->links > 0) {
        add(facts, "hard links", found->links_open > 0,
            "%u files or package directories have hard links outside the workspace; %u of them are "
            "writable, and writing to them changes the file outside too",
            found->links, found->links_open);
    }
}

static void add_data(struct facts *facts, const struct box_spec *spec)
{
    if (spec->mount_count == 0) {
        add(facts, "data", false, "none of your directories; --mount DIR shows one below /data");
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
                "/data/%.64s is %.200s, writable: code can fill the %llu MiB that are free there",
                mount->name, mount->path, free_mib(&fs));
        }
    }
}

static void add_python(struct facts *facts, const struct python *python)
{
    char directories[256] = "";
    for (unsigned i = 0; i < python->directory_count; i++) {
        buf_extend(directories, sizeof directories, "%s%s", i ? ", " : "", python->directories[i]);
    }
    add(facts, "paths", false, "code can read %.300s, and the system's programs and libraries",
        directories[0] ? directories : "/usr");
}

static void add_network(struct facts *facts, const struct box_spec *spec)
{
    const struct egress_policy *policy = spec->egress;
    char hosts[320] = "";
    for (unsigned i = 0; policy && i < policy->count; i++) {
        const struct egress_row *row = &policy->rows[i];
        buf_extend(hosts, sizeof hosts, "%s%.80s", i ? ", " : "", row->host);
        if (!row->ports[1]) {
            buf_extend(hosts, sizeof hosts, " (port %u)", row->ports[0]);
        }
    }
    add(facts, "network", false, "%s%s%s",
        hosts[0]        ? "none, except a proxy that reaches "
        : spec->scratch ? "none, and no loopback"
                        : "private loopback only",
        hosts,
        spec->calls ? "; but code can call the tools below (--tools), which are not confined" : "");
}

static void add_leftovers(struct facts *facts)
{
    struct cgroup cgroup;
    cgroup_find(&cgroup);
    unsigned count = cgroup_count_stale(&cgroup);
    cgroup_leave(&cgroup);
    if (count > 0) {
        add(facts, "leftovers", true,
            "%u control groups of earlier servers; the next server removes them", count);
    } else {
        add(facts, "leftovers", false, "none from earlier servers");
    }
}

/* The package directory, or why there is none. */
static int check_place(const struct box_spec *spec, char path[PATH_MAX], uint64_t *ret_free,
                       struct fail *ret_fail)
{
    struct statvfs fs = {};
    defer_close int fd = packages_place(spec, /* make= */ true, path, ret_fail);
    if (fd < 0) {
        return fd;
    }
    if (faccessat(fd, ".", W_OK, AT_EACCESS) < 0 || fstatvfs(fd, &fs) < 0) {
        return fail_set(ret_fail, errno, "cannot write to %s", path);
    }
    *ret_free = (uint64_t)fs.f_bavail * fs.f_frsize;
    return 0;
}

static void add_packages(struct facts *facts, const struct box_spec *spec)
{
    char path[PATH_MAX] = "";
    struct fail fail = {};
    uint64_t free_bytes = 0;
    struct box_python python;
    box_python_look(spec, &python);
    if (!spec->packages) {
        add(facts, "packages", false, "%s", "install_package is off (--install off)");
    } else if (check_place(spec, path, &free_bytes, &fail) < 0) {
        add(facts, "packages", true,
            "no package directory: %s; name a directory of yours with --cache DIR",
            fail_text(&fail));
    } else if (python.version[0] && !python.has_pip) {
        add(facts, "packages", true, "%s",
            "this Python has no pip, so install_package fails: install it (Debian, Ubuntu: sudo "
            "apt "
            "install python3-venv), or choose another with --python PATH");
    } else {
        bool is_less = free_bytes < spec->packages_bytes;
        uint64_t most = is_less ? free_bytes : spec->packages_bytes;
        add(facts, "packages", false, "in %.200s, at most %llu MiB%s", path,
            (unsigned long long)most >> 20, is_less ? ", which are free there" : "");
    }
}

/* Builds the plan of the sessions' sandbox, for plan_done(). python, plan: NULL: out of memory. 0
 * or -errno with ret_fail */
static int make_plan(const struct box_spec *spec, const struct host_facts *host,
                     struct python *python, struct plan *plan, struct fail *ret_fail)
{
    struct plan_content content;
    zygote_content(spec, NULL, &content);
    content.python = python;
    int r = python && plan ? 0 : fail_set(ret_fail, ENOMEM, "the sandbox's plan");
    r = r ? r : python_find(spec, python, ret_fail);
    return r ? r : plan_build(level_plan(spec), spec, host, &content, plan, ret_fail);
}

unsigned box_facts(const struct box_spec *spec, const struct box_report *report,
                   struct box_fact facts[BOX_FACTS])
{
    struct facts all = {.entries = facts};
    struct fail fail = {};
    struct python *python = calloc(1, sizeof *python);
    struct plan *plan = calloc(1, sizeof *plan);
    struct host_facts host;
    host_facts_read(spec, &host);
    add_kernel(&all);
    if (make_plan(spec, &host, python, plan, &fail) == 0) {
        add_identity(&all, plan);
        add_python(&all, python);
        add_group(&all, &host, plan);
        plan_done(plan);
    }
    free(plan);
    free(python);
    add_workspace(&all, spec);
    add_undo(&all, spec, &host);
    add_changes(&all, spec);
    add_protected(&all, spec, &report->protected_names);
    add_data(&all, spec);
    add_network(&all, spec);
    add(&all, "sessions", false,
        "share all limits, the workspace and /tmp; the one that fills the memory has to go");
    add_leftovers(&all);
    add_packages(&all, spec);
    return all.count;
}

/* --- one real sandbox --- */

enum { PROBE_MS = 20000 };

/* The sandbox is ready, or has failed. */
static void probe_on_state(void *arg, enum box_state, const struct fail *)
{
    *(bool *)arg = true;
}

void box_probe(const struct box_spec *spec, struct box_report *report)
{
    struct loop *loop = NULL;
    bool ended = false;
    struct box *box = NULL;
    struct fail fail = {};
    box_report_expect(spec, report);
    report->usable = false;
    if (loop_new(&loop) < 0) {
        return;
    }
    struct box_owner owner = {loop, probe_on_state, &ended, report};
    int r = box_start(spec, NULL, &owner, &box, &fail);
    uint64_t deadline_ns = clock_now_ns() + PROBE_MS * CLOCK_NS_PER_MS;
    while (r == 0 && !ended && clock_now_ns() < deadline_ns) {
        r = loop_step(loop, 100);
    }
    if (box && !ended) {
        (void)fail_set(&fail, ETIMEDOUT, "the interpreter does not respond");
        box_broken(box, &fail);
    }
    box_free(box);
    loop_free(loop);
}

int box_plan_print(const struct box_spec *spec, struct buf *out, struct fail *ret_fail)
{
    struct python *python = calloc(1, sizeof *python);
    struct plan *plan = calloc(1, sizeof *plan);
    struct host_facts host;
    host_facts_read(spec, &host);
    int r = make_plan(spec, &host, python, plan, ret_fail);
    if (r == 0) {
        r = plan_print(plan, out);
        plan_done(plan);
    }
    free(plan);
    free(python);
    return r;
}
