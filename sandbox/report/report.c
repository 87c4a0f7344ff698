/* The protections of each isolation level, as data. */
#include "sandbox/report/report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sandbox/policy/landlock.h"
#include "sandbox/report/isolation.h"
#include "sandbox/types.h"
#include "sandbox/workspace/store.h"

/* Calls that container engines allow only with CAP_SYS_ADMIN, or never (pivot_root). */
#define CONTAINER_CALLS                                                                            \
    "clone, unshare, mount, umount2, pivot_root, open_tree, move_mount and mount_setattr"

#define SYSCTL(line)                                                                               \
    "sudo sysctl -w " line ", and the same line in /etc/sysctl.d/60-sandpiper.conf to keep it"

#define FILTER_REMEDY                                                                              \
    "the server's seccomp filter refuses it: allow " CONTAINER_CALLS                               \
    " (in a container: --security-opt seccomp=FILE with a profile that allows them; in a systemd " \
    "service: RestrictNamespaces=no and no SystemCallFilter=)"

static const char own_scope[] =
    "start the server in its own control group: systemd-run --user --scope -p Delegate=yes env "
    "SANDPIPER_DELEGATED=1 sandpiper";

__attribute__((format(printf, 2, 3))) static void advise(struct box_protection_report *entry,
                                                         const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(entry->remedy, sizeof entry->remedy, fmt, args);
    va_end(args);
}

/* What refuses, as far as the error shows: seccomp filters fail with EPERM, AppArmor mostly with
 * EACCES. */
static void name_cause(const struct host *host, int error, char *text, size_t size)
{
    text[0] = '\0';
    if (error == EPERM && host->filtered) {
        (void)snprintf(text, size, "a seccomp filter refuses it: ");
    } else if (host->apparmor[0] && (error == EPERM || error == EACCES)) {
        (void)snprintf(text, size, "AppArmor's profile %s refuses it: ", host->apparmor);
    }
}

/* packaging/ in the source has the seccomp and AppArmor profiles. Names AppArmor's option only
 * where an AppArmor profile confines the container: other engines do not know it. */
static void advise_container(const struct host *host, int error,
                             struct box_protection_report *entry)
{
    static const struct {
        const char *text;
        const char *apparmor;
        const char *rest;
    } rows[] = {
        [HOST_DOCKER] = {"start the container with --security-opt seccomp=sandpiper.json (from "
                         "packaging/seccomp)",
                         " --security-opt apparmor=sandpiper-container (from "
                         "packaging/apparmor.d; or =unconfined)",
                         "; with --security-opt systempaths=unconfined as well, code has a /proc"},
        [HOST_PODMAN] = {"start the container with Podman's own seccomp profile or with "
                         "--security-opt seccomp=sandpiper.json (from packaging/seccomp)",
                         " --security-opt apparmor=unconfined",
                         "; with --security-opt unmask=ALL as well, code has a /proc"},
        [HOST_KUBERNETES] = {"give the container securityContext: {"
                             "seccompProfile: {type: Localhost, localhostProfile: sandpiper.json}",
                             ", appArmorProfile: {type: Localhost, localhostProfile: "
                             "sandpiper-container}",
                             "} (from packaging/seccomp); with procMount: Unmasked and the pod's "
                             "hostUsers: false as well, code has a /proc"},
        [HOST_FIREJAIL] = {"start it with firejail --ignore=seccomp --ignore=protocol "
                           "--ignore=caps.drop --ignore=restrict-namespaces",
                           "", ""},
        [HOST_CONTAINER] = {"allow " CONTAINER_CALLS " in the container's seccomp profile", "", ""},
    };
    char cause[128];
    name_cause(host, error, cause, sizeof cause);
    advise(entry, "%s%s%s%s", cause, rows[host->container].text,
           host->apparmor[0] ? rows[host->container].apparmor : "", rows[host->container].rest);
}

/* Puts a backslash before each character of special; cuts the text off at size. */
static void escape(const char *text, const char *special, char *out, size_t size)
{
    size_t at = 0;
    for (; *text && at + 2 < size; text++) {
        if (strchr(special, *text)) {
            out[at++] = '\\';
        }
        out[at++] = *text;
    }
    out[at] = '\0';
}

/* The file's name by AppArmor's convention: the program's path with dots for slashes. */
static void apparmor_name(const char *program, char *name, size_t size)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t at = 0;
    for (const char *c = program + (*program == '/'); *c && at + 1 < size; c++) {
        char kept = '_';
        if (*c == '/') {
            kept = '.';
        } else if (strchr(plain, *c)) {
            kept = *c;
        }
        name[at++] = kept;
    }
    name[at] = '\0';
}

/* Ubuntu's restriction permits making the namespace and removes its capabilities: mapping ids or
 * the first mounts fail with EACCES, which neither seccomp filters nor sysctls cause.
 * AppArmor rules that allow all, as packaging/apparmor.d/sandpiper says. The AppArmor profile has
 * only the path as its name: one named "sandpiper" may come from a package, for the package's own
 * program.
 */
static void advise_apparmor(const struct host *host, struct box_report *report)
{
    const char *program = host->program[0] ? host->program : "/usr/local/bin/sandpiper";
    char name[256];
    char path[512];
    apparmor_name(program, name, sizeof name);
    escape(program, "*?[]{}^\"\\", path, sizeof path);
    advise(&report->protections[BOX_PROTECTION_NAMESPACES],
           "install an AppArmor profile that allows this program user namespaces: sandpiper doctor "
           "prints the lines to paste");
    (void)snprintf(report->apparmor, sizeof report->apparmor,
                   "sudo tee /etc/apparmor.d/%s <<'END'\n"
                   "abi <abi/4.0>,\n"
                   "\"%s\" flags=(attach_disconnected, mediate_deleted) {\n"
                   "  userns, mount, umount, pivot_root, capability, /{,**} rwlkm, /{,**} pix,\n"
                   "  network, unix, mqueue, io_uring, signal, ptrace, dbus,\n"
                   "}\n"
                   "END\n"
                   "sudo apparmor_parser -r /etc/apparmor.d/%s\n",
                   name, path, name);
}

static void advise_namespaces(int error, const struct host *host, struct box_report *report)
{
    struct box_protection_report *entry = &report->protections[BOX_PROTECTION_NAMESPACES];
    bool selinux = strstr(host->lsm, "selinux") && !strstr(host->lsm, "apparmor");
    if (host->inside_userns && (host->userns_none || error == ENOSPC || error == EUSERS)) {
        advise(entry,
               "the enclosing sandbox allows no nested user namespaces: with bubblewrap, leave out "
               "--disable-userns");
    } else if (host->userns_none || error == ENOSPC || error == EUSERS) {
        advise(entry, SYSCTL("user.max_user_namespaces=15000"));
    } else if (host->chrooted && error == EPERM) {
        advise(entry,
               "the server runs in a chroot, where the kernel allows no user namespaces: change "
               "the root with pivot_root instead, as bubblewrap and container engines do");
    } else if (host->userns_clone_off) {
        advise(entry, SYSCTL("kernel.unprivileged_userns_clone=1"));
    } else if (host->container != HOST_BARE) {
        advise_container(host, error, entry);
    } else if (host->apparmor_restricts_userns || (error == EACCES && !selinux)) {
        advise_apparmor(host, report);
    } else if (error == EACCES) {
        advise(entry,
               "SELinux refuses it: sudo ausearch -m AVC -c sandpiper shows the missing rule for "
               "user_namespace");
    } else if (error == EINVAL || error == ENOSYS) {
        advise(entry,
               "use a kernel with user, pid, net, ipc, uts and cgroup namespaces (CONFIG_USER_NS, "
               "CONFIG_PID_NS and so on)");
    } else if (host->filtered) {
        advise(entry, FILTER_REMEDY);
    } else {
        advise(entry,
               "allow this user to create user namespaces: a security module, a chroot or a policy "
               "of this machine refuses them");
    }
}

/* A sandbox without /proc: what hides parts of the enclosing /proc, and the fix. */
static void remedy_for_proc(const struct host *host, struct box_protection_report *entry)
{
    static const char *const remedies[] = {
        [HOST_BARE] = ("parts of the server's /proc are masked by mounts, as in a service with "
                       "ProtectKernelTunables= or ProtectProc=: remove those settings"),
        [HOST_DOCKER] = "start the container with --security-opt systempaths=unconfined",
        [HOST_PODMAN] = "start the container with --security-opt unmask=ALL",
        [HOST_KUBERNETES] = "give the pod hostUsers: false and the container procMount: Unmasked",
        [HOST_FIREJAIL] = "none: firejail always masks /proc",
        [HOST_CONTAINER] = "unmask the container's /proc",
    };
    advise(entry, "%s", remedies[host->container]);
}

static void advise_mounts(enum plan_kind kind, int error, const struct host *host,
                          struct box_report *report)
{
    struct box_protection_report *entry = &report->protections[BOX_PROTECTION_MOUNTS];
    bool refused = error == EPERM || error == EACCES;
    if (error == ENOSYS) {
        advise(entry, "use Linux 5.12 or newer; inside a container, allow %s", CONTAINER_CALLS);
    } else if (kind == PLAN_PROC && host->proc_masked) {
        remedy_for_proc(host, entry);
    } else if (refused && host->container != HOST_BARE) {
        advise_container(host, error, entry);
    } else if (refused && (host->apparmor_restricts_userns || strstr(host->lsm, "apparmor")) &&
               !host->filtered) {
        advise_apparmor(host, report);
        advise(entry, "%s", report->protections[BOX_PROTECTION_NAMESPACES].remedy);
        report->protections[BOX_PROTECTION_NAMESPACES].remedy[0] = '\0';
    } else if (error == ENOSPC) {
        advise(entry, SYSCTL("user.max_mnt_namespaces=15000"));
    } else if (refused && host->filtered) {
        advise(entry, FILTER_REMEDY);
    } else if (kind != PLAN_KIND_COUNT) {
        advise(entry,
               "sandpiper doctor --plan lists the steps; the named step failed on this machine");
    }
}

/* Whether the kernel executes no program that is in memory, which every isolation level needs. */
static bool remedy_is_memfd(const struct host *host, int error)
{
    return host->memfd_noexec && error == EACCES;
}

/* The self-test found that a protection which was set up has no effect. */
static void remedy_for_finding(struct box_protection_report *entry)
{
    advise(entry,
           "no known setting of the host explains it: please report it with the output of "
           "sandpiper doctor --json");
}

void remedy_for_protection(enum box_protection protection, enum plan_kind kind, int error,
                           const struct host *host, struct box_report *report)
{
    struct box_protection_report *entry = &report->protections[protection];
    if (remedy_is_memfd(host, error)) {
        advise(entry, SYSCTL("vm.memfd_noexec=1"));
        return;
    }
    if (error == EAGAIN) { /* clone(2), fork(2): RLIMIT_NPROC, pids.max or threads-max */
        advise(entry,
               "end other processes of this user, or raise their limit: ulimit -u, in a service "
               "TasksMax=, in a container --pids-limit");
        return;
    }
    switch (protection) {
    case BOX_PROTECTION_NAMESPACES:
        advise_namespaces(error, host, report);
        break;
    case BOX_PROTECTION_MOUNTS:
        advise_mounts(kind, error, host, report);
        break;
    case BOX_PROTECTION_SECCOMP:
        advise(entry,
               "use a kernel with CONFIG_SECCOMP_FILTER; inside a container, allow "
               "seccomp() in its profile");
        break;
    case BOX_PROTECTION_PYTHON:
        advise(entry, error == ERANGE ? "unset PYTHONHASHSEED"
                                      : "choose a CPython 3.9 or newer with --python PATH");
        break;
    case BOX_PROTECTION_LANDLOCK:
        remedy_for_landlock(host, entry);
        break;
    case BOX_PROTECTION_MEMORY:
        if (error == ENOMEM) {
            advise(entry, "raise --memory");
        } else {
            remedy_for_finding(entry);
        }
        break;
    case BOX_PROTECTION_PRIVILEGES:
    case BOX_PROTECTION_PIDS:
    case BOX_PROTECTION_CPU:
    case BOX_PROTECTION_DISK:
    case BOX_PROTECTION_COUNT:
    default:
        remedy_for_finding(entry);
        break;
    }
}

/* The overlay of a copy-on-write workspace could not be mounted; see step_overlay(). */
static void remedy_for_overlay(int error, const struct box_spec *spec,
                               struct box_protection_report *entry)
{
    bool in_store = spec->store != NULL;
    switch (error) {
    case ENODEV:
        advise(entry, "this kernel has no overlayfs: sudo modprobe overlay, or leave out --cow");
        break;
    case EOPNOTSUPP:
        advise(entry, "%s",
               in_store ? "the store's file system lacks what an overlay needs: name a directory "
                          "on ext4, XFS or btrfs with --cow-store"
               : box_store_is_taken(spec)
                   ? "another server uses the store, and files in memory have the attributes that "
                     "an overlay needs since Linux 6.6: end that server, or name another directory "
                     "with --cow-store"
                   : "files in memory have the attributes that an overlay needs since Linux 6.6: "
                     "name a directory on a disk with --cow-store");
        break;
    case EINVAL:
        advise(entry,
               "overlayfs refuses the file system of %sthe workspace%s: use directories on ext4, "
               "XFS or btrfs, or leave out --cow",
               in_store ? "the store or of " : "",
               in_store ? "" : " (before Linux 5.19 also a workspace that belongs to root)");
        break;
    case EBUSY:
        advise(entry, "a sandbox that has not ended yet uses the store: try again");
        break;
    case EPERM:
    case EACCES:
        advise(entry,
               "use Linux 5.11 or newer, where neither a security module nor a container refuses "
               "overlay mounts, or leave out --cow");
        break;
    default:
        break;
    }
}

void remedy_for_landlock(const struct host *host, struct box_protection_report *entry)
{
    switch (host->landlock_error) {
    case 0:
        advise(entry,
               "use Linux 5.19 or newer; if the kernel is new enough, the server's seccomp filter "
               "refuses landlock_restrict_self");
        break;
    case EOPNOTSUPP:
        advise(entry, "boot with landlock in the lsm= list of the kernel's command line (now: %s)",
               host->lsm[0] ? host->lsm : "without it");
        break;
    case EPERM:
        advise(entry,
               "the server's seccomp filter refuses it: allow landlock_create_ruleset, "
               "landlock_add_rule and landlock_restrict_self (Docker does since 2022)");
        break;
    default:
        advise(entry, "use Linux 5.19 or newer with CONFIG_SECURITY_LANDLOCK");
        break;
    }
}

/* No control group for a limit. known: the fix outside of a container that cgroup.c suggests, or
 * NULL. */
static void remedy_for_limit(const struct host *host, const char *known,
                             struct box_protection_report *entry)
{
    static const char *const remedies[] = {
        [HOST_BARE] = own_scope,
        [HOST_DOCKER] = "start the container with --security-opt writable-cgroups=true (Docker 28)",
        [HOST_PODMAN] = "start the container with --security-opt unmask=/sys/fs/cgroup",
        [HOST_KUBERNETES] = "set limits for the pod; they apply to server and code together",
        [HOST_FIREJAIL] = own_scope,
        [HOST_CONTAINER] = "make the container's control group writable inside",
    };
    bool bare = host->container == HOST_BARE;
    advise(entry, "%s", bare && known ? known : remedies[host->container]);
}

/* A protection without which no code runs, and which is on. */
#define ALWAYS(detail)                                                                             \
    {                                                                                              \
        true, BOX_PROTECTION_ON, detail, ""                                                        \
    }

#define WALLS                                                                                      \
    [BOX_PROTECTION_PRIVILEGES] = ALWAYS("no capabilities, no_new_privs, unused uid and gid"),     \
    [BOX_PROTECTION_SECCOMP] =                                                                     \
        ALWAYS("filters system calls by name and argument, native architecture only"),             \
    [BOX_PROTECTION_LANDLOCK] = {false, BOX_PROTECTION_ON, "restricts files",                      \
                                 "only the mounts protect files; code of one session can read "    \
                                 "and change the memory of other sessions"},                       \
    [BOX_PROTECTION_PYTHON] = ALWAYS("")

static const struct level_row full[BOX_PROTECTION_COUNT] = {
    [BOX_PROTECTION_NAMESPACES] = ALWAYS("user, mount, pid, net, ipc, uts, cgroup"),
    [BOX_PROTECTION_MOUNTS] = ALWAYS("new root, read-only except /work, /tmp and /dev/shm"),
    WALLS,
};

static const struct level_row without_proc[BOX_PROTECTION_COUNT] = {
    [BOX_PROTECTION_NAMESPACES] =
        ALWAYS("user, mount, pid, net, ipc, uts, cgroup; only the filters refuse further ones"),
    [BOX_PROTECTION_MOUNTS] = {true, BOX_PROTECTION_DEGRADED,
                               "new root, read-only except /work, /tmp and /dev/shm; /proc has no "
                               "processes: the kernel refuses to mount a new one",
                               "programs that read of processes in /proc, or /dev/fd or "
                               "/dev/stdin, do not work: ps, top"},
    WALLS,
};

static const struct level_row in_container[BOX_PROTECTION_COUNT] = {
    [BOX_PROTECTION_NAMESPACES] = {false, BOX_PROTECTION_OFF, "none at this isolation level",
                                   "code can detect other processes; hostname, kernel and users "
                                   "are visible; no private loopback; only the filters refuse "
                                   "System V objects"},
    [BOX_PROTECTION_MOUNTS] = {false, BOX_PROTECTION_OFF, "none at this isolation level",
                               "file names, sizes and times outside are visible; no private /tmp "
                               "or /proc"},
    [BOX_PROTECTION_PRIVILEGES] =
        ALWAYS("no capabilities, no_new_privs; a supervisor kills all processes of the code"),
    [BOX_PROTECTION_SECCOMP] = ALWAYS(
        "filters system calls by name and argument, a supervisor performs some of them, native "
        "architecture only"),
    [BOX_PROTECTION_LANDLOCK] = ALWAYS("restricts files outside the workspace"),
    [BOX_PROTECTION_PYTHON] = ALWAYS(""),
};

static const struct level_row *level_row(enum box_level level, enum box_protection protection)
{
    static const struct level_row *const rows[] = {
        [BOX_FULL] = full, [BOX_FULL_WITHOUT_PROC] = without_proc, [BOX_CONTAINER] = in_container};
    return &rows[level][protection];
}

const char *box_level_name(enum box_level level)
{
    static const char *const names[] = {
        [BOX_FULL] = "full",
        [BOX_FULL_WITHOUT_PROC] = "full without /proc",
        [BOX_CONTAINER] = "container",
    };
    return names[level];
}

const char *const *box_level_not_promised(enum box_level level)
{
    static const char *const nothing[] = {NULL};
    static const char *const not_promised[] = {
        "file names, sizes and times outside are visible",
        "code can detect other processes",
        "hostname, kernel and users are visible",
        ("limits are checked, not enforced: memory every 25 ms if no control group limits it, disk "
         "and inodes at least every half second"),
        "no private /tmp, /proc or loopback",
        "code can open device nodes in a --mount directory",
        "code shares the container's uid if no other uid is available",
        "if server and supervisor are killed together, code may outlive them",
        ("without Landlock ABI 6 only seccomp restricts signals, without ABI 3 only seccomp "
         "restricts truncation"),
        NULL,
    };
    return level == BOX_CONTAINER ? not_promised : nothing;
}

static const char *const layer_names[BOX_PROTECTION_COUNT] = {
    [BOX_PROTECTION_NAMESPACES] = "namespaces",
    [BOX_PROTECTION_MOUNTS] = "mounts",
    [BOX_PROTECTION_PRIVILEGES] = "privileges",
    [BOX_PROTECTION_SECCOMP] = "seccomp",
    [BOX_PROTECTION_LANDLOCK] = "landlock",
    [BOX_PROTECTION_MEMORY] = "memory",
    [BOX_PROTECTION_PIDS] = "pids",
    [BOX_PROTECTION_CPU] = "cpu",
    [BOX_PROTECTION_DISK] = "disk",
    [BOX_PROTECTION_PYTHON] = "python",
};

const char *box_protection_name(enum box_protection protection)
{
    return layer_names[protection];
}

enum box_protection box_protection_find(const char *name, size_t size)
{
    unsigned i = 0;
    while (i < BOX_PROTECTION_COUNT &&
           (strlen(layer_names[i]) != size || memcmp(layer_names[i], name, size) != 0)) {
        i++;
    }
    return (enum box_protection)i;
}

bool box_protection_is_mandatory(enum box_protection protection)
{
    return level_row(BOX_FULL, protection)->mandatory;
}

__attribute__((format(printf, 3, 4))) static void set_detail(struct box_protection_report *entry,
                                                             enum box_protection_state state,
                                                             const char *fmt, ...)
{
    va_list args;
    entry->state = state;
    va_start(args, fmt);
    (void)vsnprintf(entry->detail, sizeof entry->detail, fmt, args);
    va_end(args);
}

static void set_consequence(struct box_protection_report *entry, const char *text)
{
    (void)snprintf(entry->consequence, sizeof entry->consequence, "%s", text);
}

/* --- each protection --- */

/* The state that the isolation level intends. */
static void report_as_meant(const struct report_facts *facts, enum box_protection protection,
                            struct box_protection_report *entry)
{
    const struct level_row *row = level_row(facts->level, protection);
    bool unknown = facts->level == BOX_CONTAINER || !facts->verdict;
    bool named = unknown || protection != BOX_PROTECTION_NAMESPACES || facts->has_hostname;
    bool whole = unknown || protection != BOX_PROTECTION_MOUNTS || facts->has_machine;
    set_detail(entry, row->state, "%s%s%s", row->detail,
               named ? "" : "; the hostname is the host's",
               whole ? "" : "; /proc has processes only, so free, top and psutil do not work");
    set_consequence(entry, row->consequence);
    if (row->state == BOX_PROTECTION_DEGRADED && facts->host) {
        remedy_for_proc(facts->host, entry);
    }
}

/* A failure belongs to one protection. Those before it in build order were set up, but that is not
 * a test, so the report does not rely on them. */
static void report_walls(const struct report_facts *facts, struct box_report *report)
{
    for (unsigned i = 0; i <= BOX_PROTECTION_SECCOMP; i++) {
        struct box_protection_report *entry = &report->protections[i];
        const struct level_row *row = level_row(facts->level, (enum box_protection)i);
        bool left_out = row->state == BOX_PROTECTION_OFF;
        if (!left_out && facts->verdict && facts->verdict->found[i][0]) {
            set_detail(entry, BOX_PROTECTION_OFF, "%s", facts->verdict->found[i]);
            remedy_for_finding(entry);
        } else if (left_out || facts->verdict) {
            report_as_meant(facts, (enum box_protection)i, entry);
        } else if (facts->failure) {
            set_detail(entry, BOX_PROTECTION_UNKNOWN, "%s",
                       i < facts->failed ? "set up, but not tested" : "not reached");
        } else {
            set_detail(entry, BOX_PROTECTION_UNKNOWN, "%s", row->detail);
        }
    }
}

static void report_landlock(const struct report_facts *facts, struct box_protection_report *entry)
{
    const struct level_row *row = level_row(facts->level, BOX_PROTECTION_LANDLOCK);
    int abi = facts->landlock_abi;
    const char *found = facts->verdict ? facts->verdict->found[BOX_PROTECTION_LANDLOCK] : "";
    bool signals_pass = facts->verdict && facts->verdict->signals_pass;
    if (abi < LANDLOCK_ABI_LEAST) {
        set_detail(entry, row->mandatory ? BOX_PROTECTION_OFF : BOX_PROTECTION_DEGRADED, "%s%s",
                   abi > 0 ? "version 1, too old" : "the kernel has none",
                   signals_pass ? "; signals between sessions are allowed" : "");
    } else if (found[0]) {
        set_detail(entry, BOX_PROTECTION_OFF, "version %d: %s", abi, found);
    } else if (signals_pass) {
        set_detail(entry, BOX_PROTECTION_DEGRADED,
                   "version %d: %s; signals between sessions are allowed", abi, row->detail);
        set_consequence(entry, "code of one session can kill the interpreters of other sessions");
        return;
    } else {
        set_detail(entry, BOX_PROTECTION_ON, "version %d: %s%s", abi, row->detail,
                   abi >= LANDLOCK_ABI_SCOPES ? " and outgoing signals" : "; init checks signals");
        return;
    }
    set_consequence(entry, row->consequence);
    if (found[0]) {
        remedy_for_finding(entry);
    } else if (facts->host) {
        remedy_for_landlock(facts->host, entry);
    }
}

/* A limit that a control group enforces, or something weaker. */
static void report_limit(const struct report_facts *facts, enum box_protection protection,
                         enum cgroup_controller controller, const char *amount,
                         const char *otherwise, struct box_protection_report *entry)
{
    const char *found = facts->verdict ? facts->verdict->found[protection] : "";
    if (found[0]) {
        set_detail(entry, BOX_PROTECTION_OFF, "%s", found);
    } else if (!facts->cgroup) {
        set_detail(entry, BOX_PROTECTION_UNKNOWN, "%s", facts->failure ? "not reached" : amount);
        return;
    } else if (cgroup_has(facts->cgroup, controller)) {
        set_detail(entry, BOX_PROTECTION_ON, "%s; control group, version %d%s", amount,
                   facts->cgroup->unified ? 2 : 1,
                   facts->cgroup->is_scope ? ", a systemd scope" : "");
        return;
    } else {
        set_detail(entry, BOX_PROTECTION_DEGRADED, "%.60s%s; %.160s", amount, otherwise,
                   facts->cgroup->why[controller]);
    }
    if (entry->state == BOX_PROTECTION_OFF) {
        remedy_for_finding(entry);
    } else if (facts->host) {
        remedy_for_limit(facts->host, facts->cgroup->remedy, entry);
    }
}

/* "768 MiB, three quarters of the server's own limit of 1024 MiB". */
static void describe_memory(const struct box_spec *spec, char *out, size_t size)
{
    unsigned long long mib = spec->limits.memory_bytes >> 20;
    if (spec->memory_enclosing && spec->limits.memory_bytes >= spec->memory_enclosing / 4 * 3) {
        (void)snprintf(out, size, "%llu MiB, three quarters of the server's own limit of %llu MiB",
                       mib, (unsigned long long)(spec->memory_enclosing >> 20));
    } else {
        (void)snprintf(out, size, "%llu MiB", mib);
    }
}

static void report_limits(const struct report_facts *facts, struct box_report *report)
{
    const struct box_limits *limits = &facts->spec->limits;
    struct box_protection_report *memory = &report->protections[BOX_PROTECTION_MEMORY];
    struct box_protection_report *pids = &report->protections[BOX_PROTECTION_PIDS];
    struct box_protection_report *cpu = &report->protections[BOX_PROTECTION_CPU];
    char amount[96];
    bool container = facts->level == BOX_CONTAINER;
    describe_memory(facts->spec, amount, sizeof amount);
    report_limit(facts, BOX_PROTECTION_MEMORY, CGROUP_MEMORY, amount,
                 container ? ", checked every 25 ms" : ", checked every 50 ms", memory);
    if (memory->state == BOX_PROTECTION_DEGRADED) {
        set_consequence(memory, "a fast allocation can briefly exceed the limit");
    }
    (void)snprintf(amount, sizeof amount, "%u", limits->pids);
    report_limit(facts, BOX_PROTECTION_PIDS, CGROUP_PIDS, amount, " by RLIMIT_NPROC", pids);
    if (pids->state == BOX_PROTECTION_DEGRADED && facts->level == BOX_CONTAINER) {
        set_detail(pids, BOX_PROTECTION_ON, "%u; the supervisor counts each new process and thread",
                   limits->pids);
        pids->remedy[0] = '\0';
    } else if (pids->state == BOX_PROTECTION_DEGRADED) {
        set_consequence(pids, facts->host && facts->host->counts_outside
                                  ? "the user's processes outside the sandbox count too"
                                  : "RLIMIT_NPROC alone enforces it");
    }
    (void)snprintf(amount, sizeof amount, limits->cpu_milli ? "--cpus %g" : "no limit requested",
                   limits->cpu_milli / 1000.0);
    report_limit(facts, BOX_PROTECTION_CPU, CGROUP_CPU, amount,
                 limits->cpu_milli ? " cannot be enforced" : "", cpu);
    if (cpu->state == BOX_PROTECTION_DEGRADED && limits->cpu_milli) {
        cpu->state = BOX_PROTECTION_OFF;
    }
    if (cpu->state == BOX_PROTECTION_DEGRADED || cpu->state == BOX_PROTECTION_OFF) {
        set_consequence(cpu, limits->cpu_milli ? "code may use all processors despite --cpus"
                                               : "code may use all processors; --cpus would be "
                                                 "refused");
    }
}

static void report_disk(const struct report_facts *facts, struct box_protection_report *entry)
{
    unsigned long long mib = (unsigned long long)box_spec_disk_bytes(facts->spec) >> 20;
    unsigned long long inodes = facts->spec->limits.disk_inodes;
    const struct box_spec *spec = facts->spec;
    bool workspace = box_spec_files_stay(spec);
    if (facts->level == BOX_CONTAINER) {
        set_detail(entry, BOX_PROTECTION_DEGRADED,
                   "%llu MiB and %llu inodes, checked at least every half second%s", mib, inodes,
                   workspace ? "; no limit for the workspace" : "");
        set_consequence(entry, workspace ? "code can fill the file system of the workspace"
                                         : "fast writes can briefly exceed the limit");
        return;
    }
    if (!workspace) {
        set_detail(entry, BOX_PROTECTION_ON, "%llu MiB and %llu inodes on a tmpfs", mib, inodes);
        return;
    }
    set_detail(entry, BOX_PROTECTION_DEGRADED, "%llu MiB for /tmp and for each file; %s", mib,
               spec->cow ? "changes of /work are in a directory of the host"
                         : "/work is a host directory");
    set_consequence(entry, spec->cow ? "code can fill the file system of the store"
                                     : "code can fill the file system of the workspace");
    if (facts->host) {
        (void)snprintf(entry->remedy, sizeof entry->remedy,
                       spec->cow ? "put the store on a file system of its own, or leave out "
                                   "--cow-store"
                                 : "nothing on a machine of your own; for a limit, put the "
                                   "workspace on a file system of its own");
    }
}

static void report_python(const struct report_facts *facts, struct box_protection_report *entry)
{
    if (facts->python_version && facts->python_path) {
        set_detail(entry, BOX_PROTECTION_ON, "%s, version %s", facts->python_path,
                   facts->python_version);
    } else {
        set_detail(entry, BOX_PROTECTION_UNKNOWN, "%s",
                   facts->failure ? "not reached" : "not started yet");
    }
}

static void report_failure(const struct report_facts *facts, struct box_report *report)
{
    struct box_protection_report *entry = &report->protections[facts->failed];
    if (facts->failed != BOX_PROTECTION_LANDLOCK || facts->landlock_abi >= LANDLOCK_ABI_LEAST) {
        set_detail(entry, BOX_PROTECTION_OFF, "%.255s", fail_text(facts->failure));
    } /* else report_landlock has said that the kernel has none */
    if (facts->host) {
        remedy_for_protection(facts->failed, facts->failed_step, facts->failure->code, facts->host,
                              report);
        if (facts->failed_step == PLAN_OVERLAY) {
            remedy_for_overlay(facts->failure->code, facts->spec, entry);
        }
    }
}

/* --- whether code may run --- */

/* A protection that is off prevents code from running, unless the isolation level does not have it;
 * a degraded one does so where it is required. Only the user's flags can accept what is off, and
 * only if it is not mandatory. */
static bool stops(const struct report_facts *facts, enum box_protection protection,
                  enum box_protection_state state)
{
    const struct box_spec *spec = facts->spec;
    const struct level_row *row = level_row(facts->level, protection);
    bool required = spec->require & 1U << protection;
    switch (state) {
    case BOX_PROTECTION_OFF:
        return row->state == BOX_PROTECTION_OFF
                   ? required
                   : row->mandatory || !(spec->allow_degraded & 1U << protection);
    case BOX_PROTECTION_DEGRADED:
        return required;
    case BOX_PROTECTION_ON:
    case BOX_PROTECTION_UNKNOWN:
    default:
        return false;
    }
}

/* Whether the host refuses namespaces or mounts, so that a sandbox without them would start. A path
 * that does not exist, or a refusal by the server itself, does not justify a weaker level. */
static bool lacks_namespaces(const struct report_facts *facts, enum box_protection protection)
{
    static const int reasons[] = {EPERM,  EACCES,     ENOSYS, EINVAL, ENOSPC,
                                  EUSERS, EOPNOTSUPP, ENODEV, EBUSY};
    bool refused = false;
    for (unsigned i = 0; facts->failure && i < sizeof reasons / sizeof *reasons; i++) {
        refused = refused || facts->failure->code == reasons[i];
    }
    bool memfd = refused && facts->host && remedy_is_memfd(facts->host, facts->failure->code);
    return refused && !memfd && !facts->spec->cow && protection <= BOX_PROTECTION_MOUNTS &&
           facts->level != BOX_CONTAINER && facts->landlock_abi >= LANDLOCK_ABI_LEAST;
}

static void refuse(const struct report_facts *facts, enum box_protection protection,
                   struct box_report *report)
{
    const struct box_protection_report *entry = &report->protections[protection];
    const struct level_row *row = level_row(facts->level, protection);
    bool meant = entry->state == row->state || entry->state == BOX_PROTECTION_DEGRADED;
    char egress[160] = "";
    if (lacks_namespaces(facts, protection)) {
        (void)snprintf(egress, sizeof egress,
                       ". Or accept a sandbox without namespaces: use --isolation=container, or "
                       "SANDPIPER_ISOLATION=container in the environment");
    } else if (meant) {
        (void)snprintf(egress, sizeof egress, " (or leave %s out of --require)",
                       layer_names[protection]);
    } else if (!row->mandatory) {
        (void)snprintf(egress, sizeof egress, " (or accept it with --allow-degraded %s)",
                       layer_names[protection]);
    }
    (void)snprintf(report->refusal, sizeof report->refusal, "%s: %s%s%s%s", layer_names[protection],
                   entry->detail, entry->remedy[0] ? ". Fix: " : "", entry->remedy, egress);
    report->usable = false;
}

void report_compute(const struct report_facts *facts, struct box_report *report)
{
    *report = (struct box_report){
        .level = facts->level, .tested = facts->verdict && !facts->failure, .usable = true};
    report_walls(facts, report);
    report_landlock(facts, &report->protections[BOX_PROTECTION_LANDLOCK]);
    report_limits(facts, report);
    report_disk(facts, &report->protections[BOX_PROTECTION_DISK]);
    report_python(facts, &report->protections[BOX_PROTECTION_PYTHON]);
    if (facts->failure) {
        report_failure(facts, report);
    }
    for (unsigned i = 0; i < BOX_PROTECTION_COUNT; i++) {
        struct box_protection_report *entry = &report->protections[i];
        const struct level_row *row = level_row(facts->level, (enum box_protection)i);
        entry->required = row->mandatory || (facts->spec->require & 1U << i);
        if (row->mandatory && entry->state == BOX_PROTECTION_OFF) {
            set_consequence(entry, "tools refuse to run code");
        }
        if (report->usable && stops(facts, (enum box_protection)i, entry->state)) {
            refuse(facts, (enum box_protection)i, report);
        }
    }
    if (facts->failure && report->usable) { /* even if accepted: there is no sandbox */
        refuse(facts, facts->failed, report);
    }
}

unsigned box_report_degraded(const struct box_report *report)
{
    unsigned degraded = 0;
    for (unsigned i = 0; i < BOX_PROTECTION_COUNT; i++) {
        enum box_protection_state state = report->protections[i].state;
        degraded |= state == BOX_PROTECTION_DEGRADED || state == BOX_PROTECTION_OFF ? 1U << i : 0;
    }
    return degraded;
}
