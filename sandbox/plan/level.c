#include "sandbox/plan/level.h"

enum box_isolation level_choose(enum box_isolation requested, bool namespaces)
{
    if (requested != BOX_ISOLATION_BEST) {
        return requested;
    }
    return namespaces ? BOX_ISOLATION_AUTO : BOX_ISOLATION_CONTAINER;
}

enum box_level level_expected(enum box_isolation requested)
{
    return requested == BOX_ISOLATION_CONTAINER ? BOX_CONTAINER : BOX_FULL;
}

enum box_level level_found(enum box_level expected, bool has_proc)
{
    return expected == BOX_FULL && !has_proc ? BOX_FULL_WITHOUT_PROC : expected;
}

bool level_spares_proc(enum box_isolation requested)
{
    return requested == BOX_ISOLATION_AUTO;
}
