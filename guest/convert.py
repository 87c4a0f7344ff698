"""Scales one image down to fit into a result, in an interpreter of its own: read_file runs it as a cell, images.py as a
program with the most bytes as its argument.

The path comes on stdin; a PNG or JPEG goes to stdout, or a reason to stderr. It needs Pillow from the user's
interpreter or from an installed package. It runs on the server's behalf, so it imports nothing from directories that
code can write to.
"""
import io
import os
import sys

LONG_SIDE = 1568  # pixels
BYTES_MAX = 640000
PIXELS_MAX = 60000000  # decoded at once: 240 MB of four-byte pixels
SIDES = (LONG_SIDE, 1100, 768, 512)
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


def main():
    import_only_what_is_installed()
    try:
        data = memoryview(shrink(sys.stdin.read(), int(sys.argv[1]) if len(sys.argv) > 1 else BYTES_MAX))
    except ImportError:
        sys.exit(EXIT_NO_LIBRARY)
    except MemoryError:
        reason = "there is not enough memory to scale it down"
    except Exception as error:
        reason = "it is not a displayable image: %s" % error
    else:
        while data:
            data = data[os.write(1, data) :]
        return
    sys.stderr.write(reason)


main()
