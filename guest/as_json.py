"""The value of a cell as JSON, for programs that read the result.

Only what JSON can hold as it is: exact types, so that no code of the user's runs here, and all of it or nothing. Each
step takes something from a number of characters, so that neither a large value nor one that contains itself takes long.
"""
MOST = 64 << 10  # bytes; the server's bound is LIMIT_RESULT_JSON_BYTES
DEPTH_MAX = 64  # LIMIT_RESULT_JSON_DEPTH
INT_MAX = (1 << 53) - 1  # JavaScript rounds larger ones
WORDS = {None: "null", True: "true", False: "false"}
INFINITY = float("inf")
ESCAPES = {number: "\\u%04x" % number for number in range(32)}
ESCAPES.update({ord('"'): '\\"', ord("\\"): "\\\\", ord("\n"): "\\n", ord("\t"): "\\t"})


class NoJson(Exception):
    pass


class Writer:
    def __init__(self):
        self.parts, self.left = [], MOST

    def put(self, text):
        self.left -= len(text)
        if self.left < 0:
            raise NoJson
        self.parts.append(text)

    def put_text(self, value):
        if len(value) > self.left:
            raise NoJson
        self.put('"%s"' % value.translate(ESCAPES))

    def add(self, value, depth):
        kind = type(value)
        if kind is str:
            self.put_text(value)
        elif kind is bool or value is None:
            self.put(WORDS[value])
        elif kind is int:
            if not -INT_MAX <= value <= INT_MAX:
                raise NoJson
            self.put(repr(value))
        elif kind is float:
            if not -INFINITY < value < INFINITY:
                raise NoJson
            self.put(repr(value))
        elif kind is list or kind is dict:
            if depth == 0 or 2 * len(value) > self.left:
                raise NoJson
            self.add_list(value, depth - 1) if kind is list else self.add_dict(value, depth - 1)
        else:
            raise NoJson

    def add_list(self, value, depth):
        before = "["
        for item in value:
            self.put(before)
            self.add(item, depth)
            before = ","
        self.put("]" if before == "," else "[]")

    def add_dict(self, value, depth):
        before = "{"
        for key, item in value.items():
            if type(key) is not str or "\0" in key:  # the server's parser takes no such key
                raise NoJson
            self.put(before)
            self.put_text(key)
            self.put(":")
            self.add(item, depth)
            before = ","
        self.put("}" if before == "," else "{}")


def text_of(value):
    """The bytes of its JSON, or None."""
    writer = Writer()
    try:
        writer.add(value, DEPTH_MAX)
        data = "".join(writer.parts).encode()
    except (NoJson, RuntimeError, UnicodeEncodeError):  # changed by a thread meanwhile; lone surrogates
        return None
    return data if len(data) <= MOST else None
