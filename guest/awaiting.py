"""Top-level await: one event loop a session, so that tasks and connections live on between cells."""
import asyncio
import sys

COROUTINE = load("language").COROUTINE


async def whole(codes, namespace):
    value = None
    for code in codes:
        value = eval(code, namespace)
        if code.co_flags & COROUTINE:
            value = await value
    return value


def first_loop():
    """Before 3.10, queues and locks bind to the default loop where they are made: that one is ours then."""
    if sys.version_info < (3, 10):
        try:
            loop = asyncio.get_event_loop()
            if not loop.is_closed():
                return loop
        except RuntimeError:
            pass
    return asyncio.new_event_loop()


def run(session, codes):
    loop = session.loop
    if loop is None or loop.is_closed():
        loop = session.loop = first_loop()
    asyncio.set_event_loop(loop)
    task = loop.create_task(whole(codes, session.namespace))
    try:
        return loop.run_until_complete(task)
    except BaseException:
        if not task.done():
            note_place(session, task.get_coro())
            task.cancel()
            try:
                loop.run_until_complete(task)
            except asyncio.CancelledError:
                pass
        raise


def note_place(session, coroutine):
    """An interrupt hits the loop's select; what it interrupted is where the coroutine waits."""
    frame = None
    while coroutine is not None:
        own = getattr(coroutine, "cr_frame", None)
        if own is not None and own.f_code.co_filename in session.sources:
            frame = own
        coroutine = getattr(coroutine, "cr_await", None)
    if frame is not None and not session.where:
        session.where = session.place(frame)
