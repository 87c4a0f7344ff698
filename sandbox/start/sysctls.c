#include "sandbox/start/sysctls.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"

/* What sockets hold is counted by few control groups, and the watchdog goes by the most that one can hold. So that
 * is little, and each limit is the sandbox's own: Documentation/admin-guide/sysctl/net.rst and
 * networking/ip-sysctl.rst. Best effort: /proc/sys may be read-only, and older kernels show some of these to the
 * first user namespace only. */
void sysctls_bound_sockets(void)
{
    static const struct {
        const char *file;
        const char *value;
    } limits[] = {
        /* A connection's buffers would grow to ten megabytes, counted for the whole machine (tcp(7)): a guest
         * could put the host's own connections under pressure. */
        {"ipv4/tcp_rmem", "4096 65536 131072"},
        {"ipv4/tcp_wmem", "4096 65536 131072"},
        /* Connections that nobody accepts, each with what was sent already. */
        {"core/somaxconn", "128"},
        {"ipv4/tcp_max_syn_backlog", "128"},
        {"ipv4/tcp_max_tw_buckets", "4096"},
        /* Datagrams in the queue of one socket, from senders that are gone; one more than this fits. */
        {"unix/max_dgram_qlen", "1"},
        /* Options of one socket; and, of all, parts of datagrams that wait for the others. */
        {"core/optmem_max", "20480"},
        {"ipv4/ipfrag_high_thresh", "262144"},
        {"ipv6/ip6frag_high_thresh", "262144"},
    };
    int net_fd = open("/proc/sys/net", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (unsigned i = 0; net_fd >= 0 && i < sizeof limits / sizeof *limits; i++) {
        (void)fd_write_text_at(net_fd, limits[i].file, limits[i].value);
    }
    if (net_fd >= 0) {
        (void)close(net_fd);
    }
}
