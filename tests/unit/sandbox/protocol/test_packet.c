#include "sandbox/protocol/packet.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/unit/unit.h"

static int link_ends[2];

static int open_link(void **)
{
    return fd_socketpair(SOCK_SEQPACKET, link_ends);
}

static int close_link(void **)
{
    return close(link_ends[0]) | close(link_ends[1]);
}

static unsigned count_open(void)
{
    unsigned count = 0;
    DIR *directory = opendir("/proc/self/fd");
    assert_non_null(directory);
    while (readdir(directory)) {
        count++;
    }
    assert_int_equal(closedir(directory), 0);
    return count;
}

static void send_one_byte(size_t fd_count)
{
    const int fds[PACKET_FDS] = {link_ends[0], link_ends[1], link_ends[0], link_ends[1]};
    assert_int_equal(packet_send(link_ends[0], "x", 1, fds, fd_count, 0), 1);
}

static void descriptors_arrive_and_the_rest_is_minus_one(void **)
{
    char byte = 0;
    int fds[PACKET_FDS];
    send_one_byte(2);
    assert_int_equal(packet_receive(link_ends[1], &byte, 1, fds, PACKET_FDS), 1);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(fcntl(fds[i], F_GETFD), FD_CLOEXEC);
        assert_int_equal(close(fds[i]), 0);
    }
    assert_int_equal(fds[2], -1);
    assert_int_equal(fds[3], -1);
}

/* A peer that sends more than expected must not fill the table of descriptors. */
static void surplus_descriptors_are_closed(void **)
{
    for (size_t scratch = 0; scratch <= PACKET_FDS; scratch++) {
        char byte = 0;
        int fds[PACKET_FDS] = {-1, -1, -1, -1};
        unsigned before = count_open();
        send_one_byte(PACKET_FDS);
        assert_int_equal(packet_receive(link_ends[1], &byte, 1, fds, scratch), 1);
        assert_int_equal(count_open(), before + scratch);
        for (size_t i = 0; i < scratch; i++) {
            assert_int_equal(close(fds[i]), 0);
        }
    }
}

static void nothing_there_is_no_packet(void **)
{
    char byte = 0;
    int fd = 7;
    assert_int_equal(packet_receive(link_ends[1], &byte, 1, &fd, 1), -EAGAIN);
    assert_int_equal(fd, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(descriptors_arrive_and_the_rest_is_minus_one, open_link,
                                        close_link),
        cmocka_unit_test_setup_teardown(surplus_descriptors_are_closed, open_link, close_link),
        cmocka_unit_test_setup_teardown(nothing_there_is_no_packet, open_link, close_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
