/* The limits of the sandbox's own namespaces in /proc/sys. */
#include <errno.h>
#include <fcntl.h>

#include "base/fd.h"
#include "base/own.h"
#include "sandbox/launch/child_internal.h"

/* Few control groups count the memory of sockets, and the watchdog assumes the most that one socket
 * can hold. So that maximum is low here, and each limit is the sandbox's own:
 * Documentation/admin-guide/sysctl/net.rst and networking/ip-sysctl.rst. Best effort: /proc/sys may
 * be read-only, and older kernels show some of these only to the first user namespace. */
void sysctls_bound_sockets(void)
{
    static const struct {
        const char *file;
        const char *value;
    } limits[] = {
        /* A connection's buffers would grow to ten megabytes, which count for the whole machine
           (tcp(7)): a guest could exhaust the memory of the host's own connections. */
        {"ipv4/tcp_rmem", "4096 65536 131072"},
        {"ipv4/tcp_wmem", "4096 65536 131072"},
        /* Connections that are not yet accepted, each with data that was already sent. */
        {"core/somaxconn", "128"},
        {"ipv4/tcp_max_syn_backlog", "128"},
        {"ipv4/tcp_max_tw_buckets", "4096"},
        /* Datagrams in one socket's queue whose senders are gone; one more than this fits. */
        {"unix/max_dgram_qlen", "1"},
        /* Options of one socket; and, for all sockets, fragments of datagrams that wait for the
           rest. */
        {"core/optmem_max", "20480"},
        {"ipv4/ipfrag_high_thresh", "262144"},
        {"ipv6/ip6frag_high_thresh", "262144"},
    };
    defer_close int net_fd = open("/proc/sys/net", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (unsigned i = 0; net_fd >= 0 && i < sizeof limits / sizeof *limits; i++) {
        (void)fd_write_text_at(net_fd, limits[i].file, limits[i].value);
    }
}

/* What is counted here is also counted for the user outside, with the same bounds: a guest that
 * takes all inotify instances would leave none for the user's own programs. */
int sysctls_bound_user(struct child *child, const struct plan_step *step)
{
    static const struct {
        const char *name;
        const char *most;
    } limits[] = {
        {"max_user_namespaces", "0"},    {"max_mnt_namespaces", "0"},
        {"max_pid_namespaces", "0"},     {"max_net_namespaces", "0"},
        {"max_ipc_namespaces", "0"},     {"max_uts_namespaces", "0"},
        {"max_time_namespaces", "0"},    {"max_cgroup_namespaces", "0"},
        {"max_inotify_instances", "16"}, {"max_inotify_watches", "4096"},
        {"max_fanotify_groups", "0"},
    };
    for (unsigned i = 0; i < sizeof limits / sizeof *limits; i++) {
        int r = fd_write_text_at(child->user_sysctl_fd, limits[i].name, limits[i].most);
        if (r == -EROFS && (child->without_proc || step->optional)) {
            return 0; /* the engine masks it again; then only the filters refuse these calls */
        }
        if (r < 0 && r != -ENOENT) { /* older kernels lack some of these files */
            errno = -r;
            return -1;
        }
    }
    return 0;
}
