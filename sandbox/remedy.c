#include "sandbox/remedy.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sandbox/landlock.h"

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

static const char *const container_remedies[] = {
    [HOST_BARE] = "",
    [HOST_DOCKER] =
        "start the container with --security-opt seccomp=FILE, Docker's default profile "
        "with " CONTAINER_CALLS
        " allowed without a capability, and with --security-opt "
        "systempaths=unconfined --security-opt apparmor=unconfined",
    [HOST_PODMAN] =
        "start the container with --security-opt unmask=ALL; with a seccomp profile of "
        "your own, allow " CONTAINER_CALLS " in it",
    [HOST_KUBERNETES] = "give the pod a Localhost seccomp profile that allows " CONTAINER_CALLS
                        ", hostUsers: false and procMount: Unmasked",
    [HOST_CONTAINER] =
        "allow " CONTAINER_CALLS " in the container's seccomp profile, and unmask its /proc",
};

__attribute__((format(printf, 2, 3))) static void advise(struct box_layer_report *report,
                                                         const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(report->remedy, sizeof report->remedy, fmt, args);
    va_end(args);
}

/* Ubuntu's restriction lets the namespace be made and takes its capabilities: the ids cannot be mapped
 * or the first mounts fail, with EACCES, which neither filters nor sysctls answer with. apparmor.d(5):
 * flags=(unconfined) confines nothing. */
static void advise_apparmor(const struct host *host, struct box_grade *grade)
{
    const char *program = host->program[0] ? host->program : "/usr/local/bin/sandpiper";
    advise(&grade->layers[BOX_LAYER_NAMESPACES],
           "let AppArmor allow user namespaces to this program: install a profile for %.256s with "
           "sudo (sandpiper doctor prints it), /etc/apparmor.d/sandpiper, and load it with sudo "
           "apparmor_parser -r",
           program);
    (void)snprintf(grade->apparmor, sizeof grade->apparmor,
                   "abi <abi/4.0>,\n"
                   "include <tunables/global>\n"
                   "\n"
                   "profile sandpiper %s flags=(unconfined) {\n"
                   "  userns,\n"
                   "}\n",
                   program);
}

static void advise_namespaces(int error, const struct host *host, struct box_grade *grade)
{
    struct box_layer_report *report = &grade->layers[BOX_LAYER_NAMESPACES];
    bool selinux = strstr(host->lsm, "selinux") && !strstr(host->lsm, "apparmor");
    if (host->userns_none || error == ENOSPC || error == EUSERS) {
        advise(report, SYSCTL("user.max_user_namespaces=15000"));
    } else if (host->userns_clone_off) {
        advise(report, SYSCTL("kernel.unprivileged_userns_clone=1"));
    } else if (host->container != HOST_BARE) {
        advise(report, "%s", container_remedies[host->container]);
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
               "allow user namespaces to this user: a security module or a policy of this "
               "machine refuses them");
    }
}

static void advise_mounts(enum plan_kind kind, int error, const struct host *host,
                          struct box_grade *grade)
{
    struct box_layer_report *report = &grade->layers[BOX_LAYER_MOUNTS];
    bool refused = error == EPERM || error == EACCES;
    if (error == ENOSYS) {
        advise(report, "use Linux 5.12 or newer; inside a container, allow %s", CONTAINER_CALLS);
    } else if (refused && host->container != HOST_BARE) {
        advise(report, "%s", container_remedies[host->container]);
    } else if (kind == PLAN_PROC && host->proc_masked) {
        advise(report,
               "something is mounted below /proc, and the kernel then refuses a new one: "
               "unmount it, or in a container unmask it (Docker: --security-opt "
               "systempaths=unconfined; Podman: --security-opt unmask=ALL)");
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
        [HOST_CONTAINER] = "make the container's control group writable inside",
    };
    bool bare = host->container == HOST_BARE;
    advise(report, "%s", bare && known ? known : remedies[host->container]);
}
