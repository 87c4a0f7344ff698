"""Packages and programs that must work if they are installed. Sent as one cell; each function is one case, and returns
the reason if it cannot run."""
import importlib.util
import os
import pathlib
import shutil
import subprocess


def missing(*names):
    for name in names:
        if not importlib.util.find_spec(name):
            return f"{name}: not installed for this interpreter"
    return None


def without(*programs):
    for name in programs:
        if not shutil.which(name):
            return f"{name}: the program is not installed"
    return None


def output(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


def numpy_arrays():
    if missing("numpy"):
        return missing("numpy")
    import numpy as np
    a = np.random.default_rng(1).random((300, 300))
    assert np.allclose(np.linalg.inv(a) @ a, np.eye(300), atol=1e-6)
    np.save("a.npy", a)
    assert np.array_equal(np.load("a.npy", mmap_mode="r"), a)
    assert abs(np.fft.ifft(np.fft.fft(a[0])).real - a[0]).max() < 1e-9


def pandas_tables():
    if missing("pandas"):
        return missing("pandas")
    import pandas as pd
    frame = pd.DataFrame({"k": list("abab"), "v": [1, 2, 3, 4],
                          "t": pd.date_range("2024-01-01", periods=4, tz="Europe/Berlin")})
    frame.to_csv("t.csv", index=False)
    assert pd.read_csv("t.csv").groupby("k").v.sum().to_dict() == {"a": 4, "b": 6}
    frame.to_pickle("t.pkl")
    assert pd.read_pickle("t.pkl").equals(frame)


def matplotlib_figures():
    if missing("matplotlib"):
        return missing("matplotlib")
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots()
    axes.plot([1, 2, 3], label="ü")
    axes.set_title(r"$\alpha$")
    for kind in ("png", "svg", "pdf"):
        figure.savefig(f"plot.{kind}")
        assert os.path.getsize(f"plot.{kind}") > 1000
    plt.close(figure)


def scipy_routines():
    if missing("scipy"):
        return missing("scipy")
    from scipy import integrate, optimize, sparse, stats
    assert abs(integrate.quad(lambda x: x * x, 0, 3)[0] - 9) < 1e-9
    assert abs(optimize.brentq(lambda x: x ** 3 - 8, 0, 5) - 2) < 1e-9
    assert stats.ttest_ind([1, 2, 3], [4, 5, 6]).pvalue < 0.05
    assert sparse.eye(10).sum() == 10


def scikit_learn_models():
    if missing("sklearn"):
        return missing("sklearn")
    from sklearn.cluster import KMeans
    from sklearn.datasets import make_classification
    from sklearn.ensemble import RandomForestClassifier
    x, y = make_classification(300, random_state=1)
    assert RandomForestClassifier(20, n_jobs=2, random_state=1).fit(x, y).score(x, y) > 0.9
    assert len(set(KMeans(3, n_init=3, random_state=1).fit(x).labels_)) == 3


def pillow_images():
    if missing("PIL"):
        return missing("PIL")
    from PIL import Image, ImageDraw
    image = Image.new("RGB", (200, 100), "white")
    ImageDraw.Draw(image).ellipse((10, 10, 90, 90), fill="red")
    for kind in ("png", "jpeg", "gif"):
        image.save(f"i.{kind}")
        assert Image.open(f"i.{kind}").size == (200, 100)


def git_repository():
    if without("git"):
        return without("git")
    pathlib.Path("repo").mkdir()
    for command in ("init -q -b main", "config user.email a@b.c", "config user.name n"):
        output("git", *command.split(), cwd="repo")
    pathlib.Path("repo/f").write_text("1\n")
    output("git", "add", ".", cwd="repo")
    output("git", "commit", "-qm", "first", cwd="repo")
    output("git", "clone", "-q", "repo", "clone")
    output("git", "gc", "-q", cwd="repo")
    assert "first" in output("git", "log", "--oneline", cwd="clone")
    assert output("git", "status", "--porcelain", cwd="clone") == ""


def compiled_program():
    if without("gcc"):
        return without("gcc")
    pathlib.Path("p.c").write_text("#include <stdio.h>\n#include <math.h>\n"
                                   "int main(void) { printf(\"%.0f\\n\", sqrt(144)); }\n")
    output("gcc", "-O2", "p.c", "-o", "p", "-lm")
    assert output("./p") == "12\n"
    output("gcc", "-shared", "-fPIC", "-x", "c", "-o", "libq.so", "-", input="int q(void) { return 9; }")
    import ctypes
    assert ctypes.CDLL("./libq.so").q() == 9


def make_and_shell_scripts():
    if without("make", "bash"):
        return without("make", "bash")
    pathlib.Path("Makefile").write_text("all: a b\na b:\n\techo $@ > $@\n")
    output("make", "-j4")
    script = "set -eo pipefail; for f in a b; do cat <(cat $f); done | sort -r | xargs echo"
    assert output("bash", "-c", script) == "b a\n"


def text_programs():
    pathlib.Path("t").write_text("b 2\na 1\n")
    assert output("sh", "-c", "sort t | awk '{s += $2} END {print s}'") == "3\n"
    assert output("sed", "-n", "s/b /c/p", "t") == "c2\n"
    assert output("sh", "-c", "tar cf - t | tar tf -; find . -name t; grep -c a t") == "t\n./t\n1\n"
    assert output("sh", "-c", "date +%Y; uname -s; id -u; df -P . | wc -l; nproc").split()[1] == "Linux"


def perl_script():
    if without("perl"):
        return without("perl")
    assert output("perl", "-e", "use POSIX; my @a = map { $_ ** 2 } 1..3; print floor($a[2] / 2)") == "4"


def node_script():
    if without("node"):
        return without("node")
    script = "const fs = require('fs'); fs.writeFileSync('n', 'x'); " \
             "require('child_process').execSync('cp n m'); new (require('worker_threads').Worker)(" \
             "'setTimeout(() => console.log(require(\"fs\").readFileSync(\"m\", \"utf8\")), 5)', " \
             "{eval: true})"
    assert output("node", "-e", script) == "x\n"
