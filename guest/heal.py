"""Pools of threads and processes in a state that came back, or a branch: a fork has none of their workers.

Each would wait for them for ever. It forgets them here, and starts others when it needs some; of work that waits in the
queue of an executor nothing is lost. What a worker was doing is: its future never ends.
"""
descriptors = load("descriptors")
kept = []  # of duckdb: to drop the last reference to a connection closes it
executors = []  # weak references to the ThreadPoolExecutors that had threads at the last fork


def before_fork():
    """Notes what the library itself forgets in the child (since Python 3.13.4)."""
    module = IMPORTED.get("concurrent.futures.thread")
    executors[:] = [thread._args[0] for thread in list(module._threads_queues)] if module is not None else ()


def thread_executors(module):
    """ThreadPoolExecutor, and so the default executor of event loops and dask's threads."""
    found = {id(executor): executor for reference in executors if (executor := reference()) is not None}
    module._threads_queues.clear()
    threading, queue = IMPORTED["threading"], IMPORTED["queue"]
    for executor in found.values():
        old, new, waiting = executor._work_queue, queue.SimpleQueue(), 0
        while not old.empty():
            item = old.get_nowait()
            if item is not None:
                new.put(item)
                waiting += 1
        executor._threads.clear()
        executor._idle_semaphore = threading.Semaphore(0)
        executor._shutdown_lock = threading.Lock()
        executor._work_queue = new
        for _ in range(min(waiting, executor._max_workers)):
            executor._adjust_thread_count()


def pools(session, module):
    """multiprocessing's Pool and ThreadPool, in a variable or in what one holds."""
    for pool in descriptors.found(session, module.Pool):
        if pool._state == module.RUN:
            pool._terminate.cancel()
            own = (pool._processes, pool._initializer, pool._initargs)
            pool.__init__(*own) if isinstance(pool, module.ThreadPool) else pool.__init__(
                *own, pool._maxtasksperchild, pool._ctx)


def process_executors(session, module):
    for executor in descriptors.found(session, module.ProcessPoolExecutor):
        if executor._executor_manager_thread is not None and not executor._shutdown_thread:
            executor.__init__(executor._max_workers, executor._mp_context, executor._initializer, executor._initargs)


def connections(session, module):
    if load("threads").NOT_CLOSED in load("orphan").lost_threads:
        kept.extend(descriptors.found(session, (module.DuckDBPyConnection, module.DuckDBPyRelation)))


def begin_anew(session):
    """One library whose insides have changed must not keep the others from it."""
    for name, heal in (
            ("concurrent.futures.thread", thread_executors),
            ("multiprocessing.util", lambda module: module._run_after_forkers()),  # queues
            ("multiprocessing.pool", lambda module: pools(session, module)),
            ("concurrent.futures.process", lambda module: process_executors(session, module)),
            ("duckdb", lambda module: connections(session, module)),
            ("joblib.externals.loky.reusable_executor", lambda module: setattr(module, "_executor", None)),
            ("trio._core._thread_cache", lambda module: module.THREAD_CACHE._idle_workers.clear()),
            ("gevent", lambda module: module.reinit())):
        if name in IMPORTED:
            session.guard([], name, heal, IMPORTED[name])
