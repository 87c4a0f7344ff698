#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/own.h"
#include "sandbox/programs/proxy/proxy.h"

int connect_start(const struct egress_address *address, uint16_t port, int type)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    bool is_v4 = address_is_v4(address);
    memcpy(&v4.sin_addr, address->bytes + 12, sizeof v4.sin_addr);
    memcpy(&v6.sin6_addr, address->bytes, sizeof v6.sin6_addr);
    defer_close int fd = socket(is_v4 ? AF_INET : AF_INET6, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    int r = is_v4 ? connect(fd, (const struct sockaddr *)&v4, sizeof v4)
                  : connect(fd, (const struct sockaddr *)&v6, sizeof v6);
    return r < 0 && errno != EINPROGRESS ? -errno : take_fd(&fd);
}
