#pragma once
#include <jansson.h>

/* The key of object that word most probably means, or NULL. Borrowed from object. */
const char *near_key(const json_t *object, const char *word);
