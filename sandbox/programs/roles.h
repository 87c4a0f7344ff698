#pragma once
#include <stdbool.h>
#include <stdint.h>

/* What the program of init, keeper, monitor, cleanup helper, applying process and tool servers'
 * parent does in each role. */
int init_main(void);
int apply_main(void);
int cleanup_main(void);
/* Removes name in parent_fd with all that is in it, however deep, whatever its modes, and while
 * others may still be writing to it. Follows no path and no symlink. Returns whether it is gone. */
bool tree_remove(int parent_fd, const char *name);
int monitor_main(int argc, char **argv);
int tools_main(void);

/* The keeper is not executed: it is a fork of init. */
struct keeper_setup {
    int socket_fd;           /* requests of the server */
    int greet_fd;            /* see wire_touch; and that of init: */
    int touch_fd;            /* or -1 */
    const uint32_t *answers; /* with touch_fd: how many touches of each number are answered */
    int watch_fd;            /* an inotify instance, or with touch_fd an eventfd(2); or -1 */
    int output_fd;           /* the directory of overflow files; or -1 */
    const char *work;
    uint32_t cow; /* enum wire_cow */
    bool own;     /* the workspace is the sandbox's own */
    bool again;   /* another one has died, so what the user's files were before is unknown */
    uint64_t limit_bytes;
};
__attribute__((noreturn)) void keeper_main(const struct keeper_setup *setup);
