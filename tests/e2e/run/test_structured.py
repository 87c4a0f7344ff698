"""--structured: the same result as data, valid by the tool's schema."""
import json
import unittest

from client import Case, Server, need_userns


def violations(schema, value, place=""):
    """The part of JSON Schema that our output schemas use."""
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool, "number": (int, float)}
    if "type" not in schema:
        return []
    if not isinstance(value, kinds[schema["type"]]) or (schema["type"] == "integer" and isinstance(value, bool)):
        return [f"{place}: {value!r} is no {schema['type']}"]
    found = [f"{place}: {value!r} is not allowed"] if value not in schema.get("enum", [value]) else []
    if schema["type"] == "object":
        found += [f"{place}: {name} is missing" for name in schema.get("required", ()) if name not in value]
        for name, part in value.items():
            if name in schema.get("properties", {}):
                found += violations(schema["properties"][name], part, f"{place}/{name}")
            elif schema.get("additionalProperties") is False:
                found.append(f"{place}: {name} is unknown")
    if schema["type"] == "array":
        found += [one for i, part in enumerate(value) for one in violations(schema["items"], part, f"{place}/{i}")]
    return found


class Structured(Case):
    CALLS = (
        ("run_python", {"code": "1 + 1"}, {"status": "ok", "result": "2"}),
        ("run_python", {"code": "import sys; print('o'); print('e', file=sys.stderr)"}, {"stdout": "o\n", "stderr": "e\n"}),
        ("run_python", {"code": "open('f.csv', 'w').write('x')\nz = 1"}, {"status": "ok"}),
        ("run_python", {"code": "for i in range(40): globals()[f'v{i}'] = i"}, {"variables_more": 21}),
        ("run_python", {"code": "{}['k']"}, {"status": "error"}), ("run_python", {"code": "x ="}, {"status": "error"}),
        ("run_python", {"code": "import sys; sys.exit(3)"}, {"status": "exit", "exit_code": 3}),
        ("run_python", {"code": "import os; os.abort()"}, {"status": "crashed", "signal": 6}),
        ("run_python", {"code": "while True: pass", "timeout_s": 1}, {"status": "timeout"}),
        ("run_python", {"code": "print('x' * 100 + '\\n', end='') or [print(i) for i in range(9999)][0]"}, {"truncated": True}),
        ("write_file", {"path": "d/a.txt", "content": "text\n"}, {"text": "created d/a.txt (1 line, 5 B)\n"}),
        ("read_file", {"path": "d/a.txt"}, {"text": "text\n"}), ("read_file", {"path": "d"}, {}),
        ("read_file", {"path": "d/a.txt", "encoding": "base64"}, {"text": "dGV4dAo="}),
    )

    def test_complete_in_itself_and_valid(self):
        need_userns()
        with Server("--structured") as server:
            schemas = {tool["name"]: tool["outputSchema"] for tool in server.request("tools/list")["result"]["tools"]}
            for tool, arguments, expected in self.CALLS:
                with self.subTest(arguments=arguments):
                    result = server.call(tool, **arguments)
                    form = result.raw["structuredContent"]
                    self.assertEqual(violations(schemas[tool], form), [])
                    self.assertEqual({name: form.get(name) for name in expected}, expected)
                    json.dumps(form)
            self.assertEqual(violations({"type": "object", "required": ["a"], "properties": {}}, {}), [": a is missing"])

    def test_images_are_included(self):
        need_userns()
        with Server("--structured") as server:
            server.python("import struct, zlib\ndef chunk(k, d): return struct.pack('>I', len(d)) + k + d + struct.pack('>I', zlib.crc32(k + d))\n"
                          "open('p.png', 'wb').write(b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 2, 2, 8, 0, 0, 0, 0))"
                          " + chunk(b'IDAT', zlib.compress(b'\\0aa' * 2)) + chunk(b'IEND', b''))")
            result = server.read("p.png")
            self.assertEqual([block["type"] for block in result.content], ["text", "image"])
            self.assertIn("PNG image, 2x2", result.raw["structuredContent"]["text"])

    def test_without_the_flag_there_is_none(self):
        need_userns()
        with Server() as server:
            self.assertFalse(any("outputSchema" in tool for tool in server.request("tools/list")["result"]["tools"]))
            self.assertNotIn("structuredContent", server.python("1").raw)


if __name__ == "__main__":
    unittest.main()
