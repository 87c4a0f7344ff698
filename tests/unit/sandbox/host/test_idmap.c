#include "sandbox/host/host_facts.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/unit/unit.h"

enum { NO_NAMESPACE = 100 };

/* Calls idmap_covers() for each id in a user namespace with this map, which its parent writes: one
 * result bit for each. */
static int ask_below(const char *map, const uid_t *ids, unsigned count)
{
    int fds[2];
    char byte = 0;
    assert_int_equal(fd_socketpair(SOCK_STREAM, fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(fds[0]); /* the parent's end must be the only one */
        if (unshare(CLONE_NEWUSER) < 0 || write(fds[1], "", 1) != 1 ||
            read(fds[1], &byte, 1) != 1) {
            _exit(NO_NAMESPACE);
        }
        int bits = 0;
        for (unsigned i = 0; i < count; i++) {
            bits |= idmap_covers(ids[i]) ? 1 << i : 0;
        }
        _exit(bits);
    }
    (void)close(fds[1]);
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/uid_map", (int)pid);
    if (read(fds[0], &byte, 1) == 1 && fd_write_text_at(AT_FDCWD, path, map) == 0) {
        assert_int_equal(write(fds[0], "", 1), 1);
    }
    (void)close(fds[0]);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void the_process_uid_is_covered(void **)
{
    assert_true(idmap_covers(getuid()));
}

static void namespace_of_one_id_covers_only_that_id(void **)
{
    static const uid_t ids[] = {0, 1, 1000, 1879048192, (uid_t)-1};
    char map[32];
    (void)snprintf(map, sizeof map, "0 %u 1", (unsigned)geteuid());
    int bits = ask_below(map, ids, 5);
    if (bits == NO_NAMESPACE) {
        unit_skip("userns", "no user namespace can be made here");
    }
    assert_int_equal(bits, 1);
    (void)snprintf(map, sizeof map, "1000 %u 1", (unsigned)geteuid());
    assert_int_equal(ask_below(map, ids, 5), 1 << 2);
}

/* Needs root of the host, or of a namespace that maps more ids than its own. */
static void ranges_include_their_last_id(void **)
{
    static const uid_t ids[] = {9, 10, 14, 15, 99, 100, 4294967294};
    int bits = ask_below("10 0 5\n100 20 1\n", ids, 7);
    if (bits == NO_NAMESPACE) {
        unit_skip("root", "ranges of ids need root");
    }
    assert_int_equal(bits, 1 << 1 | 1 << 2 | 1 << 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_process_uid_is_covered),
        cmocka_unit_test(namespace_of_one_id_covers_only_that_id),
        cmocka_unit_test(ranges_include_their_last_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
