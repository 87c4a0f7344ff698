/* One program in several roles: what argv[0] names. */
#include <string.h>
#include <sys/prctl.h>

#include "sandbox/programs/roles.h"

int main(int argc, char **argv)
{
    /* Executing a program resets this, prctl(2). The guest can then neither trace this process nor
     * read its memory, descriptors or environment through /proc. */
    (void)prctl(PR_SET_DUMPABLE, 0);
    /* A program that is executed from a memfd is otherwise named by the descriptor's number. */
    (void)prctl(PR_SET_NAME, argv[0]);
    if (strcmp(argv[0], "sandpiper-cleanup") == 0) {
        return cleanup_main();
    }
    if (strcmp(argv[0], "sandpiper-apply") == 0) {
        return apply_main();
    }
    if (strcmp(argv[0], "sandpiper-tools") == 0) {
        return tools_main();
    }
    if (strcmp(argv[0], "sandpiper-monitor") == 0) {
        return monitor_main(argc, argv);
    }
    return init_main();
}
