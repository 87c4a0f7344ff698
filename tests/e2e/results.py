"""The result of a tool, and the status line of run_python's."""
import dataclasses
import re


class ProtocolError(AssertionError):
    """The server wrote something that is not an MCP message, or did not write in time."""


@dataclasses.dataclass
class Status:
    """The bracketed last line of a run_python result, split at its bars."""

    line: str

    @property
    def parts(self):
        return [part.strip() for part in self.line[1:-1].split(" | ")]

    @property
    def kind(self):
        for kind in ("ok", "error", "timeout", "out of memory", "disk full", "too many files", "crashed", "exit code"):
            if re.match(kind + r"\b", self.parts[0]):
                return kind
        return self.parts[0]

    @property
    def state(self):
        found = [part[len("state: "):] for part in self.parts if part.startswith("state: ")]
        return found[0] if found else None

    def field(self, name):
        for part in self.parts[1:]:
            if part.startswith(name + ": "):
                return part[len(name) + 2:]
        return None


@dataclasses.dataclass
class Result:
    raw: dict

    @property
    def is_error(self):
        return self.raw.get("isError", False)

    @property
    def content(self):
        return self.raw["content"]

    @property
    def text(self):
        return "".join(block["text"] for block in self.content if block["type"] == "text")

    @property
    def lines(self):
        return self.text.rstrip("\n").split("\n")

    @property
    def status(self):
        line = self.lines[-1]
        if not (line.startswith("[") and line.endswith("]")):
            raise ProtocolError(f"no status line at the end of {self.text[-400:]!r}")
        return Status(line)

    @property
    def output(self):
        """Everything above the status line."""
        return "\n".join(self.lines[:-1])
