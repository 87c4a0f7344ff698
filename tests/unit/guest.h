#pragma once
#include <errno.h>
#include <linux/limits.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

#include "sandbox/plan/plan.h"
#include "sandbox/policy/filter.h"
#include "sandbox/programs/init/supervisor/notify.h"

/* A guest is a child of the test's under the filter of what is asked; the test is its pid 1's
 * program and answers. What a guest finds wrong it says by the line that found it. Files lie in two
 * directories: `work`, where the guest begins and attributes may be changed, and `outside`, with a
 * `file` of mode 0600. */

enum { GUEST_FAILED = 99, GUEST_FILE_BYTES = 1 << 20 };

struct guest_shared {
    int line;   /* of a guest's that found something wrong */
    int result; /* what it found */
    volatile unsigned count;
    volatile unsigned stop;
};

extern char guest_work[PATH_MAX];
extern char guest_outside[PATH_MAX];
extern struct guest_shared *shared;
/* Makes this process one of the session with this tag, as guest/tags.py does. Guests are of
 * GUEST_TAG. */
enum { GUEST_TAG = 2000 };
void guest_mark(unsigned tag);
extern struct notify guest_notify;
extern struct notify_settings guest_settings;

/* Landlock's newest version, its oldest, and with an egress proxy. */
extern const struct filter_container guest_new, guest_old, guest_egress;

/* In a guest: ends it where expression is false. */
#define EXPECT(expression)                                                                         \
    do {                                                                                           \
        if (!(expression)) {                                                                       \
            shared->line = __LINE__;                                                               \
            shared->result = errno;                                                                \
            _exit(GUEST_FAILED);                                                                   \
        }                                                                                          \
    } while (0)
#define EXPECT_ERROR(expression, expected) EXPECT((expression) < 0 && errno == (expected))

/* Of a group of tests. */
int guest_make_all(void **);
int guest_remove_all(void **);

/* Runs a guest and all that it starts to the end. The test skips where no listener can be had, and
 * fails where the guest found something wrong or its status is another. */
void guest_run(const struct filter_container *kind, const struct notify_settings *with,
               void (*guest)(void), int expected_status);
/* The same in steps: begins to serve; starts a guest; ends serving. */
void guest_open(const struct filter_container *kind, const struct notify_settings *with,
                struct filter_program *filter);
pid_t guest_start(const struct filter_program *filter, void (*guest)(void));
void guest_close(struct filter_program *filter);

/* For guests: the path of name in a directory, good until the next call; an empty file; permission
 * bits. */
char *guest_path(const char *directory, const char *name);
void guest_file(const char *name);
unsigned guest_mode(const char *path);
