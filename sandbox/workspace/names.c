/* The names that make programs outside execute something: one table, in two parts.
 *
 * The first part is read-only in a workspace that is written through: a program executes the file,
 * or another program that the file names, without anybody starting it: when the directory is opened
 * or entered, at a shell's prompt, at `git status`, or because a running client reads the file
 * again.
 *
 * The names of the second part act when the user starts git, a package manager, Python or an editor
 * that asks, or a service runs them after a push; or they have a star. Code may write them.
 *
 * With --cow a change of any of them is applied only if it is named (refused.h).
 *
 * Not in the table is what somebody runs by its own name (Makefile, package.json), and data or text
 * for a model: .env, .python-version, README, CLAUDE.md, AGENTS.md, .cursorrules. A shell's own
 * files (.bashrc) are not either: the home directory is no workspace. */
#include "sandbox/workspace/names.h"

#include <assert.h>
#include <string.h>
#include <strings.h>

#include "base/limits.h"
#include "base/path.h"
#include "sandbox/spec/spec.h"
#include "sandbox/types.h"
#include "sandbox/workspace/protected.h"

static const char *const rows[] = {
    /* git, which editors and prompts run: hooks; fsmonitor, pager and filters; where else to find
     * these */
    ".git", /* the file of a worktree or a submodule */
    ".git/hooks",
    ".git/config",
    ".git/config.worktree",
    ".git/commondir",
    ".hg/hgrc",
    ".hg/hgrc-not-shared",
    ".hg/sharedpath",
    /* hooks that a repository has in its tree */
    ".githooks",
    ".husky",
    ".pre-commit-config.yaml",
    "lefthook.yml",
    ".lefthook.yml",
    "lefthook-local.yml",
    "lefthook.yaml",
    ".lefthook.yaml",
    "lefthook.toml",
    "lefthook.json",
    /* shells: at the prompt, or by a shim in PATH (direnv, mise, asdf) */
    ".envrc",
    ".mise.toml",
    "mise.toml",
    ".mise.local.toml",
    "mise.local.toml",
    ".mise/config.toml",
    "mise/config.toml",
    ".config/mise.toml",
    ".config/mise",
    ".tool-versions",
    ".rtx.toml",
    ".autoenv",
    ".autoenv.zsh",
    /* editors: tasks, interpreters, servers, containers */
    ".vscode",
    ".idea",
    ".zed",
    ".devcontainer",
    ".devcontainer.json",
    ".helix",
    ".vs",
    ".fleet",
    /* MCP clients: servers and hooks that they start, permissions that they grant */
    ".mcp.json",
    ".claude",
    ".codex",
    ".agents",
    ".cursor",
    ".gemini",
    ".opencode",
    "opencode.json",
    "opencode.jsonc",
    ".github/hooks",
    ".amazonq",
    ".kiro",
    ".roo",
    ".windsurf",
    ".continue",
    ".kilocode",
    ".trae",
    ".qwen",
    ".junie",
    ".factory",
    "crush.json",
};
enum { ROWS = sizeof rows / sizeof *rows };
static_assert((unsigned)ROWS <= PROTECTED_ROWS);

static const char *const others[] = {
    ".gitmodules",
    ".gitattributes",
    /* what a service runs after a push */
    ".github/workflows",
    ".github/actions",
    ".gitea/workflows",
    ".forgejo/workflows",
    ".circleci",
    ".gitlab-ci.yml",
    ".travis.yml",
    "Jenkinsfile",
    "azure-pipelines.yml",
    ".drone.yml",
    ".woodpecker",
    ".woodpecker.yml",
    ".woodpecker.yaml",
    ".buildkite",
    /* package managers and build tools: commands and plug-ins that each use runs */
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pnpmfile.cjs",
    "bunfig.toml",
    ".cargo/config",
    ".cargo/config.toml",
    /* hooks that a repository has in its tree, also by their other names */
    "lefthook.*",
    ".lefthook.*",
    "lefthook-local.*",
    ".lefthook-local.*",
    /* shells, at the prompt or by a shim */
    "mise.*.toml",
    ".mise.*.toml",
    "mise/config.*",
    ".mise/config.*",
    /* editors and what they start */
    ".dir-locals.el",
    ".dir-locals-2.el",
    ".exrc",
    ".nvim.lua",
    ".nvimrc",
    ".vimrc",
    "*.code-workspace",
    /* assistants: servers, hooks and permissions */
    ".crush.json",
    ".aider.conf.yml",
    /* Python, when it starts: in any form that it imports, and what an environment runs */
    "sitecustomize",
    "sitecustomize.*",
    "usercustomize",
    "usercustomize.*",
    "*.pth",
    "pyvenv.cfg",
    ".venv/bin",
    ".venv/Scripts",
    "venv/bin",
    "venv/Scripts",
};
enum { OTHERS = sizeof others / sizeof *others };

/* Of a git repository that has no .git. The last three make one of a directory that has the others
 * already. */
const char *const protected_bare[] = {
    "hooks", "config", "config.worktree", "commondir", "HEAD", "objects", "refs", NULL};

const char *box_protected_name(unsigned i)
{
    return i < ROWS ? rows[i] : NULL;
}

const char *protected_name(unsigned i)
{
    return i < ROWS ? rows[i] : i < ROWS + OTHERS ? others[i - ROWS] : NULL;
}

uint64_t box_protected_find(const char *word, size_t size)
{
    bool all = size == 3 && memcmp(word, "all", 3) == 0;
    bool links = size == 10 && memcmp(word, "hard-links", 10) == 0;
    uint64_t bits = all || links ? 1ULL << PROTECTED_LINKS : 0;
    for (unsigned i = 0; i < ROWS; i++) {
        bool named = strncmp(rows[i], word, size) == 0 && size > 0 &&
                     (rows[i][size] == '\0' || rows[i][size] == '/');
        bits |= all || named ? 1ULL << i : 0;
    }
    return bits;
}

bool protected_begins(unsigned row, const char *name, const char **ret_rest)
{
    size_t size = strcspn(rows[row], "/");
    if (strncasecmp(rows[row], name, size) != 0 || name[size] != '\0') {
        return false;
    }
    *ret_rest = rows[row][size] ? rows[row] + size + 1 : "";
    return true;
}

/* Whether path and want have the same first component; a slash can end either. */
static bool is_component(const char *path, const char *want)
{
    size_t size = strcspn(want, "/");
    return strncasecmp(path, want, size) == 0 && (path[size] == '/' || path[size] == '\0');
}

/* Whether path, at a component, names the row or something in it. */
static bool is_row(const char *path, const char *row)
{
    const char *rest = strchr(row, '/');
    if (!is_component(path, row)) {
        return false;
    }
    const char *at = path + strcspn(path, "/");
    if (!rest) { /* for .git itself, only if it is a file */
        return strcmp(row, PROTECTED_GIT) != 0 || at[strspn(at, "/")] == '\0';
    }
    /* A submodule's git directory lies anywhere below its repository's. */
    bool anywhere = strncmp(row, PROTECTED_GIT "/", sizeof PROTECTED_GIT) == 0;
    do {
        at += strspn(at, "/");
        if (is_component(at, rest + 1)) {
            return true;
        }
        at += strcspn(at, "/");
    } while (anywhere && *at);
    return false;
}

/* Resolves "." and ".." as if there were no symlinks. */
static void straighten(const char *path, char out[LIMIT_PATH_BYTES])
{
    size_t used = 0;
    while (*path) {
        path += strspn(path, "/");
        size_t size = strcspn(path, "/");
        if (size == 2 && memcmp(path, "..", 2) == 0) {
            while (used > 0 && out[--used] != '/') {
            }
        } else if (size > 0 && !(size == 1 && *path == '.') && used + size + 2 < LIMIT_PATH_BYTES) {
            out[used++] = '/';
            memcpy(out + used, path, size);
            used += size;
        }
        path += size;
    }
    out[used] = '\0';
}

const char *box_protected_path(const struct box_spec *spec, const char *path)
{
    char straight[LIMIT_PATH_BYTES];
    char work[LIMIT_PATH_BYTES];
    const char *at = straight;
    straighten(path, straight);
    straighten(spec->paths.work, work);
    if (*path == '/') {
        const char *rest = path_behind(straight, work);
        at = rest ? rest : "";
    }
    if (!box_spec_is_written_through(spec)) {
        return NULL;
    }
    for (; *at; at += strcspn(at, "/")) {
        at += strspn(at, "/");
        for (unsigned i = 0; i < ROWS; i++) {
            if (!protected_is_open(spec->allow_write, i) && is_row(at, rows[i])) {
                return rows[i];
            }
        }
    }
    return NULL;
}
