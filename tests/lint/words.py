"""Refuse retired words in names, comments, messages and documents: docs/GLOSSARY.md has the terms.

    words.py SOURCE_ROOT

Each row of the table has a text that it must refuse and, where the word has another sense, a text that it must
accept. Every run tries these first, so a row that refuses nothing fails the check.
"""
import pathlib
import re
import sys
from typing import NamedTuple

from rules import BINARY, tracked


class Row(NamedTuple):
    pattern: str          # in lower case: of a word, or of a part of an identifier
    use: str              # what to write
    refused: str          # a text that the row must refuse
    accepted: str = ""    # a text that it must accept
    files: str = ""       # pattern of the paths to which the row applies; empty: all
    outside: str = "$^"   # pattern of the paths to which it does not apply


BEGIN, END = "(?<![a-z])(?:", ")(?![a-z])"


def word(*forms):
    """A whole word: letters end it, and `_` and digits do not belong to it."""
    return BEGIN + "|".join(forms) + END


def part(name):
    """A part of an identifier that has other parts."""
    return rf"(?<=_){name}(?![a-z])|(?<![a-z]){name}(?=_)"


C_FILES = r"\.[ch]$"
DNS = r"dns|lookup|egress|proxy"

# Words that have no other sense here.
WORDS = [
    Row(word("folders?"), "directory", "open_folder", "directories"),
    Row(word("rooms?"), "module, scratch directory or space", "no_room", "bedroom"),
    Row(word("guardians?"), "supervisor", "the guardian"),
    Row(word("lookouts?"), "process monitor", "lookout.c"),
    Row(word("sweepers?", "reapers?"), "cleanup helper", "SWEEPER", "a subreaper reaps"),
    Row(word("witness(?:es)?"), "self-test", "witness_start"),
    Row(word("proofs?", "proven", "prove[sd]?", "unproven"), "self-test", "box->prove.record", "improved, approved"),
    Row(word("rehears(?:e[sd]?|als?)"), "namespace check, or warm-up in the guest", "rehearsal.c"),
    Row(word("surroundings?"), "level selection, or enclosing container or service", "surrounding_found"),
    Row(word("errands?"), "installer", "struct errand"),
    Row(word("heirs?"), "failover", "the heir", "their"),
    Row(word("tak(?:e|es|en|ing)[-_]?overs?", "took[-_]over"), "failover", "test_takeover.py", "it takes over"),
    Row(word("way[ _-]?out"), "egress proxy", "the way out"),
    Row(word("way[ _-]?back"), "restore", "way_back"),
    Row(word("spill(?:s|ed|ing)?"), "overflow file", "spill_new"),
    Row(word(r"troubles?(?!\.md)"), "error", "char *trouble", "docs/TROUBLE.md"),
    Row(word("kin"), "process tree, or similar", "enum kin", "kind"),
    Row(word("strangers?"), "unrelated process", "STRANGER", "a strange name"),
    Row(word("baits?"), "canary", "bait.txt"),
    Row(word("grade[sd]?"), "isolation level, or isolation report", "box_grade", "upgrade, degraded"),
    Row(word("wish(?:es)?"), "request, or requested level", "the user's wish"),
    Row(word("likewise"), "what is the same", "Likewise, for"),
    Row(word("brokers?"), "egress proxy", "broker.c"),
    Row(word("born", "births?"), "forked, or fork", "a child is born"),
    Row(word("judg(?:e[sd]?|ing|e?ments?)"), "check", "judge_view"),
    Row(word("settle[sd]?", "settling"), "resolve", "mount_settle"),
    Row(word("look(?:s|ed|ing)?[ _]at"), "check", "files are looked at"),
    Row(word("mend(?:s|ed|ing)?"), "fix", "says what to mend", "amended"),
    Row(word("aloud"), "reported", "said aloud", "allowed"),
    Row(word("told", "hears?", "heard"), "reported, or receives", "gaps_told"),
    Row(word("awake", "asleep"), "polling, or suspended", "a copy that is asleep"),
    Row(word("notable"), "well-known packages", "notable_packages", "notables"),
    Row(word("endings"), "shutdown", "endings.c", "CONN_ENDING"),
    Row(word("first[-_]process"), "container init", "first_process.c", "the first process"),
    Row(r"pid 1's program", "init", "pid 1's program"),
    Row(r"_inside(?=\.h)", "_internal.h", "room_inside.h", "inside.h"),
]

# Words that have another sense here: only the forms that have the retired one.
SENSES = [
    Row(word("profiles?"), "isolation level", "plan->profile", "the seccomp profile",
        r"^(?:base|bridge|cli|rpc|sandbox|schema|tools)/"),
    Row(word("(?:a|an|the|this|that|each|every|one|its|no|of) box(?:es)?"), "sandbox", "each box", "struct box *box"),
    Row(r"box_layers?", "protection", "BOX_LAYER_ON", "layers of packages"),
    Row(r"gaps_|_gaps(?![a-z])", "degraded", "box_grade_gaps", "without_a_gap"),
    Row(r"(?<!look)_around(?![a-z])", "enclosing", "memory_around", "around it, look_around"),
    Row(word(r"family\.[ch]", "famil(?:y|ies)_(?:has|kill|list|glance|signal|ms)"), "process tree", "family_kill",
        "sin_family, families of sockets"),
    Row(r"(?:another|other) (?:life|lives) of", "role", "another life of the program", "the life of a session"),
    Row(r"(?:box|init|proof|judge|ret)_view|view_of|(?:->|\.)view(?![a-z])|(?:file|own) view", "paths",
        "spec->view.work", "memory_view", r"", r"apps?[/_.]"),
    Row(r"(?<!sandpiper)_stage(?![a-z])|(?<![/a-z])stage_|(?:the|its|'s) stage(?![a-z])", "staging directory",
        "stage_fd", "/stage, SANDPIPER_STAGE, each stage can fail", C_FILES),
    Row(r"(?:read|write|edit|file|install)_jobs?(?![a-z])", "operation (_op)", "read_job", "orders_set_job", C_FILES),
    Row(part("answers?"), "response, or result", "peer_answer", "an answer", C_FILES, DNS),
    Row(part("questions?"), "elicitation", "ask_question", "a question", C_FILES, DNS),
    Row(rf"rpc_ask|{word('ask')}(?=\.[ch])", "elicitation", "rpc/ask.h", "--install ask", C_FILES),
    Row(word("(?:agent|mcp) hosts?", "host program", "host_consent"), "client", "the agent host", "the host's files"),
    Row(word("(?:a|an|the|this|that|each|every|no|planted|through|follow(?:s|ing)?) links?(?!-local)"),
        "symlink, or hard link", "a link that is planted", "symlink, hard links, a link-local address"),
    Row(r"own_ids?(?![a-z])", "separate uid", "own_id", "the user's own id"),
]

# Names of files.
FILES = [
    Row(r"(?<![a-z_])link(?=\.[ch]$)", "init_client", "sandbox/link.c", "symlink.c"),
    Row(r"(?<=tools/)names(?=\.[ch]$)", "variables", "tools/names.c", "sandbox/workspace/names.c"),
    Row(r"(?<![a-z_])data(?=\.[ch]$)", "mounts", "tools/data.h", "metadata.c"),
    Row(r"(?<![a-z_])view(?=\.[ch]$)", "paths", "plan/view.h", "review.c"),
]

# Retired words that are right in some lines: the word, what the line has, the reason.
EXCEPTIONS = [
    ("profile", r"seccomp|app_?armor|profiler|cprofile", "profiles of seccomp, of AppArmor and of Python"),
    ("profile", r"mcp-app", "the MIME type of a view"),
    ("broker", r"dbus-broker", "a program's name"),
    ("settle", r"udev-settle|execution\.settle", "the names of a unit and of a function of ext-tasks"),
    ("proven", r'"proven"', "a key of doctor --json, which programs read"),
]
# Not ours, compared byte by byte, or about the words themselves.
UNREAD = re.compile(r"^tests/corpus/|^tests/cpython/.*\.txt$|package-lock\.json$|^LICENSE$|^tests/lint/words\.py$")


# The rows of whole words, and one expression for all of them: no slower than that of one, and mostly it finds nothing.
WHOLE = {row for row in WORDS + SENSES if row.pattern.startswith(BEGIN) and row.pattern.endswith(END)}
ANY = re.compile(BEGIN + "|".join(row.pattern[len(BEGIN):-len(END)] for row in WHOLE) + END)


def found(rows, path, text):
    """The retired words of a text: line, word, what to write."""
    # A capital letter begins a part of an identifier, as `_` does.
    text = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text).lower()
    lines = text.split("\n")
    for row in rows if ANY.search(text) else [row for row in rows if row not in WHOLE]:
        if not re.search(row.files, path) or re.search(row.outside, path):
            continue
        for match in re.finditer(row.pattern, text):
            number = text.count("\n", 0, match.start()) + 1
            if not any(right in match[0] and re.search(having, lines[number - 1]) for right, having, _ in EXCEPTIONS):
                yield number, match[0], row.use


def check(path, text):
    for _, retired, use in found(WORDS + FILES, path, path):
        yield f'{path}: "{retired}": write {use}'
    for number, retired, use in sorted(found(WORDS + SENSES, path, text)):
        yield f'{path}:{number}: "{retired}": write {use}'


def check_table():
    """Rows that do not refuse what they must, or refuse what they must not."""
    for row in WORDS + SENSES + FILES:
        path = row.refused if row in FILES else "sandbox/example.c"
        if not list(found([row], path, row.refused)):
            yield f"row {row.pattern}: accepts {row.refused}"
        if list(found([row], path, row.accepted)):
            yield f"row {row.pattern}: refuses {row.accepted}"


def main(root):
    bad = list(check_table())
    for path in tracked(root):
        name = str(path.relative_to(root))
        if path.suffix not in BINARY and path.is_file() and not UNREAD.search(name):
            bad += check(name, path.read_text(errors="replace"))
    print("\n".join(bad) or "words: clean")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
