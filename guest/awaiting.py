"""Top-level await: one event loop a session, so that tasks and connections live on between cells."""
import asyncio
import signal
import sys
import threading

COROUTINE = load("language").COROUTINE
STEP_S = 0.25  # well below the second after which an interrupted session is killed


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


class Awaited:
    """A cell that runs as a task of the loop, among tasks that may be meant to outlive it."""

    def __init__(self, session, loop, task):
        self.session, self.loop, self.task = session, loop, task
        self.interrupted = False
        self.watch = None

    def takes_interrupt(self):
        """Whether the cell is cancelled at the loop's next turn, so that nothing needs to be raised here and now.

        KeyboardInterrupt in another task's step would end that task, and in the loop's own code lose a callback.
        A step that does not come to its end within STEP_S is interrupted all the same.
        """
        if self.interrupted or asyncio.current_task(self.loop) is self.task:
            return False
        self.interrupted = True
        self.session.where = ""  # that of the other task says nothing
        note_place(self.session, self.task.get_coro())
        self.watch = threading.Timer(STEP_S, signal.pthread_kill, (threading.get_ident(), signal.SIGINT))
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
    """An interrupt that hits the loop or another task: what it interrupts is where the coroutine waits."""
    frame = None
    while coroutine is not None:
        own = getattr(coroutine, "cr_frame", None)
        if own is not None and own.f_code.co_filename in session.sources:
            frame = own
        coroutine = getattr(coroutine, "cr_await", None)
    if frame is not None and not session.where:
        session.where = session.place(frame)
