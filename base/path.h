#pragma once

/* The part of path behind directory, without slashes at its front: "" for directory itself. NULL:
 * path is not in it. Compares text only. */
const char *path_behind(const char *path, const char *directory);
