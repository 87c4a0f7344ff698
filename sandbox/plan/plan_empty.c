/* Plans with an empty root, for processes that need no files. */
#include <linux/mount.h>
#include <sched.h>
#include <stddef.h>

#include "sandbox/plan/plan_parts.h"

/* A root that holds only /dev/null. */
static void add_empty_root(struct plan *plan, const char *hostname)
{
    static const char null[] = "/dev/null";
    plan->tree_count = 1;
    plan_add(plan, PLAN_OPEN_TREE, null, NULL);
    plan_add(plan, PLAN_IDENTITY, NULL, NULL);
    plan_add(plan, PLAN_SESSION, NULL, NULL);
    plan_add(plan, PLAN_HOSTNAME, hostname, NULL)->optional = true;
    plan_add(plan, PLAN_PRIVATE, NULL, NULL);
    plan_add(plan, PLAN_ROOT, NULL, NULL)->data = "size=64k,nr_inodes=16,mode=0755";
    plan_add(plan, PLAN_DIRECTORY, NULL, "/work"); /* PLAN_PIVOT changes to it */
    plan_add(plan, PLAN_MOVE, null, null)->attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC;
    plan_add(plan, PLAN_READ_ONLY_ROOT, NULL, NULL);
    plan_add(plan, PLAN_PIVOT, NULL, NULL);
}

void plan_build_namespace_check(const struct host_facts *facts, struct plan *plan)
{
    *plan = (struct plan){.namespaces = PLAN_NAMESPACES | CLONE_NEWNET};
    plan_choose_ids(plan, facts, /* installer= */ false);
    add_empty_root(plan, BOX_HOSTNAME);
    plan_add(plan, PLAN_GROUP, NULL, NULL);
    plan_add(plan, PLAN_CGROUP_NAMESPACE, NULL, NULL);
}

void plan_build_proxy(const struct host_facts *facts, struct plan *plan)
{
    *plan = (struct plan){};
    plan->namespaces = PLAN_NAMESPACES; /* the proxy uses the host's network */
    plan_choose_ids(plan, facts, /* installer= */ false);
    add_empty_root(plan, "egress");
    plan_add_locks(plan, /* trusted= */ true);
    plan_add(plan, PLAN_EXECUTE, "sandpiper-proxy", NULL);
}
