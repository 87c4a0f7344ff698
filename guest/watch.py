"""Prepares some libraries as soon as the code has imported them."""
imports = load("imports")


def session():
    return load("session").SESSION


def tune(_):
    load("display").tune_libraries(IMPORTED, session().tuned)


def adopt_ipython(module):
    """IPython's display without IPython's shell would only print."""
    module.display = load("session").display


def ask_plainly(module):
    """getpass without a terminal would warn of that on four lines, and fail twice where there is no input."""
    def getpass(prompt="Password: ", stream=None, **_):
        return IMPORTED["builtins"].input(prompt)

    load("stack").wear(getpass, module.getpass)
    module.getpass = getpass


def seed(module):
    """Of random and of numpy.random: --seed."""
    module.seed(int(session().options.partition("seed=")[2].split()[0]))


class Watch:
    """The first finder in sys.meta_path."""

    names = {
        "matplotlib": lambda module: load("figures").adopt_backends(session(), module), "numpy": tune, "pandas": tune,
        "matplotlib.pyplot": lambda module: load("figures").adopt(session(), module),
        "matplotlib._text_helpers": lambda module: load("figures").adopt_text(session(), module),
        "PIL.ImageShow": lambda module: load("display").adopt_pillow(session(), module),
        "plotly.io._renderers": lambda module: load("display").adopt_plotly(session(), module),
        "traceback": lambda module: load("stack").adopt_traceback(module),
        "getpass": ask_plainly, "inspect": lambda module: load("stack").adopt_inspect(module),
        "threading": lambda module: load("stack").adopt_threading(session(), module),
        "warnings": lambda module: load("warned").adopt(session(), module), "IPython.core.display_functions": adopt_ipython,
        "linecache": lambda module: session().share_sources(module), "signal": lambda module: session().note_signals(),
        "pip._internal.cli.main": lambda module: setattr(module, "main", lambda args=None: load("shell").notebook(session()).pip(args)),
    }

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        own = imports.find_shared(name) if path is None else None
        then = cls.names.get(name)
        if then is None:
            return own
        for finder in SYS["meta_path"]:
            spec = own or (finder.find_spec(name, path, target) if finder is not cls else None)
            if spec is not None and spec.loader is not None:
                execute = spec.loader.exec_module

                def exec_module(module):
                    execute(module)
                    try:
                        then(module)
                    except Exception:  # a module of the workspace with that name
                        pass

                spec.loader.exec_module = exec_module
                return spec
        return None


def begin():
    SYS["meta_path"].insert(0, Watch)
    if "seed=" in session().options:
        Watch.names.update({"random": seed, "numpy.random": seed})
    for name, then in Watch.names.items():
        if name in IMPORTED:  # by --preload
            then(IMPORTED[name])
