/* Whether all that is in a directory is known, before it moves back with it. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/own.h"
#include "sandbox/programs/keeper/edits_trial.h"

struct looking {
    const struct keeper *keeper;
    int64_t since_ns;
    bool as_known;
    unsigned depth;
    char path[KEEPER_PATH_BYTES];
};

static void look_into(struct looking *looking, int fd);

/* Whether the path is the directory, or a name in it. */
static bool is_at(const char *path, const char *directory, size_t size)
{
    return path && strncmp(path, directory, size) == 0 &&
           (!path[size] || strrchr(path, '/') == path + size);
}

/* Whether an edit is known of something in the directory, also when that had another name, or of
 * itself. */
static bool has_edit(const struct keeper *keeper, const char *path, uint64_t inode)
{
    size_t size = strlen(path);
    for (const struct state *state = keeper->states; state; state = state->next) {
        for (size_t i = 0; i < state->edits.count; i++) {
            const struct edit *edit = state->edits.list[i];
            if (edit->parent == inode || edit->to->facts.inode == inode ||
                is_at(edit->path, path, size) || is_at(edit->target, path, size)) {
                return true;
            }
        }
    }
    return false;
}

static void check_entry(struct looking *looking, int dir_fd, const char *name)
{
    struct stat st;
    size_t size = strlen(looking->path);
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        size + strlen(name) + 2 > sizeof looking->path) {
        looking->as_known = false;
        return;
    }
    struct apply_facts facts = apply_facts_of(&st);
    bool is_old = facts.ctime_ns < looking->since_ns;
    if (!S_ISDIR(st.st_mode)) {
        const struct version *version = version_known(looking->keeper, &facts);
        looking->as_known = is_old || (version && version->found_ns < looking->since_ns);
        return;
    }
    (void)snprintf(looking->path + size, sizeof looking->path - size, "/%s", name);
    if (is_old || has_edit(looking->keeper, looking->path, facts.inode)) {
        look_into(looking, openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    } else {
        looking->as_known = false; /* it may have been moved here */
    }
    looking->path[size] = '\0';
}

/* Takes the descriptor. One for each level is open: there is a bound. */
static void look_into(struct looking *looking, int fd)
{
    defer_closedir DIR *directory = fd_directory(fd);
    const char *name = NULL;
    looking->as_known = looking->as_known && directory && looking->depth < KEEPER_DEPTH;
    looking->depth++;
    while (looking->as_known && (name = fd_next_name(directory))) {
        check_entry(looking, fd, name);
    }
    looking->depth--;
}

bool edits_is_as_known(const struct keeper *keeper, const char *path, int64_t since_ns)
{
    struct looking looking = {.keeper = keeper, .since_ns = since_ns, .as_known = true};
    (void)snprintf(looking.path, sizeof looking.path, "%s", path);
    look_into(&looking, fd_open_beneath(keeper->work_fd, path, O_RDONLY | O_DIRECTORY));
    return looking.as_known;
}
