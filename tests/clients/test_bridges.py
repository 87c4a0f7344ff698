"""Programs without MCP: the vendors' own code accepts our declarations and results, and the examples hold a
conversation with a model on the loopback."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "e2e"), str(HERE)]

import packages  # noqa: E402
from client import BINARY, SLOW, need_userns  # noqa: E402
from fake_model import DRAW, FORMS, LAST_WORDS, FakeModel  # noqa: E402

EXAMPLES = HERE.parents[1] / "examples"
# The vendors' types for each form: (package, type of `schema`, type of each line of `call`).
TYPES = {
    "openai-chat": ("openai", "OpenAI.ChatCompletionTool[]", "OpenAI.ChatCompletionMessageParam"),
    "openai-responses": ("openai", "OpenAI.Responses.FunctionTool[]",
                         "OpenAI.Responses.ResponseInputItem.FunctionCallOutput"),
    "anthropic": ("@anthropic-ai/sdk", "Anthropic.Tool[]", "Anthropic.ToolResultBlockParam"),
    "gemini": ("@google/genai", "Wire<genai.Tool>", "genai.Part"),
}
IMPORTS = {"openai": "import type OpenAI from 'openai';",
           "@anthropic-ai/sdk": "import type Anthropic from '@anthropic-ai/sdk';",
           "@google/genai": "import type * as genai from '@google/genai';"}
# On the wire enumerations are strings.
WIRE = """type Wire<T> = T extends genai.Type ? `${T}` : T extends (infer U)[] ? Wire<U>[]
    : T extends object ? { [K in keyof T]: Wire<T[K]> } : T;"""


def output_of(*command, **options):
    return subprocess.run([BINARY, *command], stdout=subprocess.PIPE, text=True,
                          timeout=60 * SLOW, **options).stdout


class Examples(unittest.TestCase):
    def converse(self, vendor, command, **env):
        with FakeModel(vendor) as model:
            env = {name: value.format(url=model.url) for name, value in env.items()}
            done = subprocess.run(command, capture_output=True, text=True, timeout=120 * SLOW,
                                  env={**os.environ, "no_proxy": "127.0.0.1", "SANDPIPER": BINARY,
                                       **env})
        self.assertEqual(model.complaints, [], done.stderr)
        self.assertEqual((done.returncode, done.stdout), (0, LAST_WORDS + "\n"), done.stderr)

    def test_python_with_every_vendor(self):
        need_userns()
        for vendor in FORMS:
            with self.subTest(vendor=vendor):
                self.converse(vendor, [sys.executable, EXAMPLES / "python" / "bridge.py", vendor,
                                       "fake", "What is the total?"], BASE_URL="{url}")

    def test_typescript_with_the_official_sdks(self):
        need_userns()
        node = packages.node()
        directory = packages.own(EXAMPLES / "typescript", "bridge.ts", "package.json",
                              "tsconfig.json")
        checked = subprocess.run([*packages.program("typescript/bin/tsc"), "-p", directory],
                                 capture_output=True, text=True, timeout=120 * SLOW)
        self.assertEqual(checked.stdout, "")
        self.converse("anthropic", [node, directory / "bridge.ts", "fake", "What is the total?"],
                      ANTHROPIC_BASE_URL="{url}", ANTHROPIC_API_KEY="none")

    def test_the_typescript_example_pins_the_tested_versions(self):
        wanted = json.loads((EXAMPLES / "typescript" / "package.json").read_text())
        pinned = json.loads((HERE / "package.json").read_text())["dependencies"]
        for name, version in {**wanted["dependencies"], **wanted["devDependencies"]}.items():
            self.assertEqual(pinned[name], version, name)


class Vendors(unittest.TestCase):
    def test_bridges_of_vendors_need_no_change(self):
        node = packages.node()
        directory = packages.own(HERE, "forms.mjs")
        done = subprocess.run([node, directory / "forms.mjs", BINARY], capture_output=True, text=True,
                              timeout=60 * SLOW)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)

    def test_types_of_vendors_accept_the_printed_schema(self):
        """Checks literals, so that a key unknown to the type is an error too."""
        need_userns()
        packages.node()
        lines = [*IMPORTS.values(), WIRE]
        for vendor, (_, tools, result) in TYPES.items():
            for strict in ([], ["--strict"]):
                lines.append(f"({output_of('schema', '--format', vendor, *strict)}) satisfies {tools};")
            draw = json.dumps({"code": "total, _ = 41, open('note.txt', 'w').write('noted')\n" + DRAW})
            for arguments in (draw, '{"code": "1 / 0"}'):
                printed = output_of("call", "--format", vendor, "--id", "call_1", "run_python",
                                    arguments)
                self.assertTrue(printed)
                lines += [f"({line}) satisfies {result};" for line in printed.splitlines()]
        directory = packages.own(EXAMPLES / "typescript", "package.json", "tsconfig.json")
        (directory / "forms.ts").write_text("\n".join(lines))
        self.addCleanup((directory / "forms.ts").unlink)
        checked = subprocess.run([*packages.program("typescript/bin/tsc"), "-p", directory],
                                 capture_output=True, text=True, timeout=120 * SLOW)
        self.assertEqual(checked.stdout, "")
