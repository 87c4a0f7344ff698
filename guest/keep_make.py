"""What the pickles of keep_pickle.py call when they are read: makes functions, classes and the like of what they were.

Each is made empty and filled afterwards, so that it may be in itself. None of the code of the user's runs for that.
"""
import marshal
import sys
import _abc
import _pickle

HELPERS = "_sandpiper_keep"  # the module of these functions, in pickles
real_import = load("imports").real_import
# Code in C imports with the builtins of the innermost Python frame, and what is made here needs modules that the code sees.
__builtins__ = dict(IMPORTED["builtins"].__dict__, __import__=real_import)
function_type, module_type = type(lambda: None), type(sys)
method_type = type(type("Made", (), {"method": lambda self: None})().method)
cell_type = type((lambda x: lambda: x)(0).__closure__[0])
now = {"loading": None}


def call(function, *args):
    return function(*args)


class Unpickler(_pickle.Unpickler):
    def find_class(self, module, name):
        if module == HELPERS:
            return CALLED[name]
        if module != "__main__":
            return super().find_class(module, name)
        found, *parts = name.split(".")
        found = by_name(found)
        for part in parts:
            found = getattr(found, part)
        return found


def by_name(key):
    """What the session has by this name; it comes back at once if it has not yet."""
    return now["loading"].value_of(key)


def made(key, value):
    if key:
        now["loading"].made[key] = value
    return value


def import_module(name):
    real_import(name)
    return IMPORTED[name]


def attribute(module, name):
    return getattr(import_module(module), name)


def make_method(function, value):
    return method_type(function, value)


def make_proxy(names):
    return type(type.__dict__)(names)


def code_of(data):
    return marshal.loads(data)


def make_cell():
    return cell_type()


def fill_cell(cell, values):
    cell.cell_contents, = values


def make_function(key, code, space, closure):
    """space: the name of a module that has it, "" for the session, or a dictionary."""
    if type(space) is str:
        space = vars(import_module(space)) if space else now["loading"].namespace
    return made(key, function_type(marshal.loads(code), space, None, None, closure))


def fill_function(function, state):
    for name, value in zip(("__name__", "__qualname__", "__module__", "__doc__", "__defaults__", "__kwdefaults__", "__annotations__",
                            "__dict__", "__type_params__"), state):
        if value is not None:
            setattr(function, name, value)


def make_cached(key, function, size, typed):
    return made(key, attribute("functools", "lru_cache")(size, typed)(function))


def make_type_variable(kind, name, constraints, bound, covariant, contravariant, module):
    made = kind(name, *constraints, bound=bound, covariant=covariant, contravariant=contravariant)
    made.__module__ = module
    return made


def make_class(key, kind, name, qualname, bases, head):
    """By `type` alone: what a metaclass and `__init_subclass__` of the user's did once is in what it is filled with."""
    hook = "__init_subclass__"
    hooked = next((each for base in bases for each in base.__mro__ if hook in vars(each)), object)
    kept = vars(hooked)[hook] if hooked.__module__ == "__main__" else None
    if kept is not None:
        type.__setattr__(hooked, hook, classmethod(lambda cls, **_: None))
    try:
        cls = type.__new__(kind, name, bases, dict(head, __qualname__=qualname))
    finally:
        if kept is not None:
            type.__setattr__(hooked, hook, kept)
    if issubclass(kind, attribute("abc", "ABCMeta")):
        _abc._abc_init(cls)
    return made(key, cls)


def fill_class(cls, state):
    for name, value in state:
        if name == "_abc_impl":
            for each in value:
                _abc._abc_register(cls, each)
        else:
            type.__setattr__(cls, name, value)


def make_enum(key, kind, name, bases, members, module, qualname):
    space = kind.__prepare__(name, bases)
    for each, value in {"__module__": module, "__qualname__": qualname, **members}.items():
        space[each] = value
    own_new = next(each for each in kind.__mro__ if each.__module__ != "__main__").__new__
    return made(key, own_new(kind, name, bases, space))


def fill_enum(cls, state):
    fill_class(cls, state[0])
    for name, values in state[1].items():
        vars(cls._member_map_[name]).update(values)


CALLED = {each.__name__: each for each in (
    by_name, import_module, attribute, make_method, make_proxy, code_of, make_cell, fill_cell, make_function, fill_function, make_cached, make_type_variable, make_class,
    fill_class, make_enum, fill_enum)}


def offer():
    """Makes them importable for a pickler, in a process that ends afterwards."""
    module = IMPORTED[HELPERS] = module_type(HELPERS)
    for name, each in CALLED.items():
        each.__module__ = HELPERS
        setattr(module, name, each)
