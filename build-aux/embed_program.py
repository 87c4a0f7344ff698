"""Make a C file whose object holds a program's bytes: argv is the program and the output.

A generated file, not a define, so that the object is built anew whenever the program is."""
import pathlib
import sys

program, out = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
lines = [
    ".section .rodata",
    ".global init_image_start",
    ".global init_image_end",
    ".balign 16",
    "init_image_start:",
    f'.incbin \\"{program}\\"',
    "init_image_end:",
    ".byte 0",
    '.section .note.GNU-stack,\\"\\",%progbits',
    ".text",
]
out.write_text("__asm__(\n" + "\n".join(f'    "{line}\\n"' for line in lines) + ");\n")
