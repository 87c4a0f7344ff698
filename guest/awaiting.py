"""Top-level await: one event loop a session, so that tasks and connections live on between cells.

The loop and its tasks are objects of the asyncio that code sees, imported at the first cell that needs it.
"""
import _signal
import sys
from _thread import get_ident

COROUTINE = load("language").COROUTINE
imports = load("imports")
STEP_S = 0.25  # well below the second after which an interrupted session is killed


async def whole(codes, namespace):
    value = None
    for code in codes:
        value = eval(code, namespace)
        if code.co_flags & COROUTINE:
            value = await value
    return value


def first_loop():
    """Before 3.10, queues and locks bind to the default loop where they are made: makes the session's loop that one."""
    if sys.version_info < (3, 10):
        try:
            loop = asyncio.get_event_loop()
            if not loop.is_closed():
                return loop
        except RuntimeError:
            pass
    return asyncio.new_event_loop()


class Awaited:
    """A cell that runs as a task of the loop, among tasks that may be meant to outlive it."""

    def __init__(self, session, loop, task):
        self.session, self.loop, self.task = session, loop, task
        self.interrupted = False
        self.watch = None

    def takes_interrupt(self):
        """Whether the cell is cancelled at the loop's next turn, so that no exception is needed here.

        KeyboardInterrupt in another task's step would end that task, and in the loop's own code lose a callback. A step
        that takes longer than STEP_S is interrupted all the same.
        """
        if self.interrupted or asyncio.current_task(self.loop) is self.task:
            return False
        self.interrupted = True
        self.session.where = ()  # the other task's position says nothing about the cell
        note_place(self.session, self.task.get_coro())
        self.watch = threading.Timer(STEP_S, _signal.pthread_kill, (get_ident(), _signal.SIGINT))
        self.watch.daemon = True
        self.watch.start()
        self.loop.call_soon_threadsafe(self.cancel)
        return True

    def cancel(self):
        self.watch.cancel()
        self.task.cancel()

    def close(self):
        if self.watch is not None:
            self.watch.cancel()
            self.watch.join()


def run(session, codes):
    global asyncio, threading
    asyncio, threading = imports.shared("asyncio"), imports.shared("threading")
    loop = session.loop
    if loop is None or loop.is_closed():
        loop = session.loop = first_loop()
    asyncio.set_event_loop(loop)
    task = loop.create_task(whole(codes, session.namespace))
    session.awaited = awaited = Awaited(session, loop, task)
    try:
        return loop.run_until_complete(task)
    except BaseException as error:
        if not task.done():
            note_place(session, task.get_coro())
            task.cancel()
            try:
                loop.run_until_complete(task)
            except asyncio.CancelledError:
                pass
        elif awaited.interrupted and isinstance(error, asyncio.CancelledError):
            raise KeyboardInterrupt from None
        raise
    finally:
        session.awaited = None
        awaited.close()


def note_place(session, coroutine):
    """Notes where the coroutine waits when an interrupt hits the loop or another task."""
    frame = None
    while coroutine is not None:
        own = getattr(coroutine, "cr_frame", None)
        if own is not None and own.f_code.co_filename in session.sources:
            frame = own
        coroutine = getattr(coroutine, "cr_await", None)
    if frame is not None and not session.where:
        session.where = session.place(frame)
