"""The forms that objects of the notebook world offer of themselves, and which of them a model is given.

Images become images of the call. Text is Markdown where there is some, else the plain repr, else
what remains of HTML without its tags.
"""
import re

METHODS = (
    ("image/png", "_repr_png_"), ("image/jpeg", "_repr_jpeg_"), ("image/svg+xml", "_repr_svg_"),
    ("text/markdown", "_repr_markdown_"), ("text/latex", "_repr_latex_"), ("application/json", "_repr_json_"),
)
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")


class Bundle:
    """Forms that were given as they are."""

    def __init__(self, forms):
        self.forms = forms

    def _repr_mimebundle_(self, **_):
        return dict(self.forms)


def shows_itself(value, enter):
    """Calls what takes the place of all forms; one that raises is not there."""
    method = getattr(type(value), "_ipython_display_", None)
    if method is None:
        return False
    try:
        enter(method, value)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return False
    return True


def forms_of(value, enter):
    """{media type: data}. A form that raises is not there; only an interrupt goes on."""
    kind, data = type(value), {}
    if getattr(kind, "_repr_mimebundle_", None) is not None:
        found = ask(value, "_repr_mimebundle_", enter)
        if type(found) is dict:
            data.update(found)
    for media_type, method in METHODS:
        if media_type not in data and getattr(kind, method, None) is not None:
            found = ask(value, method, enter)
            if found is not None:
                data[media_type] = found
    if speaks_html(kind) and "text/html" not in data and hasattr(kind, "_repr_html_"):
        data["text/html"] = ask(value, "_repr_html_", enter)
    return data


def speaks_html(kind):
    """Whether its repr says nothing: it names only the type."""
    return kind.__repr__ is object.__repr__ or kind.__module__ == "IPython.core.display"


def ask(value, method, enter):
    try:
        found = enter(getattr(value, method))
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None
    return found[0] if type(found) is tuple and found else found  # data may come with its metadata


def as_bytes(data):
    if isinstance(data, str):
        import binascii

        try:
            return binascii.a2b_base64(data)
        except ValueError:
            return b""
    return bytes(data) if isinstance(data, (bytes, bytearray, memoryview)) else b""


def add_images(session, data):
    """Lines that name the files in which the images of a value lie. An SVG is one, but cannot be shown."""
    paths = []
    for media_type in IMAGES:
        if media_type in data:
            path = session.shown_images().add(as_bytes(data[media_type]))
            if path:
                return ["[image: %s]" % path]
    svg = data.get("image/svg+xml")
    if isinstance(svg, str) and svg and not session.shown_images().full():
        paths.append("[svg: %s]" % session.shown_images().write(svg.encode("utf-8", "replace"), ".svg"))
    return paths


def text_form(value, data):
    """The best text of the forms, or None when the plain repr is."""
    markdown = data.get("text/markdown")
    if isinstance(markdown, str) and markdown:
        return markdown
    if not speaks_html(type(value)):
        return None
    for media_type in ("text/plain", "text/latex"):
        text = data.get(media_type)
        if isinstance(text, str) and text:
            return text
    html, tree = data.get("text/html"), data.get("application/json")
    if isinstance(html, str) and html.strip():
        return without_tags(html) or None
    return None if tree is None else dumps(tree)


def dumps(tree):
    import json

    try:
        return json.dumps(tree, indent=1, default=str)
    except (TypeError, ValueError, RecursionError):
        return None


def without_tags(html):
    from html import unescape

    html = re.sub(r"(?is)<(style|script|head)\b.*?</\1\s*>|<!--.*?-->", "", html[:200000])
    html = re.sub(r"(?i)</t[dh]>\s*(?=<t[dh])", "\t", html)
    html = re.sub(r"(?i)\s*(<br\s*/?>|</(p|div|tr|li|h[1-6]|table|ul|ol|pre)>)\s*", "\n", html)
    text = unescape(re.sub(r"(?s)<[^>]*>", "", html))
    lines = [line.strip(" ") for line in text.splitlines()]
    return "\n".join(line for line in lines if line.strip())
