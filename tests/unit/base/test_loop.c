#include "base/loop.h"

#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "tests/unit/unit.h"

static char order[16];
static size_t order_size;

static void note(void *arg)
{
    order[order_size++] = *(const char *)arg;
    order[order_size] = '\0';
}

static void timers_fire_by_deadline(void **)
{
    struct loop *loop = NULL;
    struct loop_timer first = {};
    struct loop_timer second = {};
    struct loop_timer never = {};
    uint64_t now_ns = clock_now_ns();
    char one[] = "1";
    char two[] = "2";
    char other[] = "x";
    order_size = 0;
    assert_int_equal(loop_new(&loop), 0);
    loop_timer_arm(loop, &second, now_ns + 2, note, two);
    loop_timer_arm(loop, &never, now_ns + 1, note, other);
    loop_timer_arm(loop, &first, now_ns, note, one);
    loop_timer_disarm(&never);
    loop_timer_disarm(&never);
    assert_int_equal(loop_step(loop, 1000), 0);
    assert_string_equal(order, "12");
    loop_free(loop);
}

struct again {
    struct loop *loop;
    struct loop_task task;
    int runs;
};

static void queue_again(void *arg)
{
    struct again *again = arg;
    assert_true(++again->runs < 10);
    loop_task_queue(again->loop, &again->task, queue_again, again);
}

static void task_that_queues_itself_runs_once_a_round(void **)
{
    struct again again = {};
    assert_int_equal(loop_new(&again.loop), 0);
    loop_task_queue(again.loop, &again.task, queue_again, &again);
    loop_task_queue(again.loop, &again.task, queue_again, &again);
    assert_int_equal(loop_step(again.loop, 0), 0);
    assert_int_equal(again.runs, 1);
    assert_int_equal(loop_step(again.loop, -1), 0);
    assert_int_equal(again.runs, 2);
    loop_task_cancel(&again.task);
    assert_int_equal(loop_step(again.loop, 0), 0);
    assert_int_equal(again.runs, 2);
    loop_free(again.loop);
}

static void cancel_last_and_queue_again(void *arg)
{
    struct again *pair = arg; /* the second of the two is the last task of the round */
    loop_task_cancel(&pair[1].task);
    queue_again(pair);
}

static void task_cancels_the_last_one_of_its_round(void **)
{
    struct again pair[2] = {};
    assert_int_equal(loop_new(&pair[0].loop), 0);
    loop_task_queue(pair[0].loop, &pair[0].task, cancel_last_and_queue_again, pair);
    loop_task_queue(pair[0].loop, &pair[1].task, queue_again, &pair[1]);
    assert_int_equal(loop_step(pair[0].loop, 0), 0);
    assert_int_equal(pair[0].runs, 1);
    assert_int_equal(pair[1].runs, 0);
    loop_task_cancel(&pair[0].task);
    loop_free(pair[0].loop);
}

struct pair {
    struct loop_io a;
    struct loop_io b;
    int events;
};

static void remove_both(void *arg, uint32_t)
{
    struct pair *pair = arg;
    pair->events++;
    loop_io_remove(&pair->a);
    loop_io_remove(&pair->b);
}

static void source_removed_in_its_round_is_not_called(void **)
{
    struct loop *loop = NULL;
    struct pair pair = {};
    int fds[2] = {-1, -1};
    assert_int_equal(loop_new(&loop), 0);
    assert_int_equal(fd_socketpair(SOCK_STREAM, fds), 0);
    assert_int_equal(loop_io_add(loop, &pair.a, fds[0], EPOLLOUT, remove_both, &pair), 0);
    assert_int_equal(loop_io_add(loop, &pair.b, fds[1], EPOLLOUT, remove_both, &pair), 0);
    assert_int_equal(loop_step(loop, 1000), 0);
    assert_int_equal(pair.events, 1);
    (void)close(fds[0]);
    (void)close(fds[1]);
    loop_free(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timers_fire_by_deadline),
        cmocka_unit_test(task_that_queues_itself_runs_once_a_round),
        cmocka_unit_test(task_cancels_the_last_one_of_its_round),
        cmocka_unit_test(source_removed_in_its_round_is_not_called),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
