#pragma once
#include <stdbool.h>
#include <stddef.h>

/* The part of path behind directory, without slashes at its front: "" for directory itself. NULL:
 * path is not in it. Compares text only. */
const char *path_behind(const char *path, const char *directory);

/* The last component of path, which points into it: all of it where there is no slash. */
const char *path_last(const char *path);

/* The bytes of path that are a directory which tools fill and can fill again (__pycache__,
 * node_modules); 0: it is in none. */
size_t path_cache_size(const char *path);

/* Removes the last component with the slash before it; returns whether there is one. */
bool path_cut_last(char *path);
