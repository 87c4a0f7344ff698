"""Make a C file whose object holds a program's bytes: argv is the program, the output and the name.

A generated file, not a define, so that the object is rebuilt with the program.
"""
import pathlib
import sys

# Apart from the constants of the server, which itself does not read it.
program, out, name = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]), sys.argv[3]
lines = [
    '.section .embedded,\\"a\\"',
    f".global {name}_start",
    f".global {name}_end",
    ".balign 16",
    f"{name}_start:",
    f'.incbin \\"{program}\\"',
    f"{name}_end:",
    ".byte 0",
    '.section .note.GNU-stack,\\"\\",%progbits',
    ".text",
]
out.write_text("__asm__(\n" + "\n".join(f'    "{line}\\n"' for line in lines) + ");\n")
