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

/* Receives without blocking, with space for a control message. *ret_head: it, if there is one of
 * this type; else NULL. As recvmsg(2), or -errno. */
static ssize_t receive(int socket_fd, struct iovec bytes, struct iovec control, int type,
                       struct cmsghdr **ret_head)
{
    struct msghdr message = {.msg_iov = &bytes,
                             .msg_iovlen = 1,
                             .msg_control = control.iov_base,
                             .msg_controllen = control.iov_len};
    ssize_t received = recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    struct cmsghdr *head = received < 0 ? NULL : CMSG_FIRSTHDR(&message);
    *ret_head = head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == type ? head : NULL;
    return received < 0 ? -errno : received;
}

ssize_t packet_receive(int socket_fd, void *bytes, size_t size, int *fds, size_t fd_count)
{
    union {
        char bytes[CMSG_SPACE(PACKET_FDS * sizeof(int))];
        struct cmsghdr align;
    } control = {};
    struct cmsghdr *head = NULL;
    if (fd_count > PACKET_FDS) {
        return -EINVAL;
    }
    for (size_t i = 0; i < fd_count; i++) {
        fds[i] = -1;
    }
    /* CMSG_LEN, not CMSG_SPACE: that would let the kernel fill the padding with descriptors. */
    size_t space = fd_count ? CMSG_LEN(fd_count * sizeof(int)) : 0;
    ssize_t received = receive(socket_fd, (struct iovec){bytes, size},
                               (struct iovec){control.bytes, space}, SCM_RIGHTS, &head);
    if (head) {
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
    struct cmsghdr *head = NULL;
    struct ucred sender = {};
    ssize_t received =
        receive(socket_fd, (struct iovec){bytes, size},
                (struct iovec){control.bytes, sizeof control.bytes}, SCM_CREDENTIALS, &head);
    if (head && head->cmsg_len == CMSG_LEN(sizeof sender)) {
        memcpy(&sender, CMSG_DATA(head), sizeof sender);
    }
    *ret_pid = sender.pid;
    return received;
}
