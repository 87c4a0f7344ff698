#pragma once
#include <stddef.h>
#include <sys/types.h>

/* Unix sockets that carry descriptors with the bytes, unix(7). Part of the server and of init. */

enum { PACKET_FDS = 5 };

/* Sends all bytes in one call, with fd_count <= PACKET_FDS descriptors, which stay the caller's.
 * flags: of sendmsg(2), MSG_NOSIGNAL is added. Returns what sendmsg returns, or -errno. */
ssize_t packet_send(int socket_fd, const void *bytes, size_t size, const int *fds, size_t fd_count,
                    int flags);

/* Receives one packet without blocking. fds gets the descriptors that came with it, close-on-exec,
 * then -1; the kernel closes those beyond fd_count <= PACKET_FDS. Returns what recvmsg returns, or
 * -errno. */
ssize_t packet_receive(int socket_fd, void *bytes, size_t size, int *fds, size_t fd_count);

/* Like packet_receive(), for a stream: without blocking, bytes of one sender at a time. *ret_pid:
 * the sender in this process's numbering, 0 where it is not visible; needs SO_PASSCRED, unix(7). */
ssize_t packet_receive_from(int socket_fd, void *bytes, size_t size, pid_t *ret_pid);
