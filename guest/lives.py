"""What becomes of a session with --keep, between the server's frames and keep.py: a copy of it is saved, and a new session
gets what was saved.

The copy is a branch (branch.py) that runs no cell. Its output, which is all that the server takes, is what keep.py writes;
descriptors 1 and 2 lead nowhere.
"""
import os

frames = load("frames")
streams = load("streams")
tags = load("tags")
NOT_BACK_MAX = 300  # that the server receives by name; a frame has at most 4096 fields
WORD_MAX = 300


def answer(session, verb, fields, fds):
    if verb == "keep":
        reply = save(session, fields)
        frames.send(session.control, session.inode, frames.pack(reply))
    else:
        reply = bring_back(session, fields, fds)
        frames.send(session.control, session.inode, frames.pack(reply))
        load("checkpoint").make(session, session.control, fields["cell"])


def limits(fields):
    return {"name_s": int(fields["name_ms"]) / 1000, "all_s": int(fields["all_ms"]) / 1000}


def save(session, fields):
    """In the copy."""
    status, kind = "ok", ""
    try:
        load("keep").save(session.namespace, session.sources, os.dup(frames.OUT_FD), layers=session.layers, root=session.root,
                          max_bytes=int(fields["bytes"]), **limits(fields))
    except BaseException as error:
        status, kind = "error", type(error).__name__
    return "result", "cell", fields["cell"], "status", status, "error_type", kind


def bring_back(session, fields, fds):
    session.cell = fields["cell"].decode()
    IMPORTED["__main__"] = session.main
    session.take_packages(fields)
    streams.renew()
    tags.mark_cell(int(fields["cell"]))
    reply = ["back", "cell", fields["cell"]]
    try:
        reply += describe(session, load("keep_load").bring_back(
            fds[0], session.namespace, careful=fields["careful"] != b"0", **limits(fields)))
    except BaseException as error:
        reply += ("not_back", "all variables", "reason", type(error).__name__)
    session.clean_up(False, streams.flush)
    tags.mark_cell(0)
    frames.close(fds)
    return reply


def describe(session, report):
    for name, source in report["sources"].items():
        session.remember(name, source)
    fields = ["names", str(report["names"]), "imports", str(report["imports"]), "settings", str(int(report["settings"]))]
    if report["cwd_gone"]:
        fields += ("cwd", report["cwd_gone"])
    for name in report["back"][:NOT_BACK_MAX]:
        fields += ("var", "+" + name)
    lost = report["not_back"]
    for each in lost[:NOT_BACK_MAX]:
        fields += ("not_back", each["name"][:WORD_MAX])
        for key in "type", "reason", "cell", "line":
            fields += (key, str(each[key])[:WORD_MAX])
    if len(lost) > NOT_BACK_MAX:
        fields += ("not_back_more", str(len(lost) - NOT_BACK_MAX))
    if not report["whole"]:
        fields += ("torn", "1")
    return fields
