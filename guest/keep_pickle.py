"""Pickles what a session keeps by `--keep`, and reads it again: pickle, and what pickle leaves out.

What no import finds goes by value: functions and classes of cells, wherever they are, as their code, with what they hold
(defaults, closures, attributes). So none of their statements runs again. What an import finds goes by its name, as with
pickle. So does, between names of the session, a function or class that has a name: it comes back once.
"""
import gc
import marshal
import sys
import _abc
import _pickle

make = load("keep_make")
MAIN = "__main__"
HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE
LIBRARY = load("imports").LIBRARY
INSTALLED = ("/site-packages/", "/dist-packages/")
function_type, module_type, code_type = type(lambda: None), type(sys), type((lambda: None).__code__)
cell_type, proxy_type, builtin_type = type((lambda x: lambda: x)(0).__closure__[0]), type(type.__dict__), type(len)
member_type, getset_type = type(function_type.__dict__["__globals__"]), type(function_type.__dict__["__code__"])
namespace_of = type.__dict__["__dict__"].__get__
ACTIVE = ("__reduce__", "__reduce_ex__", "__setstate__", "__new__", "__setattr__", "__hash__", "__getnewargs__", "__getnewargs_ex__")
CONSTANTS = (type(None), type(...), type(NotImplemented))  # no module has them, and pickle knows them
# Values that nothing can change: two names may get one each.
ATOMS = (str, bytes, int, float, complex, bool, type(None), tuple, frozenset, range, slice, code_type, builtin_type)
FIXED = ("datetime", "_decimal", "decimal", "fractions", "uuid", "pathlib", "re", "ipaddress", "zoneinfo")
FIXED_OF_ARRAYS = ("dtype", "generic", "Index", "Dtype", "DType", "Timestamp", "Timedelta", "Period")


class NotKept(Exception):
    """Its text is the reason."""


def words_of(value):
    """(module, qualified name) that a class, or what is like a function, says of itself. No metaclass is asked."""
    if not issubclass(type(value), type):
        return getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    try:
        return type.__dict__["__module__"].__get__(value), type.__dict__["__qualname__"].__get__(value)
    except AttributeError:  # the code has deleted it
        return None, None


def module_of(kind):
    name = words_of(kind)[0]
    return name if type(name) is str else MAIN


def importable(value):
    """Whether the module that it names has it by the name that it says, so that an import finds it."""
    module, name = words_of(value)
    found = IMPORTED.get(module) if type(module) is str and type(name) is str and module != MAIN else None
    for part in name.split(".") if found is not None else ():
        found = (found.__dict__ if type(found) is module_type else namespace_of(found) if issubclass(type(found), type) else {}).get(part)
    return found is value


def type_name(kind):
    """As reports name a type: "sqlite3.Connection"."""
    module, name = words_of(kind)
    return (str(name) if module in ("builtins", MAIN) or type(module) is not str else "%s.%s" % (module, name))[:100]


def is_of_library(file):
    return file.startswith(LIBRARY) or any(part in file for part in INSTALLED)


def is_written_by_library(value):
    """Whether dataclass, namedtuple or the like has made this method of a class."""
    value = value.__func__ if type(value) is staticmethod else value
    return type(value) is function_type and (value.__code__.co_filename == "<string>" or is_of_library(value.__code__.co_filename))


class World:
    """What all pickles of one save have in common. keys: id of a function or class → the name that the session has it by."""

    def __init__(self, namespace):
        self.namespace, self.keys, self.singles, self.roots, self.kinds, self.held = namespace, {}, {}, {}, {}, []
        self.values = {id(value) for value in namespace.values()}
        for name, value in namespace.items():
            if type(name) is str and name[:2] != "__" and self.is_definition(value) and not importable(value):
                if id(value) not in self.keys or words_of(value)[1] == name:
                    self.keys[id(value)] = name

    @staticmethod
    def is_definition(value):
        kind = type(value)
        return kind is function_type or issubclass(kind, type) or kind is getattr(IMPORTED.get("functools"), "_lru_cache_wrapper", None)

    def single(self, name, value):
        """(module, name) of what a module has as it is, such as a sentinel or sys.stdout; else None."""
        for module in (name, "sys"):
            table = self.singles.get(module)
            if table is None:
                found = IMPORTED.get(module) if module != MAIN else None
                table = self.singles[module] = {id(one): key for key, one in vars(found).items()} if type(found) is module_type else {}
            if id(value) in table:
                return module, table[id(value)]
        return None

    def is_library(self, name):
        """Whether a module is not the user's, so that reading its values runs no code of cells or of the workspace."""
        root = name.partition(".")[0]
        if root not in self.roots:
            file = getattr(IMPORTED.get(root), "__file__", None) or LIBRARY
            self.roots[root] = root != MAIN and type(file) is str and is_of_library(file)
        return self.roots[root]

    def is_active(self, kind):
        """Whether reading a value of this type runs code of the user's."""
        own = [namespace_of(each) for each in type.__dict__["__mro__"].__get__(kind) if not self.is_library(module_of(each))]
        return any(space.get(name) is not None and not is_written_by_library(space[name]) for space in own for name in ACTIVE)


class Pickler(_pickle.Pickler):
    """One pickle. own: the names of functions and classes that are in it by value."""

    def __init__(self, file, world, own):
        self.world, self.own, self.needs, self.files, self.used, self.modules = world, own, set(), set(), set(), set()
        self.referred, self.spaces, self.active = set(), {}, False  # ids of what is in it by name; whether reading it runs code of the user's
        self.dispatch_table = getattr(IMPORTED.get("copyreg"), "dispatch_table", {})
        self.reducers = reducers()
        super().__init__(file, 5)

    def reducer_override(self, value):
        kind = type(value)
        if self.world.is_definition(value):
            if any(value is each for each in CONSTANTS) or importable(value):
                self.modules.add(value.__module__)
                self.referred.add(id(value))
                return NotImplemented
            key = self.world.keys.get(id(value), "")
            if key and key not in self.own:
                self.referred.add(id(value))
                self.needs.add(key)
                return make.by_name, (key,)
            return self.class_(value, key) if issubclass(kind, type) else self.reducers[kind](self, value, key)
        if kind not in self.world.kinds:
            self.world.kinds[kind] = module_of(kind), self.world.is_active(kind)
        module, active = self.world.kinds[kind]
        self.active = self.active or active
        single = self.world.single(module, value)
        if single is not None:
            self.referred.add(id(value))
            return make.attribute, single
        if kind in self.reducers:
            return self.reducers[kind](self, value, "")
        if kind is builtin_type:
            self.referred.add(id(value))
        return NotImplemented

    def shared(self):
        """Ids of the objects in it that more than one name may have, and change. They stay valid: the world holds the objects."""
        memo = self.memo.copy()
        kinds = {kind: kind not in ATOMS and not is_fixed(kind) for kind in {type(value) for _, value in memo.values()}}
        found = [value for _, value in memo.values() if kinds[type(value)] and id(value) not in self.referred and id(value) not in self.world.keys]
        self.world.held.append(found)
        return list(map(id, found))

    def function(self, value, key):
        code, scope = value.__code__, value.__globals__
        self.files.add(code.co_filename)
        self.used.update(names_in(code))
        if scope is self.world.namespace:
            scope = ""
        elif vars(IMPORTED.get(scope.get("__name__"), make)) is scope:
            scope = scope["__name__"]
        else:
            scope = self.spaces.setdefault(id(value), {name: scope[name] for name in names_in(code) if name in scope})
        state = (value.__name__, value.__qualname__, value.__module__, value.__doc__, value.__defaults__, value.__kwdefaults__,
                 value.__annotations__ or None, value.__dict__ or None, getattr(value, "__type_params__", None) or None)
        return make.make_function, (key, marshal.dumps(code), scope, value.__closure__), state, None, None, make.fill_function

    def class_(self, value, key):
        kind, space = type(value), namespace_of(value)
        if not value.__flags__ & HEAP_TYPE or "__module__" not in space:
            raise NotKept("the class %s is in it, which no import finds" % type_name(value))
        name, qualname, enum = value.__name__, value.__qualname__, IMPORTED.get("enum")
        if enum is not None and issubclass(kind, enum.EnumMeta):
            members = {each: member._value_ for each, member in value._member_map_.items()}
            rest = tuple((each, one) for each, one in space.items() if each not in members and each not in ("__new__", "__doc__", "__dict__")
                         and not (each[:1] == "_" and each[-1:] == "_" and each[1:2] != "_"))
            more = {each: dict(vars(member)) for each, member in value._member_map_.items()}
            return make.make_enum, (key, kind, name, value.__bases__, members, space["__module__"], qualname), (rest, more), None, None, make.fill_enum
        head = tuple((each, space[each]) for each in ("__module__", "__slots__", "__orig_bases__") if each in space)
        rest = tuple((each, one) for each, one in space.items() if type(one) is not member_type and each not in ("__slots__", "_abc_impl")
                     and not (type(one) is getset_type and each in ("__dict__", "__weakref__")))
        if "_abc_impl" in space:
            rest += (("_abc_impl", tuple(filter(None, (each() for each in _abc._get_dump(value)[0])))),)
        return make.make_class, (key, kind, name, qualname, value.__bases__, head), rest, None, None, make.fill_class


def names_in(code):
    return {*code.co_names}.union(*(names_in(each) for each in code.co_consts if type(each) is code_type))


def is_fixed(kind):
    module = module_of(kind).partition(".")[0]
    if module in ("numpy", "pandas"):
        return any(word in each.__name__ for each in kind.__mro__ for word in FIXED_OF_ARRAYS)
    return module in FIXED


def reducers():
    """type → how it goes into a pickle. Some types are those of modules that the code may have imported."""
    table = {
        function_type: Pickler.function,
        cell_type: of_cell,
        code_type: lambda pickler, value, _: (make.code_of, (marshal.dumps(value),)),
        module_type: of_module,
        make.method_type: lambda pickler, value, _: (make.make_method, (value.__func__, value.__self__)),
        property: lambda pickler, value, _: (property, (value.fget, value.fset, value.fdel, value.__doc__)),
        classmethod: lambda pickler, value, _: (classmethod, (value.__func__,)),
        staticmethod: lambda pickler, value, _: (staticmethod, (value.__func__,)),
        proxy_type: lambda pickler, value, _: (make.make_proxy, (gc.get_referents(value)[0],)),  # of the dictionary that it shows
    }
    for name, reduce in OF_MODULES.items():
        module, _, name = name.partition(".")
        kind = getattr(IMPORTED.get(module), name, None)
        if issubclass(type(kind), type):
            table[kind] = reduce
    return table


def of_cell(pickler, value, _):
    try:
        return make.make_cell, (), (value.cell_contents,), None, None, make.fill_cell
    except ValueError:  # it is empty
        return make.make_cell, ()


def of_module(pickler, value, _):
    name = vars(value).get("__name__")
    if type(name) is not str or IMPORTED.get(name) is not value or name == MAIN:
        raise NotKept("a module that no import finds is in it")
    pickler.referred.add(id(value))
    pickler.modules.add(name)
    return make.import_module, (name,)


def of_cached(pickler, value, key):
    """lru_cache: what it holds is made anew."""
    return (make.make_cached, (key, value.__wrapped__, *value.cache_parameters().values()),
            {name: one for name, one in vars(value).items() if name not in ("__wrapped__", "cache_parameters")})


def of_type_variable(pickler, value, _):
    return make.make_type_variable, (type(value), value.__name__, value.__constraints__, value.__bound__, value.__covariant__,
                                     value.__contravariant__, value.__module__)


def of_array(pickler, value, _):
    """A view of an array that has a name of its own stays one."""
    base = value.base
    if id(base) not in pickler.world.values or type(base) is not type(value) or not base.flags.c_contiguous or value.dtype.hasobject:
        return NotImplemented
    offset = value.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return type(value), (value.shape, value.dtype, base, offset, value.strides)


OF_MODULES = {
    "functools._lru_cache_wrapper": of_cached,
    "functools.cached_property": lambda pickler, value, _: (type(value), (value.func,), {"attrname": value.attrname}),
    "typing.TypeVar": of_type_variable,
    "typing.NewType": lambda pickler, value, _: (type(value), (value.__name__, value.__supertype__), {"__module__": value.__module__}),
    "weakref.WeakKeyDictionary": lambda pickler, value, _: (type(value), (dict(value),)),
    "weakref.WeakValueDictionary": lambda pickler, value, _: (type(value), (dict(value),)),
    "weakref.WeakSet": lambda pickler, value, _: (type(value), (list(value),)),
    "numpy.ndarray": of_array,
}
