#pragma once
#include <stdbool.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/loop.h"
#include "sandbox/helpers.h"
#include "sandbox/protocol/apply_journal.h"
#include "tests/unit/temp.h"
#include "tests/unit/unit.h"

/* Drives the real applying process, in a pair of directories: "dir" and "upper". */

enum { ORDINARY = 65534, OWNER = 1234, GROUP = 2345 };

extern struct temp temp;
extern struct loop *loop;
extern struct buf journal;
extern struct apply_journal *mapped; /* of the last run */
extern bool done_completed;          /* the same */

int set_up(void **state);
/* From here on this process is an ordinary user for the kernel's checks, and so is its child. */
int set_up_ordinary(void **state);
int tear_down(void **state);
#define EACH(test)                                                                                 \
    cmocka_unit_test_setup_teardown(test, set_up, tear_down),                                      \
    {                                                                                              \
        .name = #test "_for_a_user", .test_func = (test), .setup_func = set_up_ordinary,           \
        .teardown_func = tear_down                                                                 \
    }

/* --- the pair of directories --- */

void forget_run(void);
void begin(void);
/* The path below a directory, until the fourth call after this one. */
const char *in(const char *directory, const char *path);
void lower(const char *path, const char *content, mode_t mode);
void upper(const char *path, const char *content, mode_t mode);
void whiteout(const char *path);
struct apply_facts facts(const char *directory, const char *path);
/* An item with what both directories have at the moment. */
void add(const char *path);
bool has(const char *directory, const char *path, const char *content);
bool is_gone(const char *path);
mode_t mode_of(const char *path);
bool links_to(const char *path, const char *target);
/* With few descriptors: a tree may be deeper than a process may have of them. */
unsigned temporaries_in(const char *name);
unsigned temporaries(void);

/* --- running --- */

void map_journal(void);
struct apply *launch(void);
bool run_again(void);
/* Applies what was added. */
void run(void);
const struct apply_item *result(const char *path);
void expect(const char *path, enum apply_status status);
void expect_failed(const char *path, int error);
