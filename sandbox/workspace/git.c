/* What git's configuration and files refer to: directories of hooks, included files, other git
 * directories. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/fd.h"
#include "base/own.h"
#include "sandbox/workspace/state.h"

enum { INCLUDES = 4, CONFIG_BYTES = 1 << 16 };

static bool is_open(const struct walk *walk, const char *name)
{
    uint64_t bits = box_protected_find(name, strlen(name));
    return (walk->open & bits) == bits;
}

/* Reads a file's text without its last line feed. */
static bool read_file(struct walk *walk, struct spot spot, char *text, size_t size)
{
    defer_close int fd = fd_open_beneath(spot.root_fd, spot.path, O_RDONLY | O_NONBLOCK);
    ssize_t got = fd < 0 ? -1 : fd_pread_all(fd, text, size - 1, 0);
    text[got > 0 ? got : 0] = '\0';
    walk->found->incomplete |= got == (ssize_t)size - 1;
    if (got > 0 && text[got - 1] == '\n') {
        text[got - 1] = '\0';
    }
    return got > 0;
}

/* The value of "key = value", in place, as git-config(1) describes it, or NULL: the line has
 * another key. */
static char *value_of(char *line, const char *key)
{
    size_t size = strlen(key);
    bool quoted = false;
    if (strncasecmp(line, key, size) != 0 || line[size + strspn(line + size, " \t")] != '=') {
        return NULL;
    }
    char *value = strchr(line, '=') + 1;
    value += strspn(value, " \t");
    char *end = value;
    char *kept = value;
    for (const char *at = value; *at && *at != '\r' && (quoted || !strchr("#;", *at)); at++) {
        if (*at == '"') {
            quoted = !quoted;
        } else {
            at += *at == '\\' && at[1];
            *end++ = *at;
        }
        kept = quoted || !strchr(" \t", *at) ? end : kept;
    }
    *kept = '\0';
    return value;
}

static void take_config(struct walk *walk, const char *tree, struct spot spot, unsigned depth);

/* [include] and [includeIf]: relative to the file that has the line. Covers the file whether the
 * condition holds or not. */
static void take_include(struct walk *walk, const char *tree, struct spot spot, const char *value,
                         unsigned depth)
{
    char directory[PATH_MAX];
    const char *slash = strrchr(spot.path, '/');
    int size = slash ? (int)(slash - spot.path) : 0;
    (void)snprintf(directory, sizeof directory, "%.*s", size, spot.path);
    if (spot.root_fd == walk->root_fd && walk_protect_named(walk, directory, value, &spot)) {
        take_config(walk, tree, spot, depth + 1);
    }
}

/* The directory of core.hooksPath. The top directory itself cannot be read-only: there each name
 * that git runs is, if it exists, githooks(5). */
static void take_hooks(struct walk *walk, const char *tree, const char *hooks)
{
    static const char *const names[] = {
        "applypatch-msg",     "pre-applypatch",
        "post-applypatch",    "pre-commit",
        "pre-merge-commit",   "prepare-commit-msg",
        "commit-msg",         "post-commit",
        "pre-rebase",         "post-checkout",
        "post-merge",         "pre-push",
        "pre-receive",        "update",
        "proc-receive",       "post-receive",
        "post-update",        "push-to-checkout",
        "pre-auto-gc",        "post-rewrite",
        "sendemail-validate", "fsmonitor-watchman",
        "post-index-change",  "reference-transaction",
    };
    struct spot spot;
    if (!walk_follow(walk, tree, hooks, &spot)) {
        return;
    }
    if (*spot.path) {
        (void)walk_protect_named(walk, tree, hooks, &spot);
        return;
    }
    for (unsigned i = 0; spot.root_fd == walk->root_fd && i < sizeof names / sizeof *names; i++) {
        (void)walk_protect_named(walk, "", names[i], &spot);
    }
}

static void take_config(struct walk *walk, const char *tree, struct spot spot, unsigned depth)
{
    static char texts[INCLUDES][CONFIG_BYTES];
    char *state = NULL;
    bool include = false;
    if (depth >= INCLUDES || !read_file(walk, spot, texts[depth], CONFIG_BYTES)) {
        return;
    }
    char *line = strtok_r(texts[depth], "\n", &state);
    for (; line; line = strtok_r(NULL, "\n", &state)) {
        line += strspn(line, " \t");
        char *close = *line == '[' ? strchr(line, ']') : NULL;
        if (close) {
            include = strncasecmp(line + 1, "include", 7) == 0;
            line = close + 1 + strspn(close + 1, " \t");
        }
        const char *hooks = is_open(walk, ".git/hooks") ? NULL : value_of(line, "hookspath");
        const char *path = include && !is_open(walk, ".git/config") ? value_of(line, "path") : NULL;
        if (hooks && *hooks) { /* relative to where hooks run: the tree */
            take_hooks(walk, tree, hooks);
        } else if (path && *path) {
            take_include(walk, tree, spot, path, depth);
        }
    }
}

void walk_protect_git(struct walk *walk, const char *path)
{
    const char *rest = NULL;
    for (unsigned i = 0; box_protected_name(i); i++) {
        if (protected_begins(i, PROTECTED_GIT, &rest) && *rest &&
            !protected_is_open(walk->open, i)) {
            const char *name = walk_keep(walk, path, rest);
            if (name) {
                walk_protect_any(walk, name);
            }
        }
    }
}

static void take_one(struct walk *walk, const char *tree, const char *path)
{
    static const char *const configs[] = {"config", "config.worktree"};
    (void)walk_protect(walk, path, /* writable= */ true, /* want_directory= */ true);
    walk_protect_git(walk, path);
    for (unsigned i = 0; i < 2; i++) {
        const char *config = walk_keep(walk, path, configs[i]);
        if (config) {
            take_config(walk, tree, (struct spot){walk->root_fd, config, false}, 0);
        }
    }
}

void walk_take_git(struct walk *walk, const char *tree, const char *path)
{
    char text[PATH_MAX];
    struct spot spot;
    const char *common = walk_keep(walk, path, "commondir"); /* gitrepository-layout(5) */
    take_one(walk, tree, path);
    if (common && read_file(walk, (struct spot){walk->root_fd, common, false}, text, sizeof text) &&
        walk_follow(walk, path, text, &spot) && spot.root_fd == walk->root_fd) {
        take_one(walk, tree, spot.path);
    }
}

void walk_take_git_file(struct walk *walk, const char *tree, const char *path)
{
    static const char key[] = "gitdir:";
    char text[PATH_MAX];
    struct spot spot = {walk->root_fd, path, false};
    if (read_file(walk, spot, text, sizeof text) && strncmp(text, key, sizeof key - 1) == 0 &&
        walk_follow(walk, tree, text + sizeof key - 1 + strspn(text + sizeof key - 1, " "),
                    &spot) &&
        spot.root_fd == walk->root_fd) {
        walk_take_git(walk, tree, spot.path);
    }
}
