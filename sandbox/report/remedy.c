#include "sandbox/grade/remedy.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sandbox/confine/landlock.h"

/* The calls that container engines allow only with CAP_SYS_ADMIN, or not at all (pivot_root). */
#define CONTAINER_CALLS                                                                            \
    "clone, unshare, mount, umount2, pivot_root, open_tree, move_mount and mount_setattr"

#define SYSCTL(line)                                                                               \
    "sudo sysctl -w " line ", and the same line in /etc/sysctl.d/60-sandpiper.conf to keep it"

#define FILTER_REMEDY                                                                              \
    "a seccomp filter around the server refuses it: allow " CONTAINER_CALLS                        \
    " there (in a container: --security-opt seccomp=FILE with a profile that does; in a systemd "  \
    "service: RestrictNamespaces=no and no SystemCallFilter=)"

static const char own_scope[] =
    "start the server in a group that is its own: systemd-run --user --scope -p Delegate=yes env "
    "SANDPIPER_DELEGATED=1 sandpiper";

__attribute__((format(printf, 2, 3))) static void advise(struct box_layer_report *report,
                                                         const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(report->remedy, sizeof report->remedy, fmt, args);
    va_end(args);
}

/* Who refuses, as far as the error tells: filters answer EPERM, AppArmor mostly EACCES. */
static void name_cause(const struct host *host, int error, char *text, size_t size)
{
    text[0] = '\0';
    if (error == EPERM && host->filtered) {
        (void)snprintf(text, size, "a seccomp filter refuses it: ");
    } else if (host->apparmor[0] && (error == EPERM || error == EACCES)) {
        (void)snprintf(text, size, "AppArmor's profile %s refuses it: ", host->apparmor);
    }
}

/* The profiles are those below packaging/ in the source. An engine whose containers no AppArmor profile
 * confines does not know the option. */
static void advise_container(const struct host *host, int error, struct box_layer_report *report)
{
    char cause[128];
    bool apparmor = host->apparmor[0] != '\0';
    name_cause(host, error, cause, sizeof cause);
    switch (host->container) {
    case HOST_DOCKER:
        advise(report,
               "%sstart the container with --security-opt seccomp=sandpiper.json (from "
               "packaging/seccomp)%s; with --security-opt systempaths=unconfined too, code has a "
               "/proc",
               cause,
               apparmor ? " --security-opt apparmor=sandpiper-container (from "
                          "packaging/apparmor.d; or =unconfined)"
                        : "");
        break;
    case HOST_PODMAN:
        advise(report,
               "%sstart the container with Podman's own seccomp profile or with --security-opt "
               "seccomp=sandpiper.json (from packaging/seccomp)%s; with --security-opt unmask=ALL "
               "too, code has a /proc",
               cause, apparmor ? " --security-opt apparmor=unconfined" : "");
        break;
    case HOST_KUBERNETES:
        advise(report,
               "%sgive the container securityContext: {seccompProfile: {type: Localhost, "
               "localhostProfile: sandpiper.json}%s} (from packaging/seccomp); with procMount: "
               "Unmasked and the pod's hostUsers: false too, code has a /proc",
               cause,
               apparmor ? ", appArmorProfile: {type: Localhost, localhostProfile: "
                          "sandpiper-container}"
                        : "");
        break;
    case HOST_FIREJAIL:
        advise(report,
               "%sstart it with firejail --ignore=seccomp --ignore=protocol --ignore=caps.drop "
               "--ignore=restrict-namespaces",
               cause);
        break;
    case HOST_CONTAINER:
    case HOST_BARE:
    default:
        advise(report, "%sallow " CONTAINER_CALLS " in the container's seccomp profile", cause);
        break;
    }
}

/* Text with a backslash before each character of special; cut off at size. */
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

/* A profile's file is named by AppArmor's convention: the program's path with dots for slashes. */
static void name_profile(const char *program, char *name, size_t size)
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

/* Ubuntu's restriction lets the namespace be made and takes its capabilities: the ids cannot be mapped
 * or the first mounts fail, with EACCES, which neither filters nor sysctls answer with. apparmor.d(5):
 * flags=(unconfined) confines nothing. The profile has no name but its path: one named "sandpiper" may
 * come from a package, for the package's own program. */
static void advise_apparmor(const struct host *host, struct box_grade *grade)
{
    const char *program = host->program[0] ? host->program : "/usr/local/bin/sandpiper";
    char name[256];
    char path[512];
    name_profile(program, name, sizeof name);
    escape(program, "*?[]{}^\"\\", path, sizeof path);
    advise(
        &grade->layers[BOX_LAYER_NAMESPACES],
        "let AppArmor allow user namespaces to this program by a profile: sandpiper doctor prints "
        "the lines to paste");
    (void)snprintf(grade->apparmor, sizeof grade->apparmor,
                   "sudo tee /etc/apparmor.d/%s <<'END'\n"
                   "abi <abi/4.0>,\n"
                   "\"%s\" flags=(unconfined) { userns, }\n"
                   "END\n"
                   "sudo apparmor_parser -r /etc/apparmor.d/%s\n",
                   name, path, name);
}

static void advise_namespaces(int error, const struct host *host, struct box_grade *grade)
{
    struct box_layer_report *report = &grade->layers[BOX_LAYER_NAMESPACES];
    bool selinux = strstr(host->lsm, "selinux") && !strstr(host->lsm, "apparmor");
    if (host->inside_userns && (host->userns_none || error == ENOSPC || error == EUSERS)) {
        advise(report,
               "the sandbox around the server allows no user namespace below its own: with "
               "bubblewrap, leave out --disable-userns");
    } else if (host->userns_none || error == ENOSPC || error == EUSERS) {
        advise(report, SYSCTL("user.max_user_namespaces=15000"));
    } else if (host->chrooted && error == EPERM) {
        advise(
            report,
            "the server runs in a chroot, where the kernel makes no user namespace: give it that "
            "root by pivot_root, as bubblewrap and container engines do");
    } else if (host->userns_clone_off) {
        advise(report, SYSCTL("kernel.unprivileged_userns_clone=1"));
    } else if (host->container != HOST_BARE) {
        advise_container(host, error, report);
    } else if (host->apparmor_restricts_userns || (error == EACCES && !selinux)) {
        advise_apparmor(host, grade);
    } else if (error == EACCES) {
        advise(report,
               "SELinux refuses it: sudo ausearch -m AVC -c sandpiper shows the rule that is "
               "missing for user_namespace");
    } else if (error == EINVAL || error == ENOSYS) {
        advise(report,
               "use a kernel with user, pid, net, ipc, uts and cgroup namespaces "
               "(CONFIG_USER_NS and its siblings)");
    } else if (host->filtered) {
        advise(report, FILTER_REMEDY);
    } else {
        advise(report,
               "allow user namespaces to this user: a security module, a chroot or a policy of "
               "this machine refuses them");
    }
}

static void advise_mounts(enum plan_kind kind, int error, const struct host *host,
                          struct box_grade *grade)
{
    struct box_layer_report *report = &grade->layers[BOX_LAYER_MOUNTS];
    bool refused = error == EPERM || error == EACCES;
    if (error == ENOSYS) {
        advise(report, "use Linux 5.12 or newer; inside a container, allow %s", CONTAINER_CALLS);
    } else if (kind == PLAN_PROC && host->proc_masked) {
        remedy_for_proc(host, report);
    } else if (refused && host->container != HOST_BARE) {
        advise_container(host, error, report);
    } else if (refused && (host->apparmor_restricts_userns || strstr(host->lsm, "apparmor")) &&
               !host->filtered) {
        advise_apparmor(host, grade);
        advise(report, "%s", grade->layers[BOX_LAYER_NAMESPACES].remedy);
        grade->layers[BOX_LAYER_NAMESPACES].remedy[0] = '\0';
    } else if (error == ENOSPC) {
        advise(report, SYSCTL("user.max_mnt_namespaces=15000"));
    } else if (refused && host->filtered) {
        advise(report, FILTER_REMEDY);
    } else if (kind != PLAN_KIND_COUNT) {
        advise(report,
               "sandpiper doctor --plan lists the steps; the one that is named did not "
               "work here");
    }
}

void remedy_for_layer(enum box_layer layer, enum plan_kind kind, int error, const struct host *host,
                      struct box_grade *grade)
{
    struct box_layer_report *report = &grade->layers[layer];
    switch (layer) {
    case BOX_LAYER_NAMESPACES:
        advise_namespaces(error, host, grade);
        break;
    case BOX_LAYER_MOUNTS:
        advise_mounts(kind, error, host, grade);
        break;
    case BOX_LAYER_SECCOMP:
        advise(report,
               "use a kernel with CONFIG_SECCOMP_FILTER; inside a container, allow "
               "seccomp() in its profile");
        break;
    case BOX_LAYER_PYTHON:
        advise(report, "choose a CPython 3.9 or newer with --python PATH");
        break;
    case BOX_LAYER_LANDLOCK:
        remedy_for_landlock(host, report);
        break;
    case BOX_LAYER_PRIVILEGES:
    case BOX_LAYER_MEMORY:
    case BOX_LAYER_PIDS:
    case BOX_LAYER_CPU:
    case BOX_LAYER_DISK:
    case BOX_LAYER_COUNT:
    default:
        remedy_for_finding(report);
        break;
    }
}

void remedy_for_finding(struct box_layer_report *report)
{
    advise(report,
           "please report it with the output of sandpiper doctor --json: no setting of the "
           "host is known that would explain it");
}

void remedy_for_proc(const struct host *host, struct box_layer_report *report)
{
    static const char *const remedies[] = {
        [HOST_BARE] =
            ("something is mounted over parts of /proc around the server, as for a service "
             "with ProtectKernelTunables= or ProtectProc=: leave that out"),
        [HOST_DOCKER] = "start the container with --security-opt systempaths=unconfined",
        [HOST_PODMAN] = "start the container with --security-opt unmask=ALL",
        [HOST_KUBERNETES] = "give the pod hostUsers: false and the container procMount: Unmasked",
        [HOST_FIREJAIL] = "firejail masks it always",
        [HOST_CONTAINER] = "unmask the container's /proc",
    };
    advise(report, "%s", remedies[host->container]);
}

void remedy_for_landlock(const struct host *host, struct box_layer_report *report)
{
    switch (host->landlock_error) {
    case 0:
        advise(report,
               "use Linux 5.19 or newer; where it is that, a filter around the server refuses "
               "landlock_restrict_self");
        break;
    case EOPNOTSUPP:
        advise(report, "boot with landlock in the lsm= list of the kernel's command line (now: %s)",
               host->lsm[0] ? host->lsm : "without it");
        break;
    case EPERM:
        advise(report,
               "a seccomp filter around the server refuses it: allow landlock_create_ruleset, "
               "landlock_add_rule and landlock_restrict_self (Docker does since 2022)");
        break;
    default:
        advise(report, "use Linux 5.19 or newer with CONFIG_SECURITY_LANDLOCK");
        break;
    }
}

void remedy_for_limit(const struct host *host, const char *known, struct box_layer_report *report)
{
    static const char *const remedies[] = {
        [HOST_BARE] = own_scope,
        [HOST_DOCKER] = "start the container with --security-opt writable-cgroups=true (Docker 28)",
        [HOST_PODMAN] = "start the container with --security-opt unmask=/sys/fs/cgroup",
        [HOST_KUBERNETES] = "set limits for the pod; they then hold for server and code together",
        [HOST_FIREJAIL] = own_scope,
        [HOST_CONTAINER] = "make the container's control group writable inside",
    };
    bool bare = host->container == HOST_BARE;
    advise(report, "%s", bare && known ? known : remedies[host->container]);
}
