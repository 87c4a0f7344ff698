#pragma once

/* The part of path behind directory, without slashes at its front: "" for directory itself. NULL:
 * path is not in it. Compares text only. */
const char *path_behind(const char *path, const char *directory);

/* Removes the last component with the slash before it, if there is one. */
void path_cut_last(char *path);
