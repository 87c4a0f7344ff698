/* A program of the build: writes the filters that depend on the architecture alone, as C. They need
 * this machine's headers and the target's libseccomp, and no kernel. */
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>

#include "sandbox/policy/filter.h"

static void print(unsigned row, const struct filter_program *filter)
{
    printf("static struct sock_filter steps_%u[] = {\n", row);
    for (unsigned i = 0; i < filter->count; i++) {
        const struct sock_filter *step = &filter->program[i];
        printf("    {%u, %u, %u, %#xU},\n", step->code, step->jt, step->jf, step->k);
    }
    printf("};\n");
}

int main(void)
{
    struct filter_program filters[MADE_FILTERS] = {};
    struct fail fail = {};
    int r = seccomp_api_set(3); /* or libseccomp asks the kernel what it has */
    r = r ? r : filter_build_init(&filters[MADE_INIT], &fail);
    r = r ? r : filter_build_names(&filters[MADE_NAMES], &fail);
    r = r ? r : filter_build_arguments(/* landlock= */ false, &filters[MADE_ARGUMENTS], &fail);
    r = r ? r : filter_build_arguments(/* landlock= */ true, &filters[MADE_WITH_LANDLOCK], &fail);
    printf("#include \"sandbox/policy/filter.h\"\n");
    for (unsigned i = 0; r == 0 && i < MADE_FILTERS; i++) {
        print(i, &filters[i]);
        free(filters[i].program);
    }
    printf("const struct filter_program made_filters[MADE_FILTERS] = {\n");
    for (unsigned i = 0; r == 0 && i < MADE_FILTERS; i++) {
        printf("    {.program = steps_%u, .count = %u},\n", i, filters[i].count);
    }
    printf("};\n");
    return r < 0 || fflush(stdout) < 0;
}
