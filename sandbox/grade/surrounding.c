#include "sandbox/grade/surrounding.h"

enum box_isolation surrounding_choose(enum box_isolation wish, bool namespaces)
{
    if (wish != BOX_ISOLATION_BEST) {
        return wish;
    }
    return namespaces ? BOX_ISOLATION_AUTO : BOX_ISOLATION_CONTAINER;
}

enum box_profile surrounding_expect(enum box_isolation wish)
{
    return wish == BOX_ISOLATION_CONTAINER ? BOX_CONTAINER : BOX_FULL;
}

enum box_profile surrounding_found(enum box_profile expected, bool has_proc)
{
    return expected == BOX_FULL && !has_proc ? BOX_FULL_WITHOUT_PROC : expected;
}

bool surrounding_spares_proc(enum box_isolation wish)
{
    return wish == BOX_ISOLATION_AUTO;
}
