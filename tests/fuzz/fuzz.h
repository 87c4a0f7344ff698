#pragma once
#include <stddef.h>
#include <stdint.h>

/* What libFuzzer and replay_main.c call with one input. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
