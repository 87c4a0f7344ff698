"""Common uses of threads, tasks and processes. Sent as one cell; each function is one case."""
import asyncio
import concurrent.futures
import multiprocessing
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from multiprocessing import shared_memory


def square(x):
    return x * x


def put_square(out, x):
    out.put(x * x)


def fill(name, value):
    block = shared_memory.SharedMemory(name=name)
    block.buf[:4] = bytes([value] * 4)
    block.close()


def threads():
    found, lock = [], threading.Lock()

    def work(number):
        with lock:
            found.append(number)
    started = [threading.Thread(target=work, args=(n,)) for n in range(50)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join(5)
    assert sorted(found) == list(range(50))


def threads_with_conditions_and_timers():
    inbox, fired = queue.Queue(), threading.Event()
    threading.Timer(0.01, fired.set).start()
    threading.Thread(target=lambda: inbox.put(threading.get_native_id())).start()
    assert inbox.get(timeout=5) != threading.get_native_id() and fired.wait(5)
    barrier = threading.Barrier(3)
    for _ in range(2):
        threading.Thread(target=barrier.wait).start()
    barrier.wait(5)


def asyncio_tasks():
    async def main():
        return await asyncio.gather(*(asyncio.sleep(0.01, n) for n in range(100)))
    assert asyncio.run(main()) == list(range(100))


def asyncio_subprocess():
    async def main():
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "print(input()[::-1])", stdin=-1, stdout=-1)
        out, _ = await process.communicate(b"abc\n")
        shell = await asyncio.create_subprocess_shell("exit 3")
        return out, await shell.wait()
    assert asyncio.run(main()) == (b"cba\n", 3)


def asyncio_loopback():
    async def serve(reader, writer):
        writer.write((await reader.readline()).upper())
        writer.close()

    async def main():
        for starter, opener in ((asyncio.start_server, asyncio.open_connection),
                                (asyncio.start_unix_server, asyncio.open_unix_connection)):
            tcp = starter is asyncio.start_server
            server = await (starter(serve, "127.0.0.1", 0) if tcp else starter(serve, "/tmp/a.sock"))
            place = server.sockets[0].getsockname()
            reader, writer = await (opener(*place) if tcp else opener(place))
            writer.write(b"hello\n")
            assert await reader.read() == b"HELLO\n"
            writer.close()
            server.close()
            await server.wait_closed()
    asyncio.run(main())


def asyncio_signals():
    async def main():
        arrived = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, arrived.set)
        os.kill(os.getpid(), signal.SIGUSR1)
        await asyncio.wait_for(arrived.wait(), 5)
        asyncio.get_running_loop().remove_signal_handler(signal.SIGUSR1)
    asyncio.run(main())


def asyncio_threads_and_executor():
    async def main():
        loop = asyncio.get_running_loop()
        with concurrent.futures.ProcessPoolExecutor(2) as pool:
            far = loop.run_in_executor(pool, square, 12)
            return await asyncio.to_thread(square, 11), await far
    assert asyncio.run(main()) == (121, 144)


def signals_and_timers():
    numbers = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: numbers.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    end = time.monotonic() + 5
    while not numbers and time.monotonic() < end:
        time.sleep(0.01)
    signal.signal(signal.SIGALRM, before)
    assert numbers == [signal.SIGALRM]


def subprocess_pipes_and_shell():
    assert subprocess.check_output("echo a b | wc -w", shell=True).strip() == b"2"
    done = subprocess.run(["sort", "-r"], input=b"a\nb\n", capture_output=True, check=True)
    assert done.stdout == b"b\na\n"
    first = subprocess.Popen(["printf", "x\\ny\\n"], stdout=subprocess.PIPE)
    second = subprocess.Popen(["tail", "-1"], stdin=first.stdout, stdout=subprocess.PIPE)
    assert second.communicate(timeout=5)[0] == b"y\n" and first.wait(5) == 0


def subprocess_timeouts_and_groups():
    try:
        subprocess.run(["sleep", "30"], timeout=0.05)
    except subprocess.TimeoutExpired:
        pass
    child = subprocess.Popen(["sleep", "30"], start_new_session=True, close_fds=True, cwd="/tmp",
                             env={"PATH": os.environ["PATH"]})
    os.killpg(child.pid, signal.SIGTERM)
    assert child.wait(5) == -signal.SIGTERM


def spawned_by_posix():
    pid = os.posix_spawnp("sh", ["sh", "-c", "exit 7"], os.environ)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    pid = os.fork()
    if pid == 0:
        os._exit(8)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 8
    descriptor = os.pidfd_open(os.getpid())
    os.close(descriptor)


def processes(method):
    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        assert pool.map(square, range(10)) == [n * n for n in range(10)]
    out = context.Queue()
    child = context.Process(target=put_square, args=(out, 9))
    child.start()
    assert out.get(timeout=20) == 81
    child.join(20)
    with context.Manager() as manager:
        shared = manager.dict(a=1)
        shared["b"] = 2
        assert dict(shared) == {"a": 1, "b": 2}
    value, event = context.Value("i", 5), context.Event()
    with value.get_lock():
        value.value += 1
    event.set()
    assert value.value == 6 and event.is_set() and child.exitcode == 0


def multiprocessing_fork():
    processes("fork")


def multiprocessing_spawn():
    processes("spawn")


def multiprocessing_forkserver():
    processes("forkserver")


def multiprocessing_shared_memory():
    block = shared_memory.SharedMemory(create=True, size=4096)
    child = multiprocessing.Process(target=fill, args=(block.name, 7))
    child.start()
    child.join(10)
    assert bytes(block.buf[:4]) == b"\7" * 4
    block.close()
    block.unlink()
    names = shared_memory.ShareableList([1, "two", 3.0])
    assert list(names) == [1, "two", 3.0]
    names.shm.close()
    names.shm.unlink()


def multiprocessing_pipes_and_locks():
    ours, theirs = multiprocessing.Pipe()
    with multiprocessing.Lock(), multiprocessing.Semaphore(2), multiprocessing.RLock():
        theirs.send({"a": [1, 2]})
    assert ours.poll(5) and ours.recv() == {"a": [1, 2]}


def process_pool_executor():
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        assert list(pool.map(square, range(20), chunksize=5)) == [n * n for n in range(20)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(square, range(100))) == 328350


def sockets():
    left, right = socket.socketpair()
    left.sendall(b"x" * 1000)
    assert len(right.recv(1000, socket.MSG_WAITALL)) == 1000
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
        with socket.create_connection(server.getsockname()[:2]) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            assert server.accept()[1][0] == "::1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.bind(("localhost", 0))
        datagrams.sendto(b"self", datagrams.getsockname())
        assert datagrams.recvfrom(10)[0] == b"self"
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with open("/work/passed", "w+") as file:
        socket.send_fds(ours, [b"f"], [file.fileno()])
        _, descriptors, _, _ = socket.recv_fds(theirs, 10, 1)
        os.write(descriptors[0], b"by descriptor")
        file.seek(0)
        assert file.read() == "by descriptor"
