"""The program of an installer of install_package: runs one step of an installation, in a sandbox of its own.

    python3 -I -B installer.py [install]

The request is one JSON object on stdin, the reply the last line on descriptor 3; {"ready": true} and lines {"progress":
"..."} come before it. stdout and stderr are pip's log. SANDPIPER_STAGE and similar variables name the directories that
are called /stage, /cache ... here. docs/INSTALLER.md has the fields.

fetch    resolve and download into /stage/wheels. Has network access and the shared cache, and therefore runs nothing
         that it downloads: wheels only, no subprocess, nothing imported from /packages. Downloads source archives
         unopened into /stage/sources, with the wheels that their build requires.
build    make wheels of /stage/sources in /stage/built. Runs foreign code; has neither network nor cache.
install  unpack /stage/wheels to /stage/new. Runs none of it, has no network.

A build can write anything to the staging directory: no other step uses a file there that the request does not name.
"""
import contextlib
import gc
import os
import sys

DIRECTORY = os.path.dirname(os.path.abspath(__file__))


def main():
    if not sys.flags.isolated:
        os.execv(sys.executable, [sys.executable, "-I", "-B", *sys.argv])
    gc.disable()  # to look for garbage takes a fifth of the time in which pip loads
    sys.path.insert(0, DIRECTORY)
    import confine
    import failures
    import reply

    sys.path.remove(DIRECTORY)
    os.umask(0o022)
    reply.send({"ready": True})
    if sys.argv[1:] == ["install"]:  # its request comes after another step: pip loads meanwhile, before any layer is seen
        with contextlib.suppress(Exception):  # the step reports it
            confine.load(DIRECTORY, "install")
    request = reply.read_request()
    try:
        place = confine.Place(request)
        confine.enter(request["step"], place)
        answer = confine.present(request)
        if answer is None:
            step = confine.load(DIRECTORY, request["step"])
            gc.freeze()
            gc.enable()
            answer = step.run(request, place)
    except Exception as error:
        failure = failures.of(error)
        if failure.kind == "other":
            import traceback

            traceback.print_exc()
        answer = failure.answer()
    reply.send(answer)


if __name__ == "__main__":
    main()
