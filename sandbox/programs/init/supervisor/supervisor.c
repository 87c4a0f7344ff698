/* Where a sandbox has no pid namespace, init is its supervisor: an ordinary process, but a
 * subreaper, so that all that the guest starts stays below it, and nothing is left when it has no
 * child left. It has no privileges either. If the server could assign uids, it has the guest's,
 * except for the real and the saved one: so it can do to the guest what the guest can, and the
 * guest can neither signal nor trace it. It requests no death signal, because it must kill the
 * others before it exits: the end of its socket notifies it.
 *
 * It has a Landlock domain of its own, with the guest's rights, overflow files and /proc, so that
 * the file tools and the calls that it carries out for the guest (notify.h) reach no more than the
 * guest. */
#include <unistd.h>

#include "sandbox/programs/init/init.h"

enum { OWN_RULES = 3 };

/* Grants RESOLVE_UNIX: this process connects for the guest, after it has checked the target. */
static int confine_self(const struct init *init)
{
    struct landlock_rule rules[INIT_RULES + OWN_RULES];
    unsigned count = 0;
    for (; count < init->rule_count; count++) {
        rules[count] = init->rules[count];
        if (rules[count].allowed & LANDLOCK_FS_MAKE_SOCK) {
            rules[count].allowed |= LANDLOCK_FS_RESOLVE_UNIX;
        }
    }
    rules[count++] = (struct landlock_rule){"/proc", LANDLOCK_RULE_READ | LANDLOCK_FS_WRITE_FILE};
    rules[count++] =
        (struct landlock_rule){init->paths.output, LANDLOCK_RULE_WRITE | LANDLOCK_RULE_STRAIGHT};
    if (init->paths.egress[0]) {
        rules[count++] = (struct landlock_rule){init->paths.egress, LANDLOCK_FS_RESOLVE_UNIX};
    }
    return landlock_confine(rules, count, LANDLOCK_NO_TCP);
}

enum wire_step supervisor_begin(struct init *init)
{
    const struct notify_settings settings = {.rules = init->rules,
                                             .rule_count = init->rule_count,
                                             .egress_path = init->paths.egress,
                                             .file_bytes = init->config->file_bytes,
                                             .tasks_max = init->config->tasks_max,
                                             .root = getpid()};
    init->processes.root = settings.root;
    if (confine_self(init) < 0) {
        return WIRE_STEP_LANDLOCK;
    }
    return notify_open(&init->notify, &settings) < 0 ? WIRE_STEP_LISTENER : WIRE_STEP_NONE;
}
