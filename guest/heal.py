"""Pools of threads and processes in a state that came back, or a branch: a fork has none of their workers.

Each would wait for them for ever. It forgets them here, and starts others when it needs some; of work that waits in the
queue of a pool of threads nothing is lost. What a worker was doing is, and so is what processes were given: it fails.
"""
import sys

descriptors = load("descriptors")
WATCHER = "asyncio.unix_events"
GONE = "the thread or process that had this work is gone: give it again"
kept = []  # of duckdb: to drop the last reference to a connection closes it
executors = []  # weak references to the ThreadPoolExecutors that had threads at the last fork
watchers = []  # threads of asyncio that each wait for a child process
running = []  # weak references to the futures of what these did


def before_fork():
    """Notes what the library itself forgets in the child (since Python 3.13.4), and what is only in the frames of threads."""
    module = IMPORTED.get("concurrent.futures.thread")
    threads = list(module._threads_queues) if module is not None else ()
    executors[:] = [thread._args[0] for thread in threads]
    watchers[:] = [thread for thread in load("threads").threads_of_python(IMPORTED["threading"]) if getattr(
        thread._target, "__module__", "") == WATCHER] if WATCHER in IMPORTED else ()
    del running[:]
    frames = sys._current_frames() if threads else {}
    for frame in map(frames.get, [thread.ident for thread in threads]):
        while frame is not None:
            if frame.f_code is module._WorkItem.run.__code__:
                running.append(IMPORTED["weakref"].ref(frame.f_locals["self"].future))
            frame = frame.f_back


def fail(future):
    if future is not None and future._state in ("PENDING", "RUNNING"):
        future._condition = IMPORTED["threading"].Condition()  # which a thread may have held
        future.set_exception(RuntimeError(GONE))


def watch_again():
    while watchers:
        thread = watchers.pop()
        IMPORTED["threading"].Thread(target=thread._target, args=thread._args, daemon=True).start()


def items_of(queue):
    while not queue.empty():
        item = queue.get_nowait()
        if item is not None:
            yield item


def thread_executors(module):
    """ThreadPoolExecutor, and so the default executor of event loops and dask's threads."""
    found = {id(executor): executor for reference in executors if (executor := reference()) is not None}
    module._threads_queues.clear()
    threading, queue = IMPORTED["threading"], IMPORTED["queue"]
    for executor in found.values():
        waiting = list(items_of(executor._work_queue))
        executor._threads.clear()
        executor._idle_semaphore = threading.Semaphore(0)
        executor._shutdown_lock = threading.Lock()
        executor._work_queue = queue.SimpleQueue()
        for item in waiting:
            executor._work_queue.put(item)
        for _ in waiting[:executor._max_workers]:
            executor._adjust_thread_count()
    for reference in running:
        fail(reference())


def pools(session, module):
    """multiprocessing's Pool and ThreadPool, in a variable or in what one holds."""
    for pool in descriptors.found(session, module.Pool):
        if pool._state == module.RUN:
            pool._terminate.cancel()
            own, pending, has_threads = (pool._processes, pool._initializer, pool._initargs), pool._cache, isinstance(pool, module.ThreadPool)
            waiting = list(items_of(pool._inqueue)) if has_threads else ()
            pool.__init__(*own, *(() if has_threads else (pool._maxtasksperchild, pool._ctx)))
            for job, result in pending.items():
                tasks = [task for task in waiting if task[0] == job]
                go_on(pool, job, result, tasks) if len(tasks) >= lacks(result) else fail_result(job, result)


def lacks(result):
    """How many tasks it waits for: it has a number for that, or is an iterator, or the result of one."""
    own = vars(result)
    return own["_length"] - own["_index"] - len(own["_unsorted"]) if own.get("_length") else own.get("_number_left", 1)


def go_on(pool, job, result, tasks):
    pool._cache[job], result._cache = result, pool._cache
    for task in tasks:
        pool._inqueue.put(task)


def fail_result(job, result):
    result._cache, result._number_left, result._length = {job: result}, 1, getattr(result, "_index", 0) + 1
    result._set(result._length - 1, (False, RuntimeError(GONE)))


def process_executors(session, module):
    """Those of the standard library, and joblib's."""
    for executor in descriptors.found(session, module.ProcessPoolExecutor):
        if executor._executor_manager_thread is not None:
            pending, own = executor._pending_work_items, vars(executor)
            module.ProcessPoolExecutor.__init__(executor, executor._max_workers, **{
                name[1:]: own[name] for name in ("_mp_context", "_initializer", "_initargs", "_context", "_timeout", "_env") if name in own})
            for item in pending.values():
                fail(item.future)


def connections(session, module):
    if load("threads").NOT_CLOSED in load("orphan").lost_threads:
        kept.extend(descriptors.found(session, (module.DuckDBPyConnection, module.DuckDBPyRelation)))


def begin_anew(session):
    """One library whose insides have changed must not keep the others from it."""
    for name, heal in (
            ("concurrent.futures.thread", thread_executors),
            (WATCHER, lambda module: watch_again()),
            ("multiprocessing.util", lambda module: module._run_after_forkers()),  # queues
            ("multiprocessing.pool", lambda module: pools(session, module)),
            ("concurrent.futures.process", lambda module: process_executors(session, module)),
            ("duckdb", lambda module: connections(session, module)),
            ("joblib.externals.loky.process_executor", lambda module: process_executors(session, module)),
            ("joblib.externals.loky.reusable_executor", lambda module: setattr(module, "_executor", None)),
            ("trio._core._thread_cache", lambda module: module.THREAD_CACHE._idle_workers.clear()),
            ("gevent", lambda module: module.reinit())):
        if name in IMPORTED:
            session.guard([], name, heal, IMPORTED[name])
