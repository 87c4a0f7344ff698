#pragma once
#include <stddef.h>
#include <sys/types.h>

/* Unix sockets with descriptors beside the bytes, unix(7). Part of the server and of pid 1. */

enum { PACKET_FDS = 4 };

/* Sends all bytes in one call, with fd_count <= PACKET_FDS descriptors, which stay the caller's.
 * flags: of sendmsg(2), MSG_NOSIGNAL is added. What sendmsg returns, or -errno. */
ssize_t packet_send(int socket_fd, const void *bytes, size_t size, const int *fds, size_t fd_count,
                    int flags);

/* Receives one packet without waiting. fds gets the descriptors that came along, close-on-exec, and -1
 * behind them; beyond fd_count <= PACKET_FDS the kernel closes them. What recvmsg returns, or -errno. */
ssize_t packet_receive(int socket_fd, void *bytes, size_t size, int *fds, size_t fd_count);

/* Receives bytes of a stream without waiting, of one sender at a time. *ret_pid: the sender's, as this
 * process numbers it, 0 where it is not visible; needs SO_PASSCRED, unix(7). As packet_receive(). */
ssize_t packet_receive_from(int socket_fd, void *bytes, size_t size, pid_t *ret_pid);
