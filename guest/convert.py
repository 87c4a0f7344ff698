"""Makes of one file what a result can show, in an interpreter of its own: of a document its text, of any other file an
image that is small enough. read_file runs it as a cell, images.py as a program with the most bytes as its argument.

The path comes on stdin; text or a PNG or JPEG goes to stdout, or a reason to stderr. It needs a library from the user's
interpreter or from an installed package. It runs on the server's behalf, so it imports nothing from directories that
code can write to.
"""
import io
import os
import sys
import time

LONG_SIDE = 1568  # pixels
BYTES_MAX = 640000
PIXELS_MAX = 60000000  # decoded at once: 240 MB of four-byte pixels
SIDES = (LONG_SIDE, 1100, 768, 512)
TEXT_MAX = 8 << 20  # bytes of a document
EMPTY_MAX = 2  # rows of a table that are shown as such
TEXT_S = 7  # after which a part of a document is its last one
PDF_LIBRARIES = (("pypdf", "PdfReader"), ("PyPDF2", "PdfReader"), ("pymupdf", "open"), ("fitz", "open"), ("pdfplumber", "open"))
EXIT_NO_LIBRARY = 3
SITES = ("site-packages", "dist-packages")


def import_only_what_is_installed():
    """Makes imports find the interpreter's packages, and after them the layers of install_package.

    Leaves out directories and finders that .pth files add: an editable install may be in the workspace. Layers hold
    code of other authors, which must not replace the interpreter's own packages, but no code that runs here can write
    to them.
    """
    own = [sys.prefix, sys.base_prefix, os.environ.get("PYTHONUSERBASE") or sys.prefix]
    layers = [layer for layer in os.environ.get("SANDPIPER_PACKAGES", "").split(":") if layer]
    path, in_library = [], True
    for entry in sys.path:
        if entry in layers or not os.path.isabs(entry):
            continue
        is_site = os.path.basename(entry) in SITES
        in_library = in_library and not is_site
        if in_library or is_site and is_below(entry, own) and not is_below(entry, [os.getcwd()]):
            path.append(entry)
    sys.path[:] = path + layers
    frozen, external = sys.modules["_frozen_importlib"], sys.modules["_frozen_importlib_external"]
    sys.meta_path[:] = [frozen.BuiltinImporter, frozen.FrozenImporter, external.PathFinder]


def is_below(path, places):
    return any((os.path.realpath(path) + "/").startswith(os.path.realpath(place) + "/") for place in places)


def shrink(path, most):
    from PIL import Image, ImageOps

    Image.MAX_IMAGE_PIXELS = None  # own bound: PIXELS_MAX
    with Image.open(path) as image:
        image.draft(None, (LONG_SIDE, LONG_SIDE))  # a JPEG is decoded at a fraction of its size
        if image.width * image.height > PIXELS_MAX:
            raise ValueError("it has %d x %d pixels" % image.size)
        kinds = ("JPEG",) if image.format == "JPEG" else ("PNG", "JPEG")
        image = ImageOps.exif_transpose(image)
        image.thumbnail((LONG_SIDE, LONG_SIDE))
    if image.mode not in ("1", "L", "LA", "P", "RGB", "RGBA"):
        image = image.convert("L" if image.mode[0] in "IF" else "RGB")
    for side in SIDES:
        image.thumbnail((side, side))
        for kind in kinds:
            file = io.BytesIO()
            (image.convert("RGB") if kind == "JPEG" else image).save(file, kind)
            if file.tell() <= most:
                return file.getvalue()
    raise ValueError("it cannot be scaled down enough")


def text_of_pdf(path):
    for name, opener in PDF_LIBRARIES:
        try:
            pdf = getattr(__import__(name), opener)(path)
            break
        except ImportError:
            pass
    else:
        raise ImportError
    pages = pdf if name in ("pymupdf", "fitz") else pdf.pages
    for number, page in enumerate(pages, 1):
        yield "--- page %d of %d ---\n" % (number, len(pages))
        text = page.get_text() if pages is pdf else page.extract_text()
        yield (text.rstrip() if text and text.strip() else "[no text; perhaps an image]") + "\n"


def text_of_docx(path):
    import docx
    from docx.oxml.ns import qn
    from docx.text.paragraph import Paragraph

    document = docx.Document(path)
    blocks = list(document.element.body)[::-1]
    while blocks:
        block = blocks.pop()
        if block.tag == qn("w:p"):
            yield Paragraph(block, document).text + "\n"
        elif block.tag == qn("w:tbl"):
            for row in block.iterchildren(qn("w:tr")):
                cells = row.iterchildren(qn("w:tc"))
                yield line_of([" ".join(Paragraph(p, document).text for p in cell.iter(qn("w:p"))) for cell in cells])
        elif block.tag in (qn("w:sdt"), qn("w:sdtContent")):
            blocks += list(block)[::-1]


def text_of_xlsx(path):
    import openpyxl

    # A formula has a value only if a program has computed it.
    values, formulas = (openpyxl.load_workbook(path, read_only=True, data_only=only) for only in (True, False))
    for sheet, written in zip(values.worksheets, formulas.worksheets):
        yield "--- sheet %s%s ---\n" % (sheet.title, "" if sheet.sheet_state == "visible" else " (hidden)")
        empty = 0
        for row in zip(sheet.iter_rows(values_only=True), written.iter_rows(values_only=True)):
            cells = [text_of_cell(value, formula) for value, formula in zip(*row)]
            while cells and cells[-1] is None:
                cells.pop()
            if cells:
                yield ("\n" * empty if empty <= EMPTY_MAX else "[%d empty rows]\n" % empty) + line_of(cells)
            empty = 0 if cells else empty + 1
            yield ""


def text_of_cell(value, formula):
    if value is None:
        return formula if formula is None else "%s [no value]" % getattr(formula, "text", formula)
    if hasattr(value, "isoformat"):
        return value.isoformat(*" "[: hasattr(value, "date")]).replace(" 00:00:00", "")
    return value


def line_of(cells):
    """Cells between tabs; one with a tab or an end of line is in quotes."""
    import csv

    line = io.StringIO()
    csv.writer(line, delimiter="\t", lineterminator="\n").writerow(cells)
    return line.getvalue()


DOCUMENTS = {".pdf": text_of_pdf, ".docx": text_of_docx, ".xlsx": text_of_xlsx, ".xlsm": text_of_xlsx}


def write_text(parts):
    """Writes the parts as they come: of a document that is too long, or is damaged further on, its beginning."""
    end, size, why = time.monotonic() + TEXT_S, 0, ""
    with open(1, "wb", closefd=False) as out:
        try:
            for part in parts:
                data = part.encode(errors="replace")
                whole = size + len(data) <= TEXT_MAX
                out.write(data if whole else data[: TEXT_MAX - size].decode(errors="ignore").encode())
                size += len(data)
                if not whole or time.monotonic() > end:
                    why = "it is too long to be read at once; read it with Python"
                    break
        except Exception as error:
            if not size:
                raise
            why = str(error)
        if why:
            out.write(("\n[the rest is not shown: %s]\n" % why).encode(errors="replace"))


def write(data):
    data = memoryview(data)
    while data:
        data = data[os.write(1, data) :]


def main():
    path = sys.stdin.read()
    document = DOCUMENTS.get(os.path.splitext(path)[1].lower()) if len(sys.argv) < 2 else None
    import_only_what_is_installed()
    import logging  # from here on these are the interpreter's own
    import warnings

    warnings.simplefilter("ignore")
    logging.disable()
    try:
        if document:
            write_text(document(path))
        else:
            write(shrink(path, int(sys.argv[1]) if len(sys.argv) > 1 else BYTES_MAX))
    except ImportError:
        sys.exit(EXIT_NO_LIBRARY)
    except MemoryError:
        sys.stderr.write("there is not enough memory to %s" % ("read it as text" if document else "scale it down"))
    except Exception as error:
        sys.stderr.write("%s: %s" % ("it cannot be read" if document else "it is not a displayable image", error))


main()
