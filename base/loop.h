#pragma once
#include <stdbool.h>
#include <stdint.h>

/* One level-triggered epoll loop. No callback may block. Sources are embedded in their owners,
 * start zeroed, and must be removed before their owner is freed; removing is idempotent and safe
 * inside any callback, also for a source whose event is pending in this round. */

struct loop;

typedef void (*loop_io_fn)(void *arg, uint32_t events); /* events: EPOLLIN, … */
typedef void (*loop_fn)(void *arg);

struct loop_io {
    struct loop *loop; /* NULL when not attached */
    int fd;
    uint32_t events;
    loop_io_fn fn;
    void *arg;
};

struct loop_timer {
    struct loop *loop; /* NULL when not armed */
    struct loop_timer *next;
    uint64_t deadline_ns; /* CLOCK_MONOTONIC */
    loop_fn fn;
    void *arg;
};

/* Runs once, after the events of the current round. */
struct loop_task {
    struct loop *loop; /* NULL when not queued */
    struct loop_task *next;
    unsigned turn; /* the turn of the loop in which it was queued */
    loop_fn fn;
    void *arg;
};

/* 0 or -errno. */
int loop_new(struct loop **ret_loop);
void loop_free(struct loop *loop);

/* fd is borrowed and must stay open until loop_io_remove. 0 or -errno. */
int loop_io_add(struct loop *loop, struct loop_io *io, int fd, uint32_t events, loop_io_fn fn,
                void *arg);
int loop_io_set(struct loop_io *io, uint32_t events);
void loop_io_remove(struct loop_io *io);

/* Re-arming moves the deadline. loop_timer_in(): that many milliseconds from now. */
void loop_timer_arm(struct loop *loop, struct loop_timer *timer, uint64_t deadline_ns, loop_fn fn,
                    void *arg);
void loop_timer_in(struct loop *loop, struct loop_timer *timer, uint64_t ms, loop_fn fn, void *arg);
void loop_timer_disarm(struct loop_timer *timer);

/* Queuing twice runs once. */
void loop_task_queue(struct loop *loop, struct loop_task *task, loop_fn fn, void *arg);
void loop_task_cancel(struct loop_task *task);

/* Something that follows at once is expected, as from a process that was just woken: the next wait
 * polls for a moment before it sleeps, since on an idle machine it takes longer to sleep and wake
 * up than such a response does. Only where the last one came so soon: a slow process, or one that
 * gets no processor, costs one moment. */
void loop_expect(struct loop *loop);

/* Runs until loop_stop(). Returns the code given there, or -errno. */
int loop_run(struct loop *loop);
/* One round: waits at most timeout_ms (-1: until something happens). 0 or -errno. */
int loop_step(struct loop *loop, int timeout_ms);
void loop_stop(struct loop *loop, int code);
