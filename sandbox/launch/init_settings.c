#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/parse.h"
#include "sandbox/box/box.h"
#include "sandbox/host/host_facts.h"
#include "sandbox/launch/launch.h"
#include "sandbox/policy/filter.h"
#include "sandbox/spec/spec.h"

/* Whether init must count what code writes. It always checks an installer's staging directory. */
static bool counts_scratch(const struct box *box)
{
    return box->spec->scratch && !box->installer;
}

static int config_strings(const struct box *box, struct wire_config *config, struct buf *out)
{
    const struct plan *plan = &box->plan;
    const struct box_paths *paths = &box->spec->paths;
    bool counts = counts_scratch(box);
    for (const char *const *text = plan->argv; *text; text++, config->argc++) {
        buf_append(out, *text, strlen(*text) + 1);
    }
    for (const char *const *text = plan->envp; *text; text++, config->envc++) {
        buf_append(out, *text, strlen(*text) + 1);
    }
    for (unsigned i = 0; i < plan->data_count; i++, config->datac++) {
        buf_append(out, plan->data[i], strlen(plan->data[i]) + 1);
    }
    for (unsigned i = 0; i < plan->rule_count; i++) {
        buf_append(out, plan->rules[i].path, strlen(plan->rules[i].path) + 1);
    }
    const char *const shown[] = {paths->work, paths->tmp, box->installer ? paths->staging : "",
                                 box->egress.path, counts ? paths->output : "",
                                 /* those that count for the disk limit */
                                 counts ? paths->tmp : "", counts ? paths->home : "",
                                 counts && !box->spec->workspace ? paths->work : "",
                                 counts ? paths->output : ""};
    for (unsigned i = 0; i < sizeof shown / sizeof *shown; i++) {
        buf_append(out, shown[i], strlen(shown[i]) + 1);
    }
    return buf_error(out);
}

static int write_rights(int fd, const struct plan *plan)
{
    uint64_t rights[PLAN_RULES];
    for (unsigned i = 0; i < plan->rule_count; i++) {
        rights[i] = plan->rules[i].allowed;
    }
    return fd_write_all(fd, rights, plan->rule_count * sizeof *rights);
}

static int write_filter(int fd, const struct filter_program *filter)
{
    return fd_write_all(fd, filter->program, filter->count * sizeof *filter->program);
}

static void release_filter(struct filter_program *filter)
{
    free(filter->program);
}

struct rlimit_sizes config_sizes(const struct box *box)
{
    const struct plan *plan = &box->plan;
    const struct box_limits *limits = &box->spec->limits;
    bool guards = plan->level == BOX_CONTAINER;
    /* Beside a control group it keeps code from what LIMIT_PIDS_SPARE is for. */
    bool counted = (guards && !plan->own_uid) ||
                   (cgroup_has(&box->cgroup, CGROUP_PIDS) && host_counts_outside());
    return (struct rlimit_sizes){.file_bytes = limits->disk_bytes,
                                 .data_bytes = guards ? 2 * limits->memory_bytes : 0,
                                 .pids_max = counted ? 0 : limits->pids + LIMIT_PIDS_SPARE};
}

uint64_t config_epoll_item_bytes(const struct box_limits *limits)
{
    enum { LEAST = 256, SHARE = 4 };
    char text[32] = "";
    uint64_t most = 0;
    (void)fd_read_text_at(AT_FDCWD, "/proc/sys/fs/epoll/max_user_watches", text, sizeof text);
    text[strcspn(text, "\n")] = '\0';
    uint64_t bytes =
        parse_u64(text, &most) == 0 && most > 0 ? limits->memory_bytes / most * SHARE : 0;
    return bytes > LEAST ? bytes : LEAST;
}

int config_write(const struct box *box, int fd, struct fail *ret_fail)
{
    OWNED(release_filter) struct filter_program uncounted = {};
    OWNED(buf_done) struct buf strings = BUF_EMPTY;
    const struct plan *plan = &box->plan;
    const struct box_limits *limits = &box->spec->limits;
    const struct rlimit_sizes sizes = config_sizes(box);
    bool guards = plan->level == BOX_CONTAINER;
    struct wire_config config = {
        .magic = WIRE_CONFIG_MAGIC,
        .filter_notified_count = plan->filter_notified.count,
        .filter_arguments_count = plan->filter_arguments.count,
        .filter_names_count = plan->filter_names.count,
        .rule_count = plan->rule_count,
        .pids_max = sizes.pids_max,
        .watch_memory_bytes = cgroup_has(&box->cgroup, CGROUP_MEMORY) ? 0 : limits->memory_bytes,
        .uncounted_bytes = cgroup_has(&box->cgroup, CGROUP_MEMORY) ? limits->memory_bytes : 0,
        .inet_bytes = cgroup_uncounted_inet(&box->cgroup),
        .epoll_item_bytes = config_epoll_item_bytes(limits),
        .staging_bytes = box->installer ? box->spec->packages_bytes : 0,
        .disk_bytes = counts_scratch(box) ? limits->disk_bytes : 0,
        .disk_inodes = limits->disk_inodes,
        .file_bytes = sizes.file_bytes,
        .data_bytes = sizes.data_bytes,
        .guards = guards,
        .guest_uid = plan->outside_uid,
        .guest_gid = plan->outside_gid,
        .tasks_max = guards && !sizes.pids_max ? limits->pids : 0,
        .asks_of_writes = plan->asks_of_writes,
        .own_workspace = !box->spec->workspace,
        .undo_files_bytes = box_spec_undo_files_bytes(box->spec),
        .landlock_optional = (box->spec->allow_degraded & 1U << BOX_PROTECTION_LANDLOCK) != 0,
        .cow = plan->cow,
        .processors = plan->processors,
    };
    int r = config.watch_memory_bytes ? filter_build_uncounted(&uncounted, ret_fail) : 0;
    if (r < 0) {
        return r;
    }
    config.filter_uncounted_count = uncounted.count;
    r = config_strings(box, &config, &strings);
    r = r ? r : fd_write_all(fd, &config, sizeof config);
    r = r ? r : write_rights(fd, plan);
    r = r ? r : write_filter(fd, &plan->filter_notified);
    r = r || !uncounted.count ? r : write_filter(fd, &uncounted);
    r = r ? r : write_filter(fd, &plan->filter_arguments);
    r = r ? r : write_filter(fd, &plan->filter_names);
    r = r ? r : fd_write_all(fd, buf_bytes(&strings), buf_size(&strings));
    return r < 0 ? fail_set(ret_fail, -r, "init's settings") : 0;
}
