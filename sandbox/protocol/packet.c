#include "sandbox/protocol/packet.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

/* The kernel refuses descriptors while more of this user are in flight than the sender may have
 * open, unix(7), and code can bring about any number: senders at the same moment pass that check
 * together. Only the soft limit counts. */
static ssize_t send_beyond_limit(int socket_fd, const struct msghdr *message, int flags)
{
    struct rlimit usual;
    if (getrlimit(RLIMIT_NOFILE, &usual) < 0 ||
        setrlimit(RLIMIT_NOFILE, &(struct rlimit){usual.rlim_max, usual.rlim_max}) < 0) {
        return -1;
    }
    ssize_t sent = sendmsg(socket_fd, message, flags);
    int error = errno;
    (void)setrlimit(RLIMIT_NOFILE, &usual);
    errno = error;
    return sent;
}

ssize_t packet_send(int socket_fd, const void *bytes, size_t size, const int *fds, size_t fd_count,
                    int flags)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size};
    union {
        char bytes[CMSG_SPACE(PACKET_FDS * sizeof(int))];
        struct cmsghdr align;
    } control = {};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    if (fd_count > PACKET_FDS) {
        return -EINVAL;
    }
    if (fd_count > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(head), fds, fd_count * sizeof(int));
    }
    for (;;) {
        ssize_t sent = sendmsg(socket_fd, &message, flags | MSG_NOSIGNAL);
        if (sent < 0 && errno == ETOOMANYREFS) {
            sent = send_beyond_limit(socket_fd, &message, flags | MSG_NOSIGNAL);
        }
        if (sent >= 0) {
            return sent;
        }
        if (errno != EINTR) {
            return -errno;
        }
    }
}

/* message: with space for what comes beside the bytes. */
static ssize_t receive(int socket_fd, void *bytes, size_t size, struct msghdr *message)
{
    struct iovec iov = {.iov_base = bytes, .iov_len = size};
    message->msg_iov = &iov;
    message->msg_iovlen = 1;
    ssize_t received = recvmsg(socket_fd, message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    message->msg_iov = NULL;
    return received < 0 ? -errno : received;
}

ssize_t packet_receive(int socket_fd, void *bytes, size_t size, int *fds, size_t fd_count)
{
    union {
        char bytes[CMSG_SPACE(PACKET_FDS * sizeof(int))];
        struct cmsghdr align;
    } control = {};
    /* CMSG_LEN, not CMSG_SPACE: that would let the kernel fill the padding with descriptors. */
    struct msghdr message = {.msg_control = control.bytes,
                             .msg_controllen = fd_count ? CMSG_LEN(fd_count * sizeof(int)) : 0};
    if (fd_count > PACKET_FDS) {
        return -EINVAL;
    }
    for (size_t i = 0; i < fd_count; i++) {
        fds[i] = -1;
    }
    ssize_t received = receive(socket_fd, bytes, size, &message);
    const struct cmsghdr *head = received < 0 ? NULL : CMSG_FIRSTHDR(&message);
    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS) {
        memcpy(fds, CMSG_DATA(head), head->cmsg_len - CMSG_LEN(0));
    }
    return received;
}

ssize_t packet_receive_from(int socket_fd, void *bytes, size_t size, pid_t *ret_pid)
{
    union {
        char bytes[CMSG_SPACE(sizeof(struct ucred))];
        struct cmsghdr align;
    } control = {};
    struct msghdr message = {.msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    *ret_pid = 0;
    ssize_t received = receive(socket_fd, bytes, size, &message);
    const struct cmsghdr *head = received < 0 ? NULL : CMSG_FIRSTHDR(&message);
    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_CREDENTIALS &&
        head->cmsg_len == CMSG_LEN(sizeof(struct ucred))) {
        struct ucred sender;
        memcpy(&sender, CMSG_DATA(head), sizeof sender);
        *ret_pid = sender.pid;
    }
    return received;
}
