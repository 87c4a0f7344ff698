"""Writes the canonical decompositions of Unicode as a C table, sorted, without the Hangul syllables, which have a rule.

Only those into several characters: a file system composes and decomposes no others.
"""
import pathlib
import sys
import unicodedata

HANGUL = range(0xAC00, 0xD7A4)


def main():
    rows = ((code, unicodedata.normalize("NFD", chr(code))) for code in range(0x110000) if code not in HANGUL)
    lines = ["    {%#x, {%s}},\n" % (code, ", ".join(hex(ord(part)) for part in parts)) for code, parts in rows if len(parts) > 1]
    pathlib.Path(sys.argv[1]).write_text('#include "base/word.h"\n\nconst struct decomposition decompositions[] = {\n'
                                         + "".join(lines) + "};\nconst size_t decompositions_count = %d;\n" % len(lines))


main()
