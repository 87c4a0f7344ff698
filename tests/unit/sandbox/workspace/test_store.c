#include "sandbox/workspace/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "sandbox/sandbox.h"
#include "tests/unit/temp.h"
#include "tests/unit/unit.h"

static struct temp temp;
static struct box_spec spec;
static char place[PATH_MAX];

static int set_up(void **)
{
    temp_make(&temp);
    box_spec_init(&spec);
    spec.cow = true;
    spec.workspace = "/srv/work";
    spec.cow_store = temp_path(&temp, "store", place);
    return 0;
}

static int tear_down(void **)
{
    temp_remove(&temp);
    return 0;
}

static struct box_store *open_store(void)
{
    struct box_store *store = NULL;
    struct fail fail = {};
    if (box_store_open(&spec, &store, &fail) < 0) {
        fail_msg("%s", fail_text(&fail));
    }
    return store;
}

static void nothing_is_made_without_a_request(void **)
{
    struct stat st;
    spec.cow = false;
    assert_null(open_store());
    spec.cow = true;
    spec.cow_store = NULL;
    assert_null(open_store());
    assert_int_equal(box_store_fd(&spec), -1);
    assert_int_equal(fstatat(temp.fd, "store", &st, 0), -1);
}

static void each_workspace_has_a_directory_that_names_it(void **)
{
    char text[PATH_MAX];
    char first[PATH_MAX];
    char opened[PATH_MAX];
    struct stat st;
    struct box_store *store = open_store();
    assert_ptr_equal(spec.store, store);
    assert_int_equal(fd_path(box_store_fd(&spec), opened), 0);
    assert_string_equal(opened, store->path);
    assert_true(fd_read_text_at(store->fd, "workspace", text, sizeof text) > 0);
    assert_string_equal(text, "/srv/work");
    assert_int_equal(stat(store->layers, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(stat(spec.cow_store, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    (void)snprintf(first, sizeof first, "%s", store->path);
    box_store_close(store);
    store = open_store(); /* again */
    assert_string_equal(store->path, first);
    assert_false(store->taken);
    box_store_close(store);
    spec.workspace = "/srv/other";
    store = open_store();
    assert_string_not_equal(store->path, first);
    box_store_close(store);
}

static void only_one_server_uses_it(void **)
{
    struct box_store *one = open_store();
    struct box_store *two = open_store();
    assert_true(two->taken);
    assert_null(spec.store);
    assert_true(box_store_is_taken(&spec));
    assert_int_equal(box_store_fd(&spec), -1);
    box_store_close(two);
    box_store_close(one);
    one = open_store();
    assert_false(one->taken);
    assert_false(box_store_is_taken(&spec));
    box_store_close(one);
}

/* One hash may stand for two paths; half a file is left by a server that was killed. */
static void a_directory_of_another_workspace_is_refused(void **)
{
    struct box_store *store = open_store();
    struct fail fail = {};
    int fd = openat(store->fd, "workspace", O_WRONLY | O_TRUNC | O_CLOEXEC);
    assert_int_equal(write(fd, "/srv/x", 6), 6);
    assert_int_equal(close(fd), 0);
    box_store_close(store);
    assert_int_equal(box_store_open(&spec, &store, &fail), -EEXIST);
    assert_null(store);
    assert_null(spec.store);
}

static void what_others_can_change_is_refused(void **)
{
    static const char *const places[] = {"store", "elsewhere"};
    struct box_store *store = NULL;
    struct fail fail = {};
    temp_directory(&temp, "store");
    temp_directory(&temp, "elsewhere");
    assert_int_equal(fchmodat(temp.fd, "store", 0770, 0), 0);
    for (unsigned i = 0; i < 2; i++) {
        assert_true(box_store_open(&spec, &store, &fail) < 0);
        assert_null(store);
        if (i == 0) {
            assert_non_null(strstr(fail.text, "only its owner can write to"));
            assert_int_equal(unlinkat(temp.fd, places[0], AT_REMOVEDIR), 0);
            temp_link(&temp, "elsewhere", "store");
        }
    }
}

#define STORE_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(nothing_is_made_without_a_request),
        STORE_TEST(each_workspace_has_a_directory_that_names_it),
        STORE_TEST(only_one_server_uses_it),
        STORE_TEST(a_directory_of_another_workspace_is_refused),
        STORE_TEST(what_others_can_change_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
