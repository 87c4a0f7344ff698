#include "sandbox/programs/common/memory.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/protocol/packet.h"
#include "tests/unit/temp.h"
#include "tests/unit/unit.h"

enum { MIB = 1 << 20 };

static struct temp temp;
static const struct usage no_bound = {.bytes = UINT64_MAX, .entries = UINT64_MAX};

static int set_up(void **)
{
    temp_make(&temp);
    return 0;
}

static int tear_down(void **)
{
    temp_remove(&temp);
    return 0;
}

static struct usage usage_of_directory(unsigned depth, const struct usage *most)
{
    struct usage usage = {};
    usage_add_directory(&usage, openat(temp.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), depth,
                        most);
    return usage;
}

/* A file of one MiB; returns its descriptor. */
static int make_file(const char *name)
{
    static char bytes[MIB];
    memset(bytes, 'x', sizeof bytes);
    int fd = openat(temp.fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, bytes, sizeof bytes), sizeof bytes);
    assert_int_equal(fsync(fd), 0); /* some file systems allocate blocks late */
    return fd;
}

static void files_in_directories_are_added_up_by_their_blocks(void **)
{
    temp_directory(&temp, "a/b");
    (void)close(make_file("a/b/one"));
    (void)close(make_file("two"));
    int hole = openat(temp.fd, "hole", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(ftruncate(hole, 1LL << 40), 0);
    (void)close(hole);
    struct usage usage = usage_of_directory(8, &no_bound);
    assert_in_range(usage.bytes, 2 * MIB, 3 * MIB);
    assert_int_equal(usage.entries, 5);
    assert_false(usage.hides);
}

static void counting_stops_above_the_limit(void **)
{
    for (unsigned i = 0; i < 20; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "file%u", i);
        temp_file(&temp, name, "", 0600);
    }
    const struct usage most = {.bytes = UINT64_MAX, .entries = 4};
    assert_int_equal(usage_of_directory(8, &most).entries, 5);
}

static void entries_too_deep_count_as_hidden(void **)
{
    temp_directory(&temp, "a/b/c");
    assert_false(usage_of_directory(3, &no_bound).hides);
    assert_true(usage_of_directory(2, &no_bound).hides);
}

static void a_file_without_a_name_counts_once(void **)
{
    int fd = make_file("file");
    int again = dup(fd);
    struct usage usage = {};
    usage_begin();
    usage_add_deleted(&usage, getpid());
    assert_int_equal(usage.bytes, 0);
    assert_int_equal(unlinkat(temp.fd, "file", 0), 0);
    pid_t child = fork();
    if (child == 0) {
        (void)pause();
        _exit(0);
    }
    usage_add_deleted(&usage, getpid());
    usage_add_deleted(&usage, child);
    assert_in_range(usage.bytes, MIB, 2 * MIB);
    assert_int_equal(usage.entries, 1);
    usage_begin();
    usage_add_deleted(&usage, child);
    assert_int_equal(usage.entries, 2);
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
    (void)close(again);
    (void)close(fd);
}

static void a_mapping_of_a_file_without_a_name_counts_as_hidden(void **)
{
    int fd = make_file("file");
    void *shared = mmap(NULL, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    void *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    (void)close(fd);
    assert_false(usage_hides(getpid()));
    assert_int_equal(unlinkat(temp.fd, "file", 0), 0);
    assert_true(usage_hides(getpid()));
    (void)munmap(page, 4096);
    (void)munmap(shared, 4096);
    assert_false(usage_hides(getpid()));
}

static void a_descriptor_in_a_message_counts_as_hidden(void **)
{
    int ends[2];
    char info[64];
    char text[1024] = "";
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    (void)snprintf(info, sizeof info, "/proc/self/fdinfo/%d", ends[1]);
    int info_fd = open(info, O_RDONLY | O_CLOEXEC);
    (void)read(info_fd, text, sizeof text - 1);
    (void)close(info_fd);
    if (!strstr(text, "scm_fds")) {
        unit_skip("scm_fds", "not before Linux 5.11");
    }
    assert_false(usage_hides(getpid()));
    assert_int_equal(packet_send(ends[0], "x", 1, &temp.fd, 1, 0), 1);
    assert_true(usage_hides(getpid()));
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void the_writer_is_known(void **)
{
    uint64_t before = usage_written(getpid());
    (void)close(make_file("file"));
    assert_true(usage_written(getpid()) >= before + MIB);
    assert_int_equal(usage_written(0), 0);
}

#define USAGE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        USAGE_TEST(files_in_directories_are_added_up_by_their_blocks),
        USAGE_TEST(counting_stops_above_the_limit),
        USAGE_TEST(entries_too_deep_count_as_hidden),
        USAGE_TEST(a_file_without_a_name_counts_once),
        USAGE_TEST(a_mapping_of_a_file_without_a_name_counts_as_hidden),
        USAGE_TEST(a_descriptor_in_a_message_counts_as_hidden),
        USAGE_TEST(the_writer_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
