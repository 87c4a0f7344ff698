/* One program in several roles: what argv[0] names. */
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>

#include "sandbox/programs/roles.h"

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } helpers[] = {{"sandpiper-cleanup", cleanup_main},
                   {"sandpiper-apply", apply_main},
                   {"sandpiper-tools", tools_main}};
    /* Executing a program resets this, prctl(2). The guest can then neither trace this process nor
     * read its memory, descriptors or environment through /proc. */
    (void)prctl(PR_SET_DUMPABLE, 0);
    /* A program that is executed from a memfd is otherwise named by the descriptor's number. */
    (void)prctl(PR_SET_NAME, argv[0]);
    for (unsigned i = 0; i < sizeof helpers / sizeof *helpers; i++) {
        if (strcmp(argv[0], helpers[i].name) == 0) {
            /* They end with their sockets. A limit of file sizes (RLIMIT_FSIZE) is then EFBIG and
             * ends what they write, and not them. */
            for (int number = 1; number < 32; number++) {
                (void)sigaction(number, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
            }
            return helpers[i].run();
        }
    }
    return strcmp(argv[0], "sandpiper-monitor") == 0 ? monitor_main(argc, argv) : init_main();
}
