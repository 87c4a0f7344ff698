#include "sandbox/report/report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

bool remedy_is_memfd(const struct host *host, int error)
{
    return host->memfd_noexec && error == EACCES;
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

void remedy_for_overlay(int error, const struct box_spec *spec, struct box_protection_report *entry)
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

void remedy_for_finding(struct box_protection_report *entry)
{
    advise(entry,
           "no known setting of the host explains it: please report it with the output of "
           "sandpiper doctor --json");
}

void remedy_for_proc(const struct host *host, struct box_protection_report *entry)
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

void remedy_for_limit(const struct host *host, const char *known,
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
