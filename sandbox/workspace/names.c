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
 * With --cow a change of any of them is applied only if it is named (protected.h).
 *
 * Not in the table is what somebody runs by its own name (Makefile, package.json), and data or text
 * for a model: .env, .python-version, README, CLAUDE.md, AGENTS.md, .cursorrules. A shell's own
 * files (.bashrc) are not either: the home directory is no workspace. */
#include "sandbox/workspace/state.h"

#include <assert.h>
#include <limits.h>
#include <string.h>
#include <strings.h>

#include "base/limits.h"
#include "base/path.h"
#include "base/word.h"
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

/* Row i of the whole table: a path such as "hooks/x", with at most one star in a component; NULL
 * after the last. Its first part is box_protected_name(). */
static const char *protected_name(unsigned i)
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

const char *box_protected_path(const struct box_spec *spec, const char *path)
{
    char straight[LIMIT_PATH_BYTES];
    char work[LIMIT_PATH_BYTES];
    const char *at = straight;
    path_fold(path, straight);
    path_fold(spec->paths.work, work);
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

/* Writes the first component of path as a file system that ignores case compares it: without
 * characters that it ignores, and with the two letters outside ASCII that become letters of ASCII
 * (Unicode, CaseFolding.txt). strcasecmp(3) does the rest. Windows, whose directories can be
 * mounted too, opens ".git", ".git. " and ".git:x" by one name ("Naming Files, Paths, and
 * Namespaces" of its documentation). */
static void fold(const char *path, char out[NAME_MAX + 1])
{
    size_t size = strcspn(path, "/");
    size_t used = 0;
    for (size_t at = 0; at < size && used < NAME_MAX;) {
        int length = utf8_size(path + at, size - at);
        uint32_t code = length > 0 ? utf8_code(path + at, length) : 0;
        if (code == 0x017f || code == 0x212a) {
            out[used++] = code == 0x017f ? 's' : 'k';
        } else if (code < 0x80 || !word_is_unseen(code)) {
            out[used++] = path[at];
            length = 1;
        }
        at += (size_t)(length > 0 ? length : 1);
    }
    out[used] = '\0';
    out[strcspn(out, ":")] = '\0';
    for (size_t end = strlen(out); end > 0 && strchr(" .", out[end - 1]); end--) {
        out[end - 1] = '\0';
    }
}

/* Windows' other name for a long one, or one that begins with a dot: "GIT~1", "PRE-CO~1.YAM". Which
 * it is for depends on what else is in the directory. */
static bool is_short_name(const char *name)
{
    enum { BASE = 8, SUFFIX = 4 };
    size_t base = strcspn(name, ".");
    size_t before = strcspn(name, "~");
    return before > 0 && before + 1 < base && base <= BASE && strlen(name + base) <= SUFFIX &&
           before + 1 + strspn(name + before + 1, "0123456789") == base;
}

/* Whether a folded name is the first part of a row, in which a star stands for anything. */
static bool is_like(const char *name, const char *row, size_t size)
{
    const char *star = memchr(row, '*', size);
    size_t length = strlen(name);
    size_t before = star ? (size_t)(star - row) : size;
    size_t after = star ? size - before - 1 : 0;
    return (star ? length >= before + after : length == size) &&
           strncasecmp(name, row, before) == 0 &&
           strncasecmp(name + length - after, row + size - after, after) == 0;
}

/* The bytes of path that are the row; 0: it begins with something else. first: the path's first
 * component, folded: once for all rows, because code chooses how long it is. */
static size_t match(const char *path, const char *first, const char *row)
{
    char name[NAME_MAX + 1];
    const char *at = path;
    for (const char *folded = first;; folded = name) {
        size_t size = strcspn(row, "/");
        if (!is_like(folded, row, size)) {
            return 0;
        }
        at += strcspn(at, "/");
        if (!row[size]) {
            return (size_t)(at - path);
        }
        row += size + 1;
        at += *at == '/';
        fold(at, name);
    }
}

bool refused_is_in(const char *path, const char *parent)
{
    return !*parent || path_behind(path, parent);
}

/* Whether one of the named paths, which has the changed one in it, names the row: the first size
 * bytes of path. */
static bool is_named(const char *path, size_t size, bool is_whole, const char *const *named,
                     size_t named_count)
{
    for (size_t i = 0; i < named_count; i++) {
        size_t length = strlen(named[i]);
        if (refused_is_in(path, named[i]) && (is_whole ? length == size : length >= size)) {
            return true;
        }
    }
    return false;
}

/* The row that begins at this component of the path. */
static const char *find_row(const char *at, bool is_top, unsigned flags, size_t *ret_size)
{
    char name[NAME_MAX + 1];
    fold(at, name);
    const char *any = NULL;
    for (unsigned i = 0; (any = protected_name(i)); i++) {
        *ret_size = match(at, name, any);
        if (*ret_size > 0) {
            return any;
        }
    }
    for (const char *const *row = protected_bare; (flags & REFUSED_BARE) && *row; row++) {
        *ret_size = match(at, name, *row);
        if (*ret_size > 0) {
            return *row;
        }
    }
    *ret_size = strcspn(at, "/");
    return is_short_name(name)                              ? "~1"
           : is_top && (flags & REFUSED_HOME) && *at == '.' ? "dot files"
                                                            : NULL;
}

static bool find_rule(const struct refused_rules *rules, const char *path, bool is_bare,
                      const char *const *named, size_t named_count, struct refused *ret)
{
    unsigned flags = rules->flags | (is_bare ? REFUSED_BARE : 0);
    for (const char *at = path; *at; at += *at == '/') {
        size_t size = 0;
        const char *row = find_row(at, at == path, flags, &size);
        size_t end = (size_t)(at - path) + size;
        bool is_git = row && strcmp(row, PROTECTED_GIT) == 0;
        if (row && !is_named(path, end, is_git, named, named_count)) {
            *ret = (struct refused){row, end};
            return true;
        }
        if (is_git) { /* all of it is open */
            break;
        }
        at += strcspn(at, "/");
    }
    return false;
}

bool refused_find(const struct refused_rules *rules, const char *path, bool is_bare,
                  const char *const *named, size_t named_count, struct refused *ret)
{
    const char *targets = buf_bytes(&rules->targets);
    bool is_refused = find_rule(rules, path, is_bare, named, named_count, ret);
    for (size_t at = 0; !is_refused && at < buf_size(&rules->targets);) {
        size_t length = strlen(targets + at);
        if (refused_is_in(path, targets + at) &&
            !is_named(path, length, /* is_whole= */ false, named, named_count)) {
            *ret = (struct refused){"target", length};
            is_refused = true;
        }
        at += length + 1;
    }
    return is_refused;
}

void refused_rules_done(struct refused_rules *rules)
{
    buf_done(&rules->targets);
}
