#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

static pid_t test;

/* Only a child of the test: the tests also make orphans. */
static void end_with_test(void)
{
    if (getppid() == test) {
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    }
}

/* A helper process must not go on when its test fails, is killed, or runs out of time. */
[[gnu::constructor]] static void arrange(void)
{
    test = getpid();
    (void)pthread_atfork(NULL, NULL, end_with_test);
}
