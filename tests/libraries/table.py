"""Libraries and programs that run.py uses, each in a few lines.

A row: what it needs (modules, programs), the code that prepares (set_up), the code that is used five times and prints
the same each time (use), and known differences: the ways, how what came then begins, and the reason.
"""
import collections

HANGS = "hangs"

Row = collections.namedtuple("Row", "modules programs set_up use differs", defaults=((), (), "", "", ()))
X = "import numpy as np\nX = np.random.RandomState(0).rand(3000, 4); y = (X[:, 0] > 0.5).astype(int)\n"
# A server in a thread of the session, as people start one to try it, for one use.
SERVE = """
import threading
def serve(server, use):
    thread = threading.Thread(target=server.serve_forever, daemon=True); thread.start()
    try: return use('http://127.0.0.1:%d/' % server.server_address[1])
    finally: server.shutdown(); thread.join(); server.server_close()
"""
ALL, BACK = "inside branch undo crash", "branch undo crash"
NO_INOTIFY = (ALL, "error", "the sandbox has no inotify: watch by polling"),


def threads_gone(came, whose, then="make it anew"):
    """What a fork does not copy, and nobody starts again."""
    return ((BACK, came, f"{whose} are gone in what comes back: {then}"),)


BUILD = "import os, subprocess, tempfile\ndef run(*words, **how): return subprocess.run(words, capture_output=True, text=True, check=True, **how).stdout.strip()\n"

# What `make check` uses: installed on most machines, and quick.
SELECTION = {
    "scipy.fft": Row(
        ("scipy",), (), "import numpy as np, scipy.fft\nA = np.arange(200 * 300.).reshape(200, 300)",
        "print(round(float(abs(scipy.fft.fft2(A, workers=2)).sum()), 2), np.linalg.svd(A[:50, :50])[1].shape)"),
    "scikit-learn KMeans": Row(
        ("sklearn",), (), X + "from sklearn.cluster import KMeans",
        "print(KMeans(3, n_init=1, random_state=0).fit(X).cluster_centers_.round(3).tolist())"),
    "sqlite3": Row(
        ("sqlite3",), (), "import sqlite3\ndb = sqlite3.connect('wal.db'); _ = db.execute('pragma journal_mode=wal'); _ = db.execute('create table t(x)')",
        "with db:\n    _ = db.execute('delete from t'); _ = db.executemany('insert into t values(?)', [(n,) for n in range(9)])\n"
        "other = sqlite3.connect('wal.db'); print(other.execute('select sum(x), count(*) from t').fetchall(),\n"
        "    db.execute('pragma integrity_check').fetchall()); other.close()"),
    "http.server": Row(
        (), (), SERVE + "import http.server, urllib.request\n"
        "class Handler(http.server.BaseHTTPRequestHandler):\n    def log_message(self, *_): pass\n"
        "    def do_GET(self): self.send_response(200); self.end_headers(); self.wfile.write(b'hello ' + self.path.encode())",
        "print(serve(http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler), lambda url: urllib.request.urlopen(url + 'a').read()))"),
    "subprocess and asyncio": Row(
        (), (), "import asyncio, subprocess\nasync def pipe():\n"
        "    p = await asyncio.create_subprocess_exec('cat', stdin=-1, stdout=-1); out, _ = await p.communicate(b'through'); return out\n"
        "async def serve():\n    async def answer(reader, writer): writer.write(await reader.readline()); writer.close()\n"
        "    server = await asyncio.start_server(answer, '127.0.0.1', 0); r, w = await asyncio.open_connection(*server.sockets[0].getsockname())\n"
        "    w.write(b'line\\n'); got = await r.readline(); w.close(); server.close(); return got\n"
        "def wait(awaitable):\n    loop = asyncio.new_event_loop()\n    try: return loop.run_until_complete(awaitable)\n    finally: loop.close()",
        "import threading\ndone = []\nt = threading.Thread(target=lambda: done.extend((wait(pipe()), wait(serve())))); t.start(); t.join()\n"
        "print(done, subprocess.run(['sort', '-r'], input=b'a\\nb\\n', capture_output=True).stdout)"),
}

NUMBERS = {
    "numpy and OpenBLAS": Row(
        ("numpy",), (), "import numpy as np\nA = np.random.RandomState(0).rand(600, 600)", "print(round(float((A @ A).sum()), 3), round(float(np.linalg.det(A[:9, :9])), 6))"),
    "pandas": Row(
        ("pandas",), (), "import pandas as pd\ndf = pd.DataFrame({'a': range(1000), 'b': list('vwxyz') * 200})",
        "df.to_csv('p.csv'); print(pd.read_csv('p.csv').groupby('b').a.agg(['sum', 'mean']).to_dict())"),
    "scikit-learn HistGradientBoosting": Row(
        ("sklearn",), (), X + "from sklearn.ensemble import HistGradientBoostingClassifier as H", "print(H(max_iter=5).fit(X, y).score(X, y))"),
    "scikit-learn n_jobs": Row(
        ("sklearn",), (), X + "from sklearn.ensemble import RandomForestClassifier as F; from sklearn.model_selection import GridSearchCV as G",
        "print(G(F(5, random_state=0), {'max_depth': [2, 3]}, cv=2, n_jobs=2).fit(X, y).best_params_, F(5, n_jobs=2, random_state=0).fit(X, y).score(X, y))"),
    "joblib": Row(
        ("joblib",), (), "import joblib, math", "print(joblib.Parallel(2)(joblib.delayed(math.sqrt)(n) for n in (4, 9)),\n"
        "    joblib.Parallel(2, backend='threading')(joblib.delayed(math.sqrt)(n) for n in (16, 25)))"),
    "numba": Row(
        ("numba",), (), "import numba, numpy as np\n@numba.njit(parallel=True)\ndef f(a):\n    s = 0.0\n    for i in numba.prange(len(a)): s += a[i]\n    return s\n"
        "A = np.arange(100000.)\nf(A)", "print(f(A))"),
    "xgboost": Row(
        ("xgboost",), (), X + "import xgboost", "print(xgboost.XGBClassifier(n_estimators=5, n_jobs=2).fit(X, y).score(X, y))"),
    "lightgbm": Row(
        ("lightgbm",), (), X + "import lightgbm", "print(lightgbm.LGBMClassifier(n_estimators=5, n_jobs=2, verbose=-1).fit(X, y).score(X, y))"),
    "faiss": Row(
        ("faiss",), (), X + "import faiss\nX = X.astype('float32')\nindex = faiss.IndexFlatL2(4); index.add(X)", "print(index.search(X[:500], 3)[1].sum())"),
    "torch": Row(
        ("torch",), (), "import torch\ntorch.manual_seed(0); A = torch.rand(500, 500); net = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU())",
        "print(round(float((A @ A).sum()), 1), net(A[None, None]).shape, torch.get_num_threads() > 0)"),
    "torch backward and DataLoader": Row(
        ("torch",), (), "import torch\nclass D(torch.utils.data.Dataset):\n    def __len__(self): return 8\n    def __getitem__(self, n): return n\n"
        "w = torch.ones(300, 300, requires_grad=True)",
        "w.grad = None; (w @ w).sum().backward(); print(float(w.grad.sum()), [b.tolist() for b in torch.utils.data.DataLoader(D(), 4, num_workers=2)])"),
    "jax": Row(("jax",), (), "import jax, jax.numpy as jnp\nf = jax.jit(lambda a: (a @ a).sum())\nA = jnp.ones((300, 300))", "print(float(f(A)))", threads_gone(HANGS, "the threads of its pools")),
    "tensorflow": Row(
        ("tensorflow",), (), "import os; os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'; import tensorflow as tf\nA = tf.ones((300, 300)); f = tf.function(lambda a: tf.reduce_sum(a @ a))",
        "print(float(f(A)))", threads_gone(HANGS, "the threads of its executor", "reset and import it again")),
    "onnxruntime": Row(
        ("onnxruntime", "onnx"), (), "import numpy as np, onnx, onnxruntime as ort; from onnx import helper as h, TensorProto as T\n"
        "g = h.make_graph([h.make_node('MatMul', ['a', 'a'], ['b'])], 'g', [h.make_tensor_value_info('a', T.FLOAT, [600, 600])], [h.make_tensor_value_info('b', T.FLOAT, [600, 600])])\n"
        "m = h.make_model(g, opset_imports=[h.make_opsetid('', 13)]); m.ir_version = 8; o = ort.SessionOptions(); o.intra_op_num_threads = 3\n"
        "s = ort.InferenceSession(m.SerializeToString(), o); A = np.ones((600, 600), 'float32')",
        "print(float(s.run(None, {'a': A})[0].sum()))"),
    "catboost": Row(
        ("catboost",), (), X + "import catboost", "print(catboost.CatBoostClassifier(iterations=5, thread_count=2, verbose=0, allow_writing_files=False).fit(X, y).score(X, y))"),
    "opencv": Row(
        ("cv2", "numpy"), (), "import cv2, numpy as np\nA = (np.arange(640 * 480 * 3) % 251).astype('uint8').reshape(480, 640, 3)",
        "print(int(cv2.GaussianBlur(cv2.cvtColor(A, cv2.COLOR_BGR2GRAY), (9, 9), 2).sum()), len(cv2.imencode('.png', A)[1]) > 0)"),
    "numexpr": Row(("numexpr",), (), "import numexpr, numpy as np\nnumexpr.set_num_threads(2); A = np.arange(1e6)", "print(numexpr.evaluate('sum(A * 2 + 1)'), numexpr.evaluate('A * 3')[-1])"),
    "statsmodels": Row(("statsmodels",), (), X + "import statsmodels.api as sm", "print(sm.OLS(X[:, 0], sm.add_constant(X[:, 1:])).fit().params.round(6).tolist())"),
    "sympy": Row(("sympy",), (), "import sympy; x = sympy.symbols('x')", "print(sympy.integrate(sympy.sin(x) ** 2, x), sympy.factor(x ** 4 - 1))"),
    "networkx": Row(("networkx",), (), "import networkx as nx; G = nx.karate_club_graph()", "print(nx.shortest_path(G, 0, 33), round(nx.density(G), 4))"),
    "scikit-image": Row(
        ("skimage",), (), "import numpy as np; from skimage import filters, measure\nA = np.zeros((64, 64)); A[8:20, 8:20] = 1; A[40:50, 40:60] = 1",
        "print(measure.label(filters.gaussian(A) > 0.5).max())"),
    "dask": Row(("dask", "numpy"), (), "import dask.array as da\nA = da.ones((400, 400), chunks=100)", "print(float((A + A.T).sum().compute(scheduler='threads')), float(A.sum().compute(scheduler='processes', num_workers=2)))"),
    "dask distributed": Row(
        ("distributed",), (), "import distributed, logging; logging.disable(50)",
        "with distributed.Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as client: print(client.submit(abs, -3).result())"),
    "dask distributed, a client that is kept": Row(
        ("distributed",), (), "import distributed, logging; logging.disable(50)\nclient = distributed.Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None)",
        "print(client.submit(abs, -3).result())", threads_gone(HANGS, "the threads of its scheduler and worker")),
    "xarray": Row(("xarray", "numpy"), (), "import xarray as xr, numpy as np; a = xr.DataArray(np.arange(12.).reshape(3, 4), dims=('x', 'y'))", "print(a.mean('x').values.tolist())"),
    "pyfftw": Row(
        ("pyfftw",), (), "import pyfftw, numpy as np\nA = pyfftw.empty_aligned(1 << 18, 'complex128'); A[:] = 1\nB = pyfftw.builders.fft(A, threads=2, planner_effort='FFTW_ESTIMATE', overwrite_input=False)",
        "print(abs(B()).sum())"),
    "z3": Row(("z3",), (), "import z3; a, b = z3.Ints('a b')", "s = z3.Solver(); s.add(a > 2, b == a * 2, a < 4); print(s.check(), s.model()[b])"),
    "polars": Row(
        ("polars",), (), "import polars as pl\ndf = pl.DataFrame({'a': range(100000), 'b': [n % 7 for n in range(100000)]})",
        "print(df.lazy().group_by('b').agg(pl.col('a').sum()).sort('b').collect().rows(), df.filter(pl.col('a') > 5).height)", threads_gone(HANGS, "the threads of rayon", "reset and import it again")),
    "duckdb": Row(
        ("duckdb",), (), "import duckdb\ndb = duckdb.connect(); _ = db.execute('set threads=2'); _ = db.execute('create table t as select range a, range % 7 b from range(3000000)')",
        "print(db.execute('select b, sum(a) from t group by b order by b').fetchall())"),
    "duckdb, connected anew": Row(
        ("duckdb",), (), "import duckdb\ndb = duckdb.connect(); _ = db.execute('set threads=2'); _ = db.execute('create table t as select range a from range(3000000)').fetchall()",
        "db = duckdb.connect(); _ = 0; print(db.execute('select 7').fetchall())"),
    "duckdb in a file": Row(
        ("duckdb",), (), "import duckdb\ndb = duckdb.connect('d.duckdb'); _ = db.execute('create or replace table t(x int)')",
        "_ = db.execute('delete from t'); _ = db.execute('insert into t values (1), (2)'); _ = db.execute('checkpoint'); print(db.execute('select sum(x) from t').fetchall())"),
    "pyarrow": Row(
        ("pyarrow",), (), "import pyarrow as pa, pyarrow.compute as pc, pyarrow.parquet as pq\nt = pa.table({'a': list(range(100000)), 'b': [n % 7 for n in range(100000)]})",
        "pq.write_table(t, 't.parquet'); u = pq.read_table('t.parquet', use_threads=True); print(u.group_by('b').aggregate([('a', 'sum')]).sort_by('b').to_pydict(), pc.sum(u['a']))"),
    "pyarrow dataset": Row(
        ("pyarrow",), (), "import pyarrow as pa, pyarrow.dataset as ds, pyarrow.csv as pc\n_ = open('a.csv', 'w').write('x,y\\n' + '1,2\\n' * 50000)",
        "print(pc.read_csv('a.csv').num_rows, ds.dataset('a.csv', format='csv').to_table(filter=ds.field('x') > 0).num_rows)"),
    "tokenizers": Row(
        ("tokenizers",), (), "import tokenizers\nT = tokenizers.Tokenizer(tokenizers.models.WordLevel({'a': 0, 'b': 1, '[UNK]': 2}, '[UNK]')); T.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()",
        "print(sum(len(e.ids) for e in T.encode_batch(['a b c'] * 2000)))"),
    "spacy": Row(("spacy",), (), "import spacy\nfrom spacy.training import Example\nnlp = spacy.blank('en'); c = nlp.add_pipe('textcat'); c.add_label('A'); c.add_label('B')\n"
                 "E = [Example.from_dict(nlp.make_doc(x), {'cats': {'A': x == 'good', 'B': x != 'good'}}) for x in ('good', 'bad')] * 8\n_ = nlp.initialize(lambda: E)",
                 "for _ in range(5): _ = nlp.update(E)\nprint([(d.text, max(d.cats, key=d.cats.get)) for d in nlp.pipe(['good', 'bad'], n_process=2)], len(nlp('One, two.')))"),
    "keras": Row(
        ("tensorflow",), (), X + "import os; os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'; import tensorflow as tf\nA = tf.random.stateless_uniform((300, 300), (1, 2))\n"
        "m = tf.keras.Sequential([tf.keras.layers.Dense(8, 'relu'), tf.keras.layers.Dense(1, 'sigmoid')]); m.compile('adam', 'binary_crossentropy')",
        "print(round(float(tf.reduce_sum(A @ A)), 0), len(m.fit(X, y, epochs=2, verbose=0).history['loss']), m.predict(X[:5], verbose=0).shape)", threads_gone(HANGS, "the threads of TensorFlow")),
    "transformers": Row(
        ("transformers",), (), "import transformers as t, tokenizers as k\nT = k.Tokenizer(k.models.WordLevel({'a': 0, 'b': 1, '[UNK]': 2}, '[UNK]')); T.pre_tokenizer = k.pre_tokenizers.Whitespace()",
        "print(t.PreTrainedTokenizerFast(tokenizer_object=T, unk_token='[UNK]')(['a b c'] * 2)['input_ids'], t.BertConfig(hidden_size=24).hidden_size)"),
    "transformers and torch": Row(
        ("transformers", "torch"), (), "import torch, transformers as t\n_ = torch.manual_seed(0); m = t.BertModel(t.BertConfig(vocab_size=20, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16)).eval()",
        "with torch.no_grad(): print(m(torch.tensor([[1, 2, 3]])).last_hidden_state.shape)"),
    "cvxpy": Row(
        ("cvxpy",), (), "import cvxpy as cp, numpy as np\nx = cp.Variable(3)",
        "for s in cp.CLARABEL, cp.SCS, cp.OSQP: print(round(float(cp.Problem(cp.Minimize(cp.sum_squares(x - np.arange(3.))), [x <= 1]).solve(solver=s)), 2))"),
    "ortools": Row(
        ("ortools",), (), "from ortools.sat.python import cp_model\nfrom ortools.linear_solver import pywraplp",
        "m = cp_model.CpModel(); a = [m.new_int_var(0, 9, str(n)) for n in range(9)]; _ = m.add_all_different(a); _ = m.maximize(a[0] * 2 + a[1])\n"
        "s = cp_model.CpSolver(); s.parameters.num_workers = 4; _ = s.solve(m); print(s.objective_value)\n"
        "g = pywraplp.Solver.CreateSolver('GLOP'); v = g.NumVar(0, 3, 'v'); g.Maximize(v); _ = g.Solve(); print(v.solution_value())"),
    "librosa": Row(
        ("librosa",), (), "import librosa, numpy as np\nY = np.sin(np.arange(22050) * 0.1).astype('f4')",
        "print(librosa.feature.mfcc(y=Y, sr=22050, n_mfcc=5).shape, librosa.feature.melspectrogram(y=Y, sr=22050).shape, librosa.resample(Y, orig_sr=22050, target_sr=8000).shape)"),
    "bokeh": Row(
        ("bokeh",), (), "from bokeh.plotting import figure\nfrom bokeh.embed import file_html", "p = figure(); _ = p.line([1, 2], [3, 4]); print('<title>t' in file_html(p, 'cdn', 't'))"),
    "ray": Row(
        ("ray",), (), "import os, ray; null = os.open(os.devnull, 1)\ndef work(n): return n * n",
        "errors = os.dup(2); _ = os.dup2(null, 2)  # it says that it does not reach 8.8.8.8\n_ = ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=80 << 20, logging_level=50); _ = os.dup2(errors, 2)\n"
        "print(ray.get([ray.remote(work).remote(n) for n in range(3)])); ray.shutdown()", threads_gone(HANGS, "the threads of Ray")),
    "zstandard threads": Row(("zstandard",), (), "import zstandard; data = b'some text ' * 300000", "print(zstandard.decompress(zstandard.ZstdCompressor(threads=2).compress(data)) == data)"),
    "zstandard threads, a compressor that is kept": Row(
        ("zstandard",), (), "import zstandard; data = b'some text ' * 300000; c = zstandard.ZstdCompressor(threads=2)", "print(zstandard.decompress(c.compress(data)) == data)", threads_gone(HANGS, "the threads of the compressor")),
    "blosc2": Row(("blosc2", "numpy"), (), "import blosc2, numpy as np; A = np.arange(3000000)", "print(bool((blosc2.unpack_array2(blosc2.pack_array2(A)) == A).all()))"),
}

FILES = {
    "h5py": Row(("h5py",), (), "import h5py", "f = h5py.File('a.h5', 'w'); f['x'] = range(9); f.close(); f = h5py.File('a.h5'); print(f['x'][:].sum()); f.close()"),
    "h5py, a file that stays open": Row(
        ("h5py",), (), "import h5py; f = h5py.File('a.h5', 'w'); f['x'] = range(9)", "f['x'][0] = 5; f.flush(); print(f['x'][:].sum())"),
    "tables": Row(
        ("tables",), (), "import tables, numpy as np", "f = tables.open_file('t.h5', 'w'); f.create_carray('/', 'a', obj=np.arange(99), filters=tables.Filters(5, 'blosc')); f.close()\n"
        "f = tables.open_file('t.h5'); print(int(f.root.a[:].sum())); f.close()"),
    "netCDF4": Row(("netCDF4",), (), "import netCDF4", "d = netCDF4.Dataset('n.nc', 'w'); d.createDimension('x', 3); d.createVariable('v', 'f8', ('x',))[:] = [1, 2, 3]; d.close()\n"
                   "d = netCDF4.Dataset('n.nc'); print(float(d['v'][:].sum())); d.close()"),
    "np.memmap": Row(("numpy",), (), "import numpy as np; m = np.memmap('m.bin', 'int32', 'w+', shape=9)", "m[:] = 2; m.flush(); print(int(m.sum()), len(open('m.bin', 'rb').read()))"),
    "lxml": Row(("lxml",), (), "from lxml import etree", "print(etree.fromstring('<a><b x=\"1\"/>t</a>').xpath('//b/@x'), etree.HTML('<p>a<br>b').tag)"),
    "beautifulsoup4": Row(("bs4",), (), "import bs4", "print(bs4.BeautifulSoup('<p>a<b>c</b>', 'html.parser').b.text)"),
    "Pillow": Row(("PIL",), (), "from PIL import Image, ImageFilter", "i = Image.new('RGB', (64, 64), 'red').filter(ImageFilter.BLUR); i.save('i.png'); print(Image.open('i.png').getpixel((9, 9)))"),
    "matplotlib": Row(
        ("matplotlib",), (), "import matplotlib; matplotlib.use('Agg')\nimport matplotlib.pyplot as plt\nfig, ax = plt.subplots()",
        "ax.clear(); _ = ax.plot([1, 3]); fig.savefig('f.png'); print(len(ax.lines), open('f.png', 'rb').read(4), fig.get_size_inches().tolist())"),
    "openpyxl": Row(("openpyxl",), (), "import openpyxl", "w = openpyxl.Workbook(); w.active['A1'] = 3; w.save('w.xlsx'); print(openpyxl.load_workbook('w.xlsx').active['A1'].value)"),
    "shelve and dbm": Row((), (), "import dbm, shelve", "with shelve.open('s') as s: s['a'] = [1, 2]\nwith shelve.open('s') as s: print(s['a'])\nwith dbm.open('d', 'c') as d: d[b'k'] = b'v'; print(d[b'k'])"),
    "shelve that stays open": Row((), (), "import shelve; s = shelve.open('kept')", "s['n'] = 5; s.sync(); print(s['n'], len(s))"),
    "sqlite3 with a rollback journal": Row(
        ("sqlite3",), (), "import sqlite3\ndb = sqlite3.connect('r.db'); _ = db.execute('create table t(x)'); db.commit()",
        "with db:\n    _ = db.execute('delete from t'); _ = db.execute('insert into t values(4)')\n"
        "print(sqlite3.connect('r.db').execute('select x from t').fetchall(), db.execute('pragma integrity_check').fetchall())"),
    "sqlalchemy": Row(
        ("sqlalchemy",), (), "import sqlalchemy as sa\ne = sa.create_engine('sqlite:///alchemy.db'); m = sa.MetaData(); t = sa.Table('t', m, sa.Column('x', sa.Integer)); m.create_all(e)",
        "with e.begin() as c: _ = c.execute(t.delete()); _ = c.execute(t.insert(), [{'x': 1}, {'x': 2}])\nwith e.connect() as c: print(c.execute(sa.select(sa.func.sum(t.c.x))).scalar())"),
    "logging and tempfile": Row((), (), "import logging, tempfile; logging.basicConfig(filename='log.txt', level=20, filemode='w', force=True); t = tempfile.NamedTemporaryFile('w+')",
                                "logging.info('line'); t.seek(0); _ = t.write('abc'); t.flush(); print(open(t.name).read(), 'INFO:root:line' in open('log.txt').read())"),
    "msgpack and yaml": Row(("msgpack", "yaml"), (), "import msgpack, yaml", "print(msgpack.unpackb(msgpack.packb({'a': [1]})), yaml.safe_load('a: [1, 2]'))"),
    "lz4": Row(("lz4",), (), "import lz4.frame", "print(lz4.frame.decompress(lz4.frame.compress(b'abc' * 99))[:6])"),
}

NETWORK = {
    "requests": Row(
        ("requests",), (), SERVE + "import http.server, requests\nclass Handler(http.server.BaseHTTPRequestHandler):\n    protocol_version = 'HTTP/1.1'\n    def log_message(self, *_): pass\n"
        "    def do_GET(self): self.send_response(200); self.send_header('Content-Length', '2'); self.end_headers(); self.wfile.write(b'ok')\nclient = requests.Session()",
        "print(serve(http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler), lambda url: [requests.get(url).text, requests.get(url, headers={'a': 'b'}).status_code]))"),
    "httpx": Row(
        ("httpx",), (), SERVE + "import http.server, httpx\nclass Handler(http.server.BaseHTTPRequestHandler):\n    def log_message(self, *_): pass\n"
        "    def do_GET(self): self.send_response(200); self.end_headers(); self.wfile.write(b'ok')",
        "print(serve(http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler), lambda url: httpx.get(url).text))"),
    "flask": Row(
        ("flask",), (), SERVE + "import flask, urllib.request, logging; from werkzeug.serving import make_server\nlogging.getLogger('werkzeug').disabled = True\n"
        "app = flask.Flask('a')\n@app.get('/')\ndef root(): return {'n': 1}",
        "print(app.test_client().get('/').json, serve(make_server('127.0.0.1', 0, app, threaded=True), lambda url: urllib.request.urlopen(url).read()))"),
    "fastapi and uvicorn": Row(
        ("fastapi", "uvicorn", "httpx"), (), "import fastapi, uvicorn, threading, time, urllib.request, socket\napp = fastapi.FastAPI()\n@app.get('/')\ndef root(): return {'n': 1}",
        "s = uvicorn.Server(uvicorn.Config(app, port=0, log_level='critical')); listening = socket.create_server(('127.0.0.1', 0))\n"
        "t = threading.Thread(target=lambda: s.run([listening])); t.start()\nwhile not s.started: time.sleep(0.01)\n"
        "print(urllib.request.urlopen('http://127.0.0.1:%d/' % listening.getsockname()[1]).read()); s.should_exit = True; t.join()"),
    "aiohttp": Row(
        ("aiohttp",), (), "import aiohttp, asyncio, threading; from aiohttp import web\nasync def hello(request): return web.Response(text='hello')\nasync def all():\n"
        "    app = web.Application(); app.router.add_get('/', hello); runner = web.AppRunner(app); await runner.setup(); site = web.TCPSite(runner, '127.0.0.1', 0); await site.start()\n"
        "    async with aiohttp.ClientSession() as s:\n        async with s.get('http://127.0.0.1:%d/' % site._server.sockets[0].getsockname()[1]) as r: text = await r.text()\n"
        "    await runner.cleanup(); return text",
        "got = []; t = threading.Thread(target=lambda: got.append(asyncio.run(all()))); t.start(); t.join(); print(got)"),
    "tornado": Row(
        ("tornado",), (), "import asyncio, threading, tornado.web, tornado.httpclient, tornado.httpserver, tornado.netutil\nclass H(tornado.web.RequestHandler):\n    def get(self): self.write('hi')\n"
        "async def all():\n    socks = tornado.netutil.bind_sockets(0, '127.0.0.1'); s = tornado.httpserver.HTTPServer(tornado.web.Application([('/', H)])); s.add_sockets(socks)\n"
        "    r = await tornado.httpclient.AsyncHTTPClient().fetch('http://127.0.0.1:%d/' % socks[0].getsockname()[1]); s.stop(); return r.body",
        "got = []; t = threading.Thread(target=lambda: got.append(asyncio.run(all()))); t.start(); t.join(); print(got)"),
    "websockets": Row(
        ("websockets",), (), "import asyncio, threading, websockets\nasync def echo(ws):\n    async for m in ws: await ws.send(m)\nasync def all():\n"
        "    async with websockets.serve(echo, '127.0.0.1', 0) as s:\n        async with websockets.connect('ws://127.0.0.1:%d' % s.sockets[0].getsockname()[1]) as c: await c.send('x'); return await c.recv()",
        "got = []; t = threading.Thread(target=lambda: got.append(asyncio.run(all()))); t.start(); t.join(); print(got)"),
    "twisted": Row(
        ("twisted",), (), "code = '''\nfrom twisted.internet import reactor, protocol, endpoints\nclass E(protocol.Protocol):\n    def dataReceived(self, d): self.transport.write(d)\n"
        "class C(protocol.Protocol):\n    def connectionMade(self): self.transport.write(b'x')\n    def dataReceived(self, d): print(d); reactor.stop()\n"
        "f = protocol.Factory(); f.protocol = E; p = reactor.listenTCP(0, f, interface='127.0.0.1'); g = protocol.ClientFactory(); g.protocol = C\n"
        "reactor.connectTCP('127.0.0.1', p.getHost().port, g); reactor.run()\n'''\nimport subprocess, sys", "print(subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, timeout=60).stdout)"),
    "gevent": Row(("gevent",), (), "import gevent, gevent.pool", "print(gevent.pool.Pool(2).map(abs, [-1, -2]), gevent.get_hub().threadpool.apply(abs, (-3,)))"),
    "trio": Row(("trio",), (), "import trio\nasync def f(): return await trio.to_thread.run_sync(abs, -2)", "print(trio.run(f))"),
    "anyio": Row(("anyio",), (), "import anyio, threading\nasync def f(): return await anyio.to_thread.run_sync(abs, -2)",
                 "got = []; t = threading.Thread(target=lambda: got.append(anyio.run(f))); t.start(); t.join(); print(got)"),
    "uvloop": Row(("uvloop",), (), "import uvloop, asyncio, threading\nasync def f(): await asyncio.sleep(0.01); return await asyncio.to_thread(abs, -2)",
                  "got = []; t = threading.Thread(target=lambda: got.append(uvloop.run(f()))); t.start(); t.join(); print(got)"),
    "cryptography": Row(
        ("cryptography",), (), "from cryptography.fernet import Fernet; from cryptography.hazmat.primitives.asymmetric import ed25519\nkey = Fernet(Fernet.generate_key())",
        "k = ed25519.Ed25519PrivateKey.generate(); k.public_key().verify(k.sign(b'm'), b'm'); print(key.decrypt(key.encrypt(b'secret')))"),
    "ssl": Row(("ssl",), ("openssl",), BUILD + SERVE + "import http.server, ssl, urllib.request\n"
               "_ = run('openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', 'k.pem', '-out', 'c.pem', '-days', '9', '-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost')\n"
               "class Handler(http.server.BaseHTTPRequestHandler):\n    def log_message(self, *_): pass\n    def do_GET(self): self.send_response(200); self.end_headers(); self.wfile.write(b'tls')\n"
               "own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); own.load_cert_chain('c.pem', 'k.pem'); trust = ssl.create_default_context(cafile='c.pem')",
               "s = http.server.HTTPServer(('127.0.0.1', 0), Handler); s.socket = own.wrap_socket(s.socket, server_side=True)\n"
               "print(serve(s, lambda url: urllib.request.urlopen('https://localhost:%d/' % s.server_address[1], context=trust).read()))"),
    "paramiko": Row(
        ("paramiko",), (), "import paramiko, socket, threading\nkey = paramiko.RSAKey.generate(2048)\nclass S(paramiko.ServerInterface):\n    def check_auth_password(self, u, p): return 0\n"
        "    def get_allowed_auths(self, u): return 'password'\n    def check_channel_request(self, k, i): return 0\n"
        "    def check_channel_exec_request(self, c, command): return True",
        "a, b = socket.socketpair(); s = paramiko.Transport(a); s.add_server_key(key); s.start_server(server=S(), event=threading.Event())\n"
        "t = paramiko.Transport(b); t.connect(username='u', password='p'); c = t.open_session(); c.exec_command('x'); d = s.accept(20); d.sendall(b'ran'); d.close()\n"
        "print(c.makefile().read()); t.close(); s.close()"),
    "zmq": Row(("zmq",), (), "import zmq\ncontext = zmq.Context()", "with zmq.Context() as c:\n    a, b = c.socket(zmq.PUSH), c.socket(zmq.PULL); port = b.bind_to_random_port('tcp://127.0.0.1')\n"
               "    a.connect(f'tcp://127.0.0.1:{port}'); a.send(b'm'); print(b.recv()); a.close(); b.close()"),
    "zmq, a context that is kept": Row(
        ("zmq",), (), "import zmq\nc = zmq.Context(); a, b = c.socket(zmq.PAIR), c.socket(zmq.PAIR); b.bind('inproc://x'); a.connect('inproc://x'); s = c.socket(zmq.PULL); s.RCVTIMEO = 20000\n"
        "port = s.bind_to_random_port('tcp://127.0.0.1'); p = c.socket(zmq.PUSH); p.connect(f'tcp://127.0.0.1:{port}')",
        "a.send(b'm'); print(b.recv()); p.send(b'n'); print(s.recv())", threads_gone(HANGS, "the context's threads")),
    "jupyter_client": Row(
        ("jupyter_client", "ipykernel"), (), "import sys\nfrom jupyter_client.manager import KernelManager\nfrom jupyter_client.kernelspec import KernelSpec",
        "k = KernelManager(); k._kernel_spec = KernelSpec(argv=[sys.executable, '-m', 'ipykernel_launcher', '-f', '{connection_file}'], language='python', display_name='p')\n"
        "k.start_kernel(stderr=-3); c = k.client(); c.start_channels(); c.wait_for_ready(60); c.execute_interactive('print(6 * 7)', timeout=60); c.stop_channels(); k.shutdown_kernel(True)"),
    "nbconvert": Row(
        ("nbconvert", "ipykernel", "nbclient"), (), "import nbformat, nbclient\nn = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell('6 * 7')])",
        "import threading; got = []; t = threading.Thread(target=lambda: got.append(nbclient.NotebookClient(n, timeout=60, kernel_name='python3').execute(stderr=-3))); t.start(); t.join()\nprint(got[0].cells[0].outputs[0]['data'])"),
    "playwright": Row(
        ("playwright",), ("/usr/lib/chromium/chromium",), "import threading\nfrom playwright.sync_api import sync_playwright\ndef page():\n    with sync_playwright() as p:\n"
        "        b = p.chromium.launch(executable_path='/usr/lib/chromium/chromium'); q = b.new_page(); q.set_content('<p>six'); got.append(q.inner_text('p')); b.close()",
        "got = []; t = threading.Thread(target=page); t.start(); t.join(); print(got)"),
    "grpc": Row(
        ("grpc",), (), "import grpc; from concurrent.futures import ThreadPoolExecutor\nclass H(grpc.GenericRpcHandler):\n"
        "    def service(self, d): return grpc.unary_unary_rpc_method_handler(lambda r, c: r + b'!')",
        "s = grpc.server(ThreadPoolExecutor(2)); s.add_generic_rpc_handlers((H(),)); port = s.add_insecure_port('127.0.0.1:0'); s.start()\n"
        "with grpc.insecure_channel(f'127.0.0.1:{port}') as c: print(c.unary_unary('/a/b')(b'hi', timeout=20))\n_ = s.stop(0).wait()"),
    "grpc, a channel that is kept": Row(
        ("grpc",), (), "import grpc; from concurrent.futures import ThreadPoolExecutor\nclass H(grpc.GenericRpcHandler):\n"
        "    def service(self, d): return grpc.unary_unary_rpc_method_handler(lambda r, c: r + b'!')\n"
        "s = grpc.server(ThreadPoolExecutor(2)); s.add_generic_rpc_handlers((H(),)); port = s.add_insecure_port('127.0.0.1:0'); s.start()\n"
        "c = grpc.insecure_channel(f'127.0.0.1:{port}')",
        "print(c.unary_unary('/a/b')(b'hi', timeout=20))", threads_gone(HANGS, "the threads of server and channel")),
    "psycopg2": Row(
        ("psycopg2",), ("initdb", "postgres", "setpriv"),
        BUILD + "import shutil, psycopg2, atexit\nhome = tempfile.mkdtemp(); os.chmod(home, 0o777)\nwho = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'] if os.getuid() == 0 else []\n"
        "_ = run(*who, 'initdb', '-D', home + '/d', '-A', 'trust', '-U', 'u')",
        "p = subprocess.Popen([*who, 'postgres', '-D', home + '/d', '-k', home, '-c', 'listen_addresses='], stderr=-3)\nimport time\n"
        "while p.poll() is None:\n    try: c = psycopg2.connect(host=home, user='u', dbname='postgres'); break\n    except psycopg2.OperationalError: time.sleep(0.1)\n"
        "q = c.cursor(); q.execute('select 6 * 7'); print(q.fetchall()); c.close(); p.terminate(); _ = p.wait()"),
}

PYTHON = {
    "multiprocessing": Row(
        (), (), "import multiprocessing as mp, math", "with mp.Pool(2) as p: print(p.map(math.sqrt, [4, 9]))\nq = mp.SimpleQueue(); p = mp.Process(target=q.put, args=(5,)); p.start(); print(q.get()); p.join()"),
    "multiprocessing, a pool that is kept": Row((), (), "import multiprocessing as mp, math; p = mp.Pool(2)", "print(p.map(math.sqrt, [4, 9]))"),
    "multiprocessing, a manager": Row((), (), "import multiprocessing as mp", "with mp.Manager() as m: d = m.dict(a=1); d['b'] = 2; print(dict(d))"),
    "multiprocessing, a manager that is kept": Row((), (), "import multiprocessing as mp; m = mp.Manager(); d = m.dict(a=1)", "d['b'] = 2; print(dict(d))", (("undo crash", "error", "the manager's process is gone in what comes back"),)),
    "multiprocessing, a queue that is kept": Row((), (), "import multiprocessing as mp; q = mp.Queue()", "q.put(5); print(q.get(timeout=20))"),
    "executors that are kept": Row(
        (), (), "import math; from concurrent.futures import ProcessPoolExecutor as P, ThreadPoolExecutor as T; t = T(2); p = P(2)",
        "print(list(t.map(math.sqrt, [4, 9])), list(p.map(math.sqrt, [16, 25])))"),
    "shared memory": Row((), (), "from multiprocessing import shared_memory; s = shared_memory.SharedMemory(create=True, size=9)", "s.buf[0] = 7; print(s.buf[0])"),
    "asyncio in a thread that is kept": Row(
        (), (), "import asyncio, threading; loop = asyncio.new_event_loop(); threading.Thread(target=loop.run_forever, daemon=True).start()",
        "print(asyncio.run_coroutine_threadsafe(asyncio.sleep(0, 'slept'), loop).result(20))", threads_gone("error", "threads of the code")),
    "a worker thread with a queue": Row(
        (), (), "import queue, threading; q, out = queue.Queue(), queue.Queue()\ndef work():\n    while True: out.put(q.get() * 2)\nthreading.Thread(target=work, daemon=True).start()",
        "q.put(2); print(out.get(timeout=20))", threads_gone("error", "threads of the code")),
    "logging in a thread": Row(
        (), (), "import logging.handlers, queue; q = queue.SimpleQueue(); h = logging.FileHandler('q.log', 'w'); l = logging.handlers.QueueListener(q, h)",
        "l.start(); q.put(logging.makeLogRecord({'msg': 'm'})); l.stop(); print(set(open('q.log').read().split()))"),
    "ctypes": Row((), (), "import ctypes; libc = ctypes.CDLL(None)", "print(libc.abs(-4), ctypes.string_at(b'abc'))"),
    "signals and timers": Row(
        (), (), "import signal", "got = []; _ = signal.signal(signal.SIGALRM, lambda *_: got.append(1)); _ = signal.setitimer(signal.ITIMER_REAL, 0.01)\nwhile not got: signal.pause() if not got else 0\nprint(got)"),
    "curses and a terminal": Row((), (), "import os, pty, subprocess", "m, s = pty.openpty(); p = subprocess.Popen(['stty', 'size'], stdin=s, stdout=-1); print(p.communicate()[0]); os.close(m); os.close(s)"),
    "pexpect": Row(("pexpect",), (), "import pexpect, sys", "c = pexpect.spawn(sys.executable, ['-i', '-q']); c.expect('>>> '); c.sendline('6*7'); c.expect('42'); print(c.after); c.close()"),
    "psutil": Row(("psutil",), (), "import psutil, os", "print(psutil.Process().pid == os.getpid(), psutil.virtual_memory().total > 0, psutil.cpu_count() > 0)"),
    "psutil, network interfaces": Row(("psutil",), (), "import psutil", "print('lo' in psutil.net_if_addrs())"),
    "watchdog": Row(
        ("watchdog",), (), "import os, threading; from watchdog.observers import Observer; from watchdog.events import FileSystemEventHandler; os.makedirs('w', exist_ok=True)\n"
        "class H(FileSystemEventHandler):\n    def on_any_event(self, e): seen.set()",
        "seen = threading.Event(); o = Observer(); _ = o.schedule(H(), 'w'); o.start(); open('w/f', 'w').close(); print(seen.wait(20)); o.stop(); o.join()", NO_INOTIFY),
    "nltk": Row(("nltk",), (), "import nltk", "print(nltk.stem.PorterStemmer().stem('running'), nltk.edit_distance('ab', 'ba'))"),
    "pydantic": Row(("pydantic",), (), "import pydantic\nclass M(pydantic.BaseModel):\n    n: int", "print(M(n='3'), pydantic.TypeAdapter(list[int]).validate_python(['1']))"),
    "cffi": Row(("cffi",), (), "import cffi; f = cffi.FFI(); f.cdef('int abs(int);'); c = f.dlopen(None)", "print(c.abs(-5))"),
    "tkinter's interpreter": Row(("tkinter",), (), "import tkinter; t = tkinter.Tcl()", "print(t.eval('expr 6*7'))"),
    "pip and venv": Row(("pip", "venv"), (), "import subprocess, sys, shutil", "shutil.rmtree('v', True); _ = subprocess.run([sys.executable, '-m', 'venv', '--without-pip', 'v'], check=True)\n"
                        "print(subprocess.run(['v/bin/python', '-c', 'print(6*7)'], capture_output=True).stdout)"),
    "unittest and doctest": Row((), (), "import unittest, io\nclass T(unittest.TestCase):\n    def test_a(self): self.assertEqual(1, 1)", "print(unittest.TextTestRunner(io.StringIO()).run(unittest.defaultTestLoader.loadTestsFromTestCase(T)))"),
}

PROGRAMS = {
    "git": Row((), ("git",), BUILD, "with tempfile.TemporaryDirectory() as d:\n    _ = run('git', 'init', '-q', d); open(d + '/f', 'w').write('x'); _ = run('git', '-C', d, 'add', '.')\n"
               "    _ = run('git', '-C', d, '-c', 'user.name=n', '-c', 'user.email=e', 'commit', '-qm', 'm'); print(run('git', '-C', d, 'log', '--format=%s %an'))"),
    "gcc": Row((), ("gcc",), BUILD + "open('a.c', 'w').write('#include <stdio.h>\\n#include <omp.h>\\nint main(void) { int n = 0;\\n#pragma omp parallel for reduction(+:n)\\nfor (int i = 0; i < 9; i++) n += i;\\nprintf(\"%d\", n); }')",
               "_ = run('gcc', '-O2', '-fopenmp', 'a.c', '-o', 'a.out'); print(run('./a.out'))"),
    "cython": Row(
        ("Cython", "setuptools"), ("gcc",), BUILD + "import sys, importlib\nopen('cy.pyx', 'w').write('def f(int n):\\n    cdef int i, s = 0\\n    for i in range(n): s += i\\n    return s')",
        "_ = run(sys.executable, '-m', 'Cython.Build.Cythonize', '-i', '-q', 'cy.pyx', env={**os.environ, 'PATH': os.environ['PATH']}); print(run(sys.executable, '-c', 'import cy; print(cy.f(9))'))"),
    "make and cmake": Row((), ("cmake", "make", "gcc"), BUILD + "open('CMakeLists.txt', 'w').write('cmake_minimum_required(VERSION 3.10)\\nproject(p C)\\nadd_executable(p p.c)'); open('p.c', 'w').write('int main(void) { return 0; }')",
                          "with tempfile.TemporaryDirectory() as d: _ = run('cmake', '-S', '.', '-B', d); _ = run('make', '-C', d, '-j2'); print(run(d + '/p'))"),
    "node": Row((), ("node",), BUILD, "print(run('node', '-e', 'const w = require(\"worker_threads\"); new w.Worker(\"require(\\\\\"worker_threads\\\\\").parentPort.postMessage(6*7)\", {eval: true}).on(\"message\", m => console.log(m))'))"),
    "node, processors": Row((), ("node",), BUILD, "print(run('node', '-p', 'require(`os`).cpus().length > 0'))"),
    "node, network interfaces": Row((), ("node",), BUILD, "print(run('node', '-e', 'console.log(Object.keys(require(`os`).networkInterfaces()).includes(`lo`))'))"),
    "node's watchers": Row((), ("node",), BUILD, "with tempfile.TemporaryDirectory() as d: print(run('node', '-e', f'const fs = require(\"fs\"); fs.watch({d!r}).on(\"change\", () => {{ console.log(\"changed\"); process.exit() }}); setImmediate(() => fs.writeFileSync({d!r} + \"/f\", \"x\"))'))", NO_INOTIFY),
    "go": Row((), ("go",), BUILD + "import shutil\nGO = shutil.which('go') or '/usr/local/go/bin/go'\nopen('m.go', 'w').write('package main\\nimport \"fmt\"\\nfunc main() { c := make(chan int); go func() { c <- 42 }(); fmt.Println(<-c) }')\n"
              "E = {**os.environ, 'GOCACHE': os.getcwd() + '/cache', 'GOPATH': os.getcwd() + '/path', 'GOFLAGS': '-mod=mod', 'GOTOOLCHAIN': 'local', 'GO111MODULE': 'off'}", "print(run(GO, 'run', 'm.go', env=E))"),
    "java": Row((), ("java", "javac"), BUILD + "open('M.java', 'w').write('public class M { public static void main(String[] a) throws Exception { java.security.MessageDigest.getInstance(\"SHA-256\"); System.out.println(java.util.stream.IntStream.range(0, 9).parallel().sum()); } }')",
                "_ = run('javac', 'M.java'); print(run('java', '-XX:-UsePerfData', 'M'))"),
    "R": Row((), ("Rscript",), BUILD, "print(run('Rscript', '-e', 'cat(sum(lm(dist ~ speed, cars)$coefficients > 0))'))"),
    "rust": Row((), ("/usr/bin/rustc",), BUILD + "open('r.rs', 'w').write('fn main() { println!(\"{}\", std::thread::spawn(|| 42).join().unwrap()); }')", "_ = run('/usr/bin/rustc', 'r.rs'); print(run('./r'))"),
    "perl": Row((), ("perl",), BUILD, "print(run('perl', '-MList::Util=sum', '-e', 'print sum(1..9)'))"),
    "ffmpeg": Row((), ("ffmpeg",), BUILD, "_ = run('ffmpeg', '-y', '-f', 'lavfi', '-i', 'testsrc=d=1:s=64x64', 'v.mp4'); print(os.path.getsize('v.mp4') > 0)"),
    "sqlite3, the program": Row((), ("sqlite3",), BUILD, "print(run('sqlite3', ':memory:', 'select 6 * 7'))"),
    "awk, sed, sort, tar": Row((), ("tar", "awk"), BUILD, "open('l', 'w').write('b 2\\na 1\\n'); print(run('sh', '-c', 'sort l | awk \"{s += \\\\$2} END {print s}\"; sed s/a/z/ l; tar c l | tar t'))"),
    "curl": Row((), ("curl",), BUILD + SERVE + "import http.server\nclass Handler(http.server.BaseHTTPRequestHandler):\n    def log_message(self, *_): pass\n    def do_GET(self): self.send_response(200); self.end_headers(); self.wfile.write(b'ok')",
                "print(serve(http.server.HTTPServer(('127.0.0.1', 0), Handler), lambda url: run('curl', '-s', '--noproxy', '*', url)))"),
    "what the machine says": Row((), ("top", "free", "uptime", "nproc"), BUILD, "print(all(run(*c.split()) for c in ('top -b -n1', 'free', 'uptime', 'nproc')), len(open('/proc/cpuinfo').read()) > 0, len(open('/proc/meminfo').read()) > 0)"),
}

ROWS = {**SELECTION, **NUMBERS, **FILES, **NETWORK, **PYTHON, **PROGRAMS}
