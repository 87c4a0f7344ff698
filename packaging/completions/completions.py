"""Completions for bash, zsh and fish, made from the program's own help, so that none becomes stale.

    completions.py HELP SCHEMA DIRECTORY

HELP is the output of `sandpiper --help`, SCHEMA that of `sandpiper schema`. Writes sandpiper (bash), _sandpiper (zsh)
and sandpiper.fish to DIRECTORY. The values of a flag follow from the name of its value in the help (DIR, FILE, PATH:
files), or from the words that its help lists: "mcp, openai-chat or gemini".
"""
import dataclasses
import json
import pathlib
import re
import sys

SERVE = "serve"  # the default command
FILES = {"FILE", "PATH"}
DIRECTORIES = {"DIR"}


@dataclasses.dataclass
class Flag:
    name: str
    value: str  # its name in the help; "" for none
    text: str
    commands: tuple  # () for all but config
    words: tuple = ()
    many: bool = False  # words separated by commas

    @property
    def kind(self):
        names = set(re.split(r"\W+", self.value))
        return "words" if self.words else "files" if names & FILES else "directories" if names & DIRECTORIES else "none"


def listed_words(text):
    """The words of "schema, call: mcp, openai-chat or gemini (mcp)", if there is nothing but a list."""
    plain = re.sub(r"\s*\([^)]*\)", "", text).rpartition(":")[2].strip()
    words = re.split(r", | or ", plain)
    return tuple(words) if len(words) > 1 and all(re.fullmatch(r"[a-z][a-z0-9_-]*", word) for word in words) else ()


def read_flags(section, commands, own=()):
    """own: the commands of all flags in this section."""
    flags = []
    for entry in re.split(r"\n(?=  -)", "\n" + section)[1:]:
        name, value, text = re.match(r"\s+(?:-\w, )?--([\w-]+)(?: (\S+))?(?:\s{2,}|\n\s+|(?<=\S) )(.*)", entry,
                                     re.S).groups()
        text = " ".join(text.split())
        scope = re.match(r"((?:\w+, )*\w+): ", text)
        named = tuple(scope[1].split(", ")) if scope else ()
        limited = named if named and set(named) <= set(commands) else ()
        flags.append(Flag(name, value or "", text, own or limited, listed_words(text) if value else (),
                          "comma-separated" in text))
    # Flags whose values have the same name take the same words.
    for flag in flags:
        alike = next((other for other in flags if other.value == flag.value and other.words), flag)
        flag.words, flag.many = alike.words, alike.many
    return flags


def read_help(text):
    """(commands, flags)"""
    usage, _, rest = text.partition("\nOptions:\n")
    options, _, rest = rest.partition("\nOptions of config")
    commands = tuple(re.findall(r"^       sandpiper (\w+)", usage, re.M))
    config = rest.partition("\n")[2].partition("\n\n")[0]
    return commands, read_flags(options, commands) + read_flags(config, commands, own=("config",))


def flags_of(command, flags):
    general = () if command == "config" else ((),)
    return [flag for flag in flags if flag.commands in general or command in flag.commands]


# bash

BASH = """\
# bash completion for sandpiper(1)
_sandpiper() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD - 1]}} command={serve} i
    for ((i = 1; i < COMP_CWORD; i++)); do
        [[ ${{COMP_WORDS[i]}} == -- ]] && command={serve} && continue
        [[ $i -eq 1 && ${{COMP_WORDS[i]}} =~ ^({commands})$ ]] && command=${{COMP_WORDS[i]}}
    done
    # --memory=1G is three words here
    [[ $cur == = ]] && cur= && prev=${{COMP_WORDS[COMP_CWORD - 1]}}
    [[ $prev == = ]] && prev=${{COMP_WORDS[COMP_CWORD - 2]}}
    case $command:$prev in
{values}
    esac
    if [[ $cur == -* ]]; then
        case $command in
{flags}
        esac
        return
    fi
    case $command in
    {serve}) [[ $COMP_CWORD -eq 1 ]] && COMPREPLY=($(compgen -W '{words}' -- "$cur")) ;;
    run) compopt -o filenames && COMPREPLY=($(compgen -f -- "$cur")) ;;
    call) COMPREPLY=($(compgen -W '{tools}' -- "$cur")) ;;
    esac
}}
complete -F _sandpiper sandpiper
"""
BASH_VALUES = {
    "files": "compopt -o filenames && COMPREPLY=($(compgen -f -- \"$cur\"))",
    "directories": "compopt -o filenames && COMPREPLY=($(compgen -d -- \"$cur\"))",
    "none": "COMPREPLY=()",
}


def bash_value(flag):
    words = " ".join(flag.words)
    if not flag.words:
        return BASH_VALUES[flag.kind]
    if not flag.many:
        return f"COMPREPLY=($(compgen -W '{words}' -- \"$cur\"))"
    before = 'local before=${cur%"${cur##*,}"}; '
    return before + f"COMPREPLY=($(compgen -P \"$before\" -W '{words}' -- \"${{cur##*,}}\"))"


def bash(commands, flags, tools):
    values = []
    for flag in (flag for flag in flags if flag.value):
        scope = [f"{command}:--{flag.name}" for command in flag.commands] or [f"*:--{flag.name}"]
        # A command's own flags come before the common ones: --install of config takes no value.
        values.insert(0 if flag.commands else len(values), f"    {'|'.join(scope)}) {bash_value(flag)}; return ;;")
    for flag in (flag for flag in flags if not flag.value and flag.commands):
        clash = any(other.name == flag.name and other.value for other in flags)
        if clash:
            values.insert(0, f"    {'|'.join(f'{c}:--{flag.name}' for c in flag.commands)}) ;;")
    rows = [f"        {command}) COMPREPLY=($(compgen -W '" +
            " ".join("--" + flag.name for flag in flags_of(command, flags)) + "' -- \"$cur\")) ;;"
            for command in (SERVE, *commands)]
    return BASH.format(serve=SERVE, commands="|".join(commands), words=" ".join(commands), tools=" ".join(tools),
                       values="\n".join(values), flags="\n".join(rows))


# zsh

ZSH = """\
#compdef sandpiper
# zsh completion for sandpiper(1)
local command={serve}
local -a flags=(
    {general}
)
if (( CURRENT > 2 )) && [[ $words[2] == ({commands}) ]]; then
    command=$words[2]
    shift words
    (( CURRENT-- ))
elif (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then
    local -a commands=({words})
    _describe command commands
    return
fi
case $command in
{cases}
esac
_arguments $flags
"""
ZSH_LAST = {"run": ["'*:file:_files'"], "call": ["'1:tool:({tools})'", "'2:arguments:'"]}


def zsh_flag(flag):
    text = re.sub(r"([\[\]:\\])", r"\\\1", flag.text).replace("'", "'\\''")
    if not flag.value:
        return f"'*--{flag.name}[{text}]'"
    action = {"files": "_files", "directories": "_files -/", "none": " "}.get(flag.kind) or f"({' '.join(flag.words)})"
    if flag.many and flag.words:
        action = f"_values -s , word {' '.join(flag.words)}"
    value = re.sub(r"\W+", " ", flag.value)
    return f"'*--{flag.name}=[{text}]:{value}:{action}'"


def zsh(commands, flags, tools):
    cases = []
    for command in commands:
        rows = [zsh_flag(flag) for flag in flags if command in flag.commands]
        rows += [row.format(tools=" ".join(tools)) for row in ZSH_LAST.get(command, ())]
        cases.append(f"{command}) flags{'' if command == 'config' else '+'}=(\n    " + "\n    ".join(rows) + "\n) ;;")
    return ZSH.format(serve=SERVE, commands="|".join(commands), words=" ".join(commands), cases="\n".join(cases),
                      general="\n    ".join(zsh_flag(flag) for flag in flags if not flag.commands))


# fish

def fish_quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish_flag(flag, commands):
    if flag.commands:
        when = "__fish_seen_subcommand_from " + " ".join(flag.commands)
    else:
        when = "not __fish_seen_subcommand_from config"
    value = {"words": f" -x -a {fish_quoted(' '.join(flag.words))}", "files": " -r -F",
             "directories": " -x -a '(__fish_complete_directories)'", "none": " -x"}[flag.kind] if flag.value else ""
    return f"complete -c sandpiper -n {fish_quoted(when)} -l {flag.name}{value} -d {fish_quoted(flag.text)}"


def fish(commands, flags, tools):
    lines = ["# fish completion for sandpiper(1)", "complete -c sandpiper -f",
             f"complete -c sandpiper -n __fish_use_subcommand -a {fish_quoted(' '.join(commands))}",
             "complete -c sandpiper -n '__fish_seen_subcommand_from run' -F",
             f"complete -c sandpiper -n '__fish_seen_subcommand_from call' -a {fish_quoted(' '.join(tools))}"]
    return "\n".join(lines + [fish_flag(flag, commands) for flag in flags]) + "\n"


def main():
    help_text, schema, directory = (pathlib.Path(path) for path in sys.argv[1:])
    commands, flags = read_help(help_text.read_text())
    tools = [tool["name"] for tool in json.loads(schema.read_text())]
    for name, make in {"sandpiper": bash, "_sandpiper": zsh, "sandpiper.fish": fish}.items():
        (directory / name).write_text(make(commands, flags, tools))


if __name__ == "__main__":
    main()
