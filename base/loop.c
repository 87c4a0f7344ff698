#include "base/loop.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/list.h"

enum { LOOP_EVENTS = 64, SOON_NS = 200 * 1000 };

struct loop {
    int epoll_fd;
    bool stopped;
    int code;
    struct loop_timer *timers; /* by deadline, nearest first */
    struct loop_task *tasks;   /* in order of queuing */
    unsigned turn;
    uint64_t expected_ns;      /* when something was expected; 0: nothing is */
    bool is_soon;              /* what was expected last came within SOON_NS */
    struct epoll_event *round; /* events of the round being dispatched */
    int round_size;
};

int loop_new(struct loop **ret_loop)
{
    struct loop *loop = calloc(1, sizeof *loop);
    if (!loop) {
        return -ENOMEM;
    }
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll_fd < 0) {
        int code = errno;
        free(loop);
        return -code;
    }
    *ret_loop = loop;
    return 0;
}

void loop_free(struct loop *loop)
{
    if (loop) {
        (void)close(loop->epoll_fd);
        free(loop);
    }
}

int loop_io_add(struct loop *loop, struct loop_io *io, int fd, uint32_t events, loop_io_fn fn,
                void *arg)
{
    assert(!io->loop);
    struct epoll_event event = {.events = events, .data.ptr = io};
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
        return -errno;
    }
    *io = (struct loop_io){.loop = loop, .fd = fd, .events = events, .fn = fn, .arg = arg};
    return 0;
}

int loop_io_set(struct loop_io *io, uint32_t events)
{
    assert(io->loop);
    if (io->events == events) {
        return 0;
    }
    struct epoll_event event = {.events = events, .data.ptr = io};
    if (epoll_ctl(io->loop->epoll_fd, EPOLL_CTL_MOD, io->fd, &event) < 0) {
        return -errno;
    }
    io->events = events;
    return 0;
}

void loop_io_remove(struct loop_io *io)
{
    struct loop *loop = io->loop;
    if (!loop) {
        return;
    }
    (void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, io->fd, NULL);
    for (int i = 0; i < loop->round_size; i++) {
        if (loop->round[i].data.ptr == io) {
            loop->round[i].data.ptr = NULL;
        }
    }
    io->loop = NULL;
}

void loop_timer_arm(struct loop *loop, struct loop_timer *timer, uint64_t deadline_ns, loop_fn fn,
                    void *arg)
{
    loop_timer_disarm(timer);
    struct loop_timer **at = &loop->timers;
    while (*at && (*at)->deadline_ns <= deadline_ns) {
        at = &(*at)->next;
    }
    *timer = (struct loop_timer){
        .loop = loop, .next = *at, .deadline_ns = deadline_ns, .fn = fn, .arg = arg};
    *at = timer;
}

void loop_timer_in(struct loop *loop, struct loop_timer *timer, uint64_t ms, loop_fn fn, void *arg)
{
    loop_timer_arm(loop, timer, clock_now_ns() + ms * CLOCK_NS_PER_MS, fn, arg);
}

void loop_timer_disarm(struct loop_timer *timer)
{
    if (!timer->loop) {
        return;
    }
    list_remove(&timer->loop->timers, timer);
    timer->loop = NULL;
}

void loop_task_queue(struct loop *loop, struct loop_task *task, loop_fn fn, void *arg)
{
    if (task->loop) {
        return;
    }
    *task = (struct loop_task){.loop = loop, .turn = loop->turn, .fn = fn, .arg = arg};
    list_append(&loop->tasks, task);
}

void loop_task_cancel(struct loop_task *task)
{
    if (task->loop) {
        list_remove(&task->loop->tasks, task);
        task->loop = NULL;
    }
}

static void loop_run_tasks(struct loop *loop)
{
    /* A task that queues itself again waits for the next round, so that events are not starved. */
    unsigned turn = ++loop->turn;
    while (loop->tasks && loop->tasks->turn != turn) {
        struct loop_task *task = loop->tasks;
        loop_task_cancel(task);
        task->fn(task->arg);
    }
}

static void loop_run_timers(struct loop *loop)
{
    uint64_t now_ns = clock_now_ns();
    while (loop->timers && loop->timers->deadline_ns <= now_ns) {
        struct loop_timer *timer = loop->timers;
        loop_timer_disarm(timer);
        timer->fn(timer->arg);
    }
}

static int loop_wait_ms(const struct loop *loop, int timeout_ms)
{
    if (loop->tasks) {
        return 0;
    }
    if (!loop->timers) {
        return timeout_ms;
    }
    uint64_t now_ns = clock_now_ns();
    uint64_t deadline_ns = loop->timers->deadline_ns;
    if (deadline_ns <= now_ns) {
        return 0;
    }
    /* Rounded up: waking a fraction early would spin. */
    uint64_t wait_ms = (deadline_ns - now_ns + CLOCK_NS_PER_MS - 1) / CLOCK_NS_PER_MS;
    int wait = wait_ms > INT_MAX ? INT_MAX : (int)wait_ms;
    return timeout_ms >= 0 && timeout_ms < wait ? timeout_ms : wait;
}

void loop_expect(struct loop *loop)
{
    loop->expected_ns = clock_now_ns();
}

/* Polls for what is expected before it sleeps. As epoll_wait(2). */
static int loop_wait(struct loop *loop, struct epoll_event *events, int timeout_ms)
{
    int wait_ms = loop_wait_ms(loop, timeout_ms);
    uint64_t expected_ns = loop->expected_ns;
    int n = 0;
    if (expected_ns == 0 || wait_ms == 0) {
        return epoll_wait(loop->epoll_fd, events, LOOP_EVENTS, wait_ms);
    }
    loop->expected_ns = 0;
    while (loop->is_soon && n == 0 && clock_now_ns() - expected_ns < SOON_NS) {
        n = epoll_wait(loop->epoll_fd, events, LOOP_EVENTS, 0);
        if (n == 0) {
            (void)sched_yield(); /* to the process that is to respond, where it has no other
                                    processor */
        }
    }
    n = n ? n : epoll_wait(loop->epoll_fd, events, LOOP_EVENTS, wait_ms);
    loop->is_soon = clock_now_ns() - expected_ns < SOON_NS;
    return n;
}

int loop_step(struct loop *loop, int timeout_ms)
{
    struct epoll_event events[LOOP_EVENTS];
    int n = loop_wait(loop, events, timeout_ms);
    if (n < 0) {
        return errno == EINTR ? 0 : -errno;
    }
    loop->round = events;
    loop->round_size = n;
    for (int i = 0; i < n; i++) {
        struct loop_io *io = events[i].data.ptr;
        if (io) {
            io->fn(io->arg, events[i].events);
        }
    }
    loop->round = NULL;
    loop->round_size = 0;
    loop_run_timers(loop);
    loop_run_tasks(loop);
    return 0;
}

int loop_run(struct loop *loop)
{
    /* A callback may stop the loop while its caller still sets up: then it does not run at all. */
    while (!loop->stopped) {
        int r = loop_step(loop, -1);
        if (r < 0) {
            return r;
        }
    }
    loop->stopped = false;
    return loop->code;
}

void loop_stop(struct loop *loop, int code)
{
    loop->stopped = true;
    loop->code = code;
}
