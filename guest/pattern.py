"""Regular expressions that are compiled at their first use: most sessions need none, and all wait for the start."""
import re


class Pattern:
    def __init__(self, text):
        self.text = text

    def __getattr__(self, name):  # search, match and so on; re keeps what it has compiled
        return getattr(re.compile(self.text), name)
