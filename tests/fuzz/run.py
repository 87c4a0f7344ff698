"""Build every fuzz target with clang and run each for a time, one after the other:

    run.py [SECONDS [TARGET...]]       900 seconds each by default

Each run starts with the tree's corpus and writes new inputs to build-fuzz/. The last line of the output is a summary.
The exit status is 1 when an input violated a property; the input is kept and named. Add it to the corpus together with
the fix.
"""
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build-fuzz"
SANITIZERS = {"ASAN_OPTIONS": "strict_string_checks=1:detect_stack_use_after_return=1",
              "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}


def build():
    if not (BUILD / "build.ninja").exists():
        subprocess.run(["meson", "setup", BUILD, "-Dfuzz=true", "-Db_sanitize=address,undefined",
                        "-Db_lundef=false"], cwd=ROOT, env={**os.environ, "CC": "clang"}, check=True,
                       stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "--quiet", "-C", BUILD], check=True)


def search(target, seconds):
    """(inputs tried, edges reached, failing inputs), or None if the target cannot run here."""
    corpus, broken = BUILD / "corpus" / target, BUILD / "broken" / target
    corpus.mkdir(parents=True, exist_ok=True)
    broken.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [BUILD / "tests" / "fuzz" / f"fuzz_{target}", f"-max_total_time={seconds}", "-timeout=120", "-report_slow_units=120",
         "-rss_limit_mb=2048", "-print_final_stats=1", "-error_exitcode=1", f"-artifact_prefix={broken}/", corpus,
         ROOT / "tests" / "corpus" / target],
        env={**os.environ, **SANITIZERS}, capture_output=True)
    log = done.stderr.decode(errors="replace")
    (BUILD / f"fuzz-{target}.log").write_text(log)
    if done.returncode == 77:
        return None
    runs = re.findall(r"number_of_executed_units: (\d+)", log)
    edges = re.findall(r"\bcov: (\d+)", log)
    names = [str(path) for path in sorted(broken.iterdir())]
    if done.returncode and not names:
        names = [str(BUILD / f"fuzz-{target}.log")]
    return int(runs[-1]) if runs else 0, int(edges[-1]) if edges else 0, names


def main():
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 900
    sources = sorted((ROOT / "tests" / "fuzz").glob("fuzz_*.c"))
    targets = sys.argv[2:] or [path.stem.removeprefix("fuzz_") for path in sources]
    build()
    total, broken, skipped = 0, [], []
    for target in targets:
        found = search(target, seconds)
        if found is None:
            skipped.append(target)
            print(f"{target:10} skipped: mount namespaces are refused here", flush=True)
            continue
        runs, edges, names = found
        total += runs
        broken += names
        print(f"{target:10} {runs:>12,} inputs  {edges:>5} edges  {len(names)} broke it", flush=True)
    for name in broken:
        print(f"broken     {name}")
    note = f", {len(skipped)} skipped" if skipped else ""
    print(f"{len(targets)} targets{note}, {seconds} s each: {total:,} inputs, {len(broken)} broke a property")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
