"""One sentence that saves a round, for commands of the shell that fail."""
import os
import re
from os.path import basename, dirname, exists, join

hints = load("hints")
Pattern = load("pattern").Pattern
# Programs that fail in a sandbox without a network.
CLIENTS = Pattern(r"(?m)(?:^|[|&;(])\s*(?:(?:timeout\s+\S+|time|if|!|\w+=\S*)\s+)*(?:/\S*/)?(?:curl|wget|ssh|scp|sftp|ping|telnet|dig|nslookup|npx"
                  r"|git\s+(?:clone|fetch|pull|push|ls-remote)|(?:\S*python[\d.]*\s+-m\s+)?(?:uv\s+)?pip[\d.]*\s+(?:download|wheel|index)|(?:npm|yarn|pnpm|gem|cargo|go)\s+(?:i|ci|install|add|get|update|fetch))\b")
WITHOUT_PROXY = Pattern(r"\b(?:ssh|scp|sftp|ping|telnet|dig|nslookup)\b|\bgit@")
GIT = Pattern(r"(?m)(?:^|[|&;(])\s*git\s+(?!init\b|clone\b|config\b|version\b|help\b|--version)")
NO_REPOSITORY = ("no .git is in %s: if it belongs to a repository that begins above it, the user can give that directory as "
                 "--workspace")
LINKED = "the user can give that as --workspace, or with --mount; then git --git-dir=/data/%s%s --work-tree=. finds it"
PIP = Pattern(r"\bpip3?\s+install\b[^;|&]*?(?:\s(?:-e|--editable)\b|\s\.{0,2}/|\s\.(?:\[|\s|$))")
LOCAL = "pip builds without a network: --no-build-isolation --no-deps; or without pip, sys.path.insert(0, DIRECTORY)"
TRACERS = Pattern(r"(?m)(?:^|[|&;(])\s*(?:\w+=\S*\s+)*(?:/\S*/)?(?:gdb|lldb|strace|ltrace|py-spy)\b")
LOCALHOST = Pattern(r"localhost|127\.0\.0\.1|\[?::1\b|0\.0\.0\.0")


def hint_for(session, text):
    """What the failure of a command of the shell may mean, or None."""
    gone = hints.without_directory(session)
    if gone:
        return gone
    if "container" not in session.options and LOCALHOST.search(text):
        last = re.split(r"[;\n]", re.sub(r"[;\s]*(?:\bexit\b[^;\n]*)?$", "", text))[-1]
        return hints.NO_LISTENER if LOCALHOST.search(last) and re.search(r"\b(?:curl|wget)\b", last) else None
    if CLIENTS.search(text):
        return hints.no_network() if not hints.has_proxy() or WITHOUT_PROXY.search(text) else hints.NOT_ALLOWED + hints.ask_for_host()
    if PIP.search(text):
        return LOCAL
    found = GIT.search(text) and repository(session)
    if found:
        return found
    if TRACERS.search(text):
        return "the sandbox refuses ptrace, so gdb and strace cannot trace a process; faulthandler and pdb do without it"
    if "cow" in session.options and any(os.path.isdir(name) for names in re.findall(r"\bgit\s+mv\b([^;|&\n]*)", text) for name in names.split()[:-1]):
        return "where git says cross-device link, it cannot move a directory of the user's here: mv, then git add -A"
    return None


def repository(session):
    """Why git finds no repository where the user has one."""
    place = os.getcwd()
    while not os.path.lexists(join(place, ".git")):
        if place in (session.root, "/"):
            return NO_REPOSITORY % place if place != "/" and "workspace" in session.options else None
        place = dirname(place)
    try:
        with open(join(place, ".git"), encoding="utf-8", errors="replace") as file:
            found = re.match("gitdir: (.+)", file.read(5000))
    except OSError:  # as usual, it is a directory
        return None
    target = join(place, found[1]) if found else place
    if exists(target):
        return None
    if found[1][0] != "/":  # a submodule
        return NO_REPOSITORY % place
    main = target.partition("/.git/")[0]
    return "this is a linked worktree, and its repository, %r, is not in the sandbox: %s" % (
        main[:200], LINKED % (basename(main), target[len(main):]))
