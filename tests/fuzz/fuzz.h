#pragma once
#include <stddef.h>
#include <stdint.h>

/* libFuzzer and replay_main.c call this with one input. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
