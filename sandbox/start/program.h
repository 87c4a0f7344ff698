#pragma once
#include <stddef.h>

#include "base/fail.h"

/* A program of ours as a sealed memfd, ready for execveat(2). Returns the descriptor or -errno. */
int program_make(const char *name, const unsigned char *bytes, size_t size, struct fail *ret_fail);
