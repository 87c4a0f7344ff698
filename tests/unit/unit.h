#pragma once
/* What cmocka.h wants to have been included before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Skips this test because a feature of the host is missing, and says why. In a strict run, where
 * SANDPIPER_TEST_REQUIRE names the feature, it fails instead. */
void unit_skip(const char *feature, const char *why);

/* From here on this process and its children get error from the system call, as on an older kernel:
 * for a child of a test. False where no filter can be installed. */
bool unit_deny(long number, int error);
