"""One sentence that saves a round, for the failures that a model meets most."""
import sys

DISTRIBUTIONS = {}
TABLE = """
attr attrs|Bio biopython|bs4 beautifulsoup4|cairo pycairo|cairosvg CairoSVG|Crypto pycryptodome|Cryptodome pycryptodomex
cv2 opencv-python|dateutil python-dateutil|dotenv python-dotenv|docx python-docx|pptx python-pptx|fitz PyMuPDF|pymupdf PyMuPDF
git GitPython|github PyGithub|gitlab python-gitlab|google.protobuf protobuf|google.cloud.storage google-cloud-storage
google.cloud.bigquery google-cloud-bigquery|google.generativeai google-generativeai|google.genai google-genai
google.auth google-auth|googleapiclient google-api-python-client|grpc grpcio|grpc_tools grpcio-tools|igraph python-igraph
jose python-jose|jwt PyJWT|kafka kafka-python|ldap python-ldap|ldap3 ldap3|lxml_html_clean lxml-html-clean|magic python-magic
markdown Markdown|markupsafe MarkupSafe|memcache python-memcached|mpl_toolkits matplotlib|pylab matplotlib|MySQLdb mysqlclient
mysql.connector mysql-connector-python|nacl PyNaCl|OpenGL PyOpenGL|OpenSSL pyOpenSSL|osgeo GDAL|gdal GDAL|PIL Pillow
pkg_resources setuptools|psycopg2 psycopg2-binary|pyaudio PyAudio|pycurl pycurl|pylibmc pylibmc|PyPDF2 PyPDF2|pypdfium2 pypdfium2
PyQt5 PyQt5|PyQt6 PyQt6|pysam pysam|pythoncom pywin32|win32com pywin32|win32api pywin32|pywt PyWavelets|serial pyserial
sklearn scikit-learn|skimage scikit-image|skopt scikit-optimize|sksurv scikit-survival|skbio scikit-bio|skfuzzy scikit-fuzzy
slugify python-slugify|snappy python-snappy|socks PySocks|sounddevice sounddevice|soundfile soundfile|speech_recognition SpeechRecognition
sqlalchemy SQLAlchemy|sqlite_utils sqlite-utils|telegram python-telegram-bot|telebot pyTelegramBotAPI|tree_sitter tree-sitter
usb pyusb|vlc python-vlc|webview pywebview|websocket websocket-client|werkzeug Werkzeug|wx wxPython|Xlib python-xlib|xlrd xlrd
yaml PyYAML|ruamel ruamel.yaml|zmq pyzmq|zipp zipp|absl absl-py|aiohttp_socks aiohttp-socks|alpaca alpaca-py|ansible ansible-core
apiclient google-api-python-client|apt python-apt|arabic_reshaper arabic-reshaper|argon2 argon2-cffi|async_timeout async-timeout
audioread audioread|azure.identity azure-identity|azure.storage.blob azure-storage-blob|barcode python-barcode|bidi python-bidi
binance python-binance|bitarray bitarray|bluetooth PyBluez|boto boto|braintree braintree|caffe2 torch|cassandra cassandra-driver
charset_normalizer charset-normalizer|chess python-chess|chardet chardet|clip openai-clip|cmd2 cmd2|community python-louvain
consul python-consul|corner corner|Cython Cython|dash_bootstrap_components dash-bootstrap-components|daemon python-daemon|dbus dbus-python
decouple python-decouple|deap deap|discord discord.py|distutils setuptools|django Django|dns dnspython|docker docker|docopt docopt
dot_parser pydot|elasticsearch_dsl elasticsearch-dsl|email_validator email-validator|enchant pyenchant|engineio python-engineio
socketio python-socketio|ephem ephem|erfa pyerfa|exifread ExifRead|faiss faiss-cpu|fake_useragent fake-useragent|faker Faker
ffmpeg ffmpeg-python|fiona Fiona|flask Flask|flask_cors Flask-Cors|flask_login Flask-Login|flask_sqlalchemy Flask-SQLAlchemy
flask_wtf Flask-WTF|flask_restful Flask-RESTful|frontmatter python-frontmatter|fuzzywuzzy fuzzywuzzy|gi PyGObject|glfw glfw
gmpy2 gmpy2|graph_tool graph-tool|graphviz graphviz|gym gym|h5py h5py|hdbscan hdbscan|haystack farm-haystack|headers_parser headers-parser
html2text html2text|i18n python-i18n|iso639 iso-639|jinja2 Jinja2|jks pyjks|jpype JPype1|Levenshtein python-Levenshtein
librosa librosa|lightgbm lightgbm|lmdb lmdb|llama_cpp llama-cpp-python|llama_index llama-index|langchain_core langchain-core
langchain_community langchain-community|langchain_openai langchain-openai|linkedin python-linkedin|lz4 lz4|MeCab mecab-python3
mne mne|moviepy moviepy|msgpack msgpack|multipart python-multipart|nmap python-nmap|netCDF4 netCDF4|nx networkx|np numpy
oauth2client oauth2client|OpenEXR OpenEXR|openai openai|openpyxl openpyxl|orjson orjson|paho paho-mqtt|past future|pd pandas
pdfminer pdfminer.six|pdf2image pdf2image|peewee peewee|phonenumbers phonenumbers|picamera picamera|pil Pillow|pgvector pgvector
playhouse peewee|plt matplotlib|podcastparser podcastparser|prettytable prettytable|psycopg psycopg[binary]|pyarrow pyarrow
pycocotools pycocotools|pydantic_settings pydantic-settings|pydub pydub|pygame pygame|pylsl pylsl|pymysql PyMySQL|pynput pynput
pyproj pyproj|pyqtgraph pyqtgraph|pyscreeze PyScreeze|pytesseract pytesseract|pytorch_lightning pytorch-lightning|pytz pytz
qdrant_client qdrant-client|qrcode qrcode|rapidfuzz RapidFuzz|rdkit rdkit|redis redis|rest_framework djangorestframework
rtree Rtree|sage sagemath|scapy scapy|scrapy Scrapy|seaborn seaborn|sentence_transformers sentence-transformers|sentry_sdk sentry-sdk
setuptools_scm setuptools-scm|shapefile pyshp|shapely Shapely|simple_salesforce simple-salesforce|sgmllib sgmllib3k
smartcard pyscard|sns seaborn|SpeechRecognition SpeechRecognition|sphinx Sphinx|sortedcontainers sortedcontainers
sqlalchemy_utils SQLAlchemy-Utils|stdnum python-stdnum|steam steam|suds suds-community|tabula tabula-py|talib TA-Lib|tf tensorflow
tlz toolz|tkinterdnd2 tkinterdnd2|toml toml|torch_geometric torch-geometric|typing_extensions typing-extensions|tzlocal tzlocal
umap umap-learn|unidecode Unidecode|uno unotools|vtkmodules vtk|weasyprint WeasyPrint|whisper openai-whisper|wordcloud wordcloud
wikipediaapi Wikipedia-API|xgboost xgboost|xmlsec xmlsec|yfinance yfinance|youtube_dl youtube-dl|yt_dlp yt-dlp|zstandard zstandard
zstd zstd|zoneinfo_data tzdata|ccxt ccxt|dask_ml dask-ml|pandas_datareader pandas-datareader|pandas_ta pandas-ta
prophet prophet|fbprophet prophet|statsmodels statsmodels|sympy sympy|wget wget|pyperclip pyperclip|pyautogui PyAutoGUI
memory_profiler memory-profiler|line_profiler line-profiler|imblearn imbalanced-learn|mlxtend mlxtend|category_encoders category-encoders
tensorflow_hub tensorflow-hub|tensorflow_datasets tensorflow-datasets|keras_tuner keras-tuner|huggingface_hub huggingface-hub
opentelemetry opentelemetry-api|prometheus_client prometheus-client|pythonjsonlogger python-json-logger|dateparser dateparser
mpi4py mpi4py|numpy_financial numpy-financial|empyrical empyrical|markdown_it markdown-it-py|mistune mistune|nbformat nbformat
"""
for entry in TABLE.replace("\n", "|").split("|"):
    if entry:
        import_name, _, distribution = entry.partition(" ")
        DISTRIBUTIONS[import_name] = distribution


def distribution_for(module):
    """The name to install for an import, from the longest known prefix; else the top-level name itself."""
    parts = module.split(".")
    for end in range(len(parts), 0, -1):
        known = DISTRIBUTIONS.get(".".join(parts[:end]))
        if known:
            return known
    return parts[0]


def missing_module(session, error):
    module = error.name
    if not module:
        return None
    top = module.partition(".")[0]
    if top in getattr(sys, "stdlib_module_names", ()):
        return "`%s` is part of the standard library but absent from this Python %d.%d" % (
            module, sys.version_info[0], sys.version_info[1],
        )
    if top in sys.modules:
        return "`%s` is there, but has no module `%s`: check its version or the name" % (top, module)
    distribution = distribution_for(module)
    if "install" in session.options:
        return "install_package with packages=[\"%s\"] makes `import %s` work" % (distribution, module)
    if distribution == module:
        return "`%s` is not installed here" % module
    return "`%s` comes with the distribution %s, which is not installed here" % (module, distribution)


def syntax(session, error):
    line = (error.text or "").strip()
    if line.startswith(("!pip", "%pip", "pip install", "%conda", "!conda", "!uv")):
        if "install" in session.options:
            return "packages are installed by the tool install_package, not by code" + call_for(line)
        return "code cannot install packages; `pip` lines belong to a shell, not to Python"
    if line[:1] == "!":
        return "`!command` is notebook syntax; use subprocess.run([...], check=True)"
    if line[:1] == "%":
        return "`%magic` is notebook syntax; this is plain Python"
    return None


def call_for(line):
    """The call that does what a line such as "!pip install -q pandas numpy==1.26" wants."""
    words = line.partition("#")[0].partition(" install ")[2].split()
    names = [word.strip("'\"") for word in words if word[:1] != "-"]
    return ": packages=[%s]" % ", ".join('"%s"' % name for name in names) if names else ""


def operating_system(session, error):
    import errno

    code = error.errno
    hint = data(error.filename, code == errno.ENOENT) if code in (errno.ENOENT, errno.EACCES) else None
    if hint is None and "container" in session.options:
        hint = container(session, error)
    if hint is not None:
        return hint
    if code in (errno.ENOSPC, errno.EDQUOT):
        return full_disk(session)
    if code == errno.EFBIG:
        return "no file may be larger than the disk%s; the user can raise --disk" % mib(file_limit())
    if code == errno.EAGAIN and isinstance(error, BlockingIOError):
        return processes(session)
    if code in (errno.EMFILE, errno.ENFILE):
        return "too many open files; close some"
    if code in (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN):
        return no_network()
    if code in (errno.EROFS, errno.EBUSY, errno.EACCES, errno.EXDEV) and is_below(error.filename, output_directory()):
        return "the whole outputs are the server's own files: they can be read, and not changed"
    if code in (errno.EROFS, errno.EBUSY) and is_below(error.filename, session.root):
        if is_below(error.filename, sys.prefix):
            return "the session's interpreter lies there, so it is read-only; install_package brings in packages"
        return ("programs outside of the sandbox act on this name, or it has names outside (hard links), so it is "
                "read-only in the workspace; the user can allow it with --allow-write")
    if code == errno.EROFS:
        return "this part of the file system is read-only; write below the working directory or " + load("streams").TMP
    return None


def output_directory():
    return load("streams").TMP + "/output"


def is_below(path, folder):
    from os.path import abspath

    return isinstance(path, str) and abspath(path).startswith(folder + "/")


def data(path, is_missing):
    """The user's folders below /data, where a path leads nowhere that they may be meant by."""
    from os import R_OK, access
    from os.path import isabs, isdir, join, split

    if not isinstance(path, str) or not isabs(path) or path.startswith(("/work/", "/tmp/")) or not isdir("/data"):
        return None
    if not is_missing:
        readable = path.startswith("/data/") and access(path, R_OK)
        return "no program below /data is executed; copy it to the working directory" if readable else None
    folder, name = split(path.rstrip("/"))
    while not isdir(folder):
        folder, name = split(folder)
    if folder != "/data" and not folder.startswith("/data/"):
        return "the user's folders are below /data: %s" % ", ".join(some_names("/data"))
    from difflib import get_close_matches

    names = some_names(folder)
    near = get_close_matches(name, names, 1)
    if near:
        return "did you mean %r?" % join(folder, near[0])
    return "in %s there is: %s" % (folder, ", ".join(names[:10]) + (", …" if names[10:] else "") or "nothing")


def some_names(folder):
    """Sorted; a folder with very many would keep the answer waiting."""
    from itertools import islice
    from os import scandir

    try:
        with scandir(folder) as entries:
            return sorted(entry.name for entry in islice(entries, 1000))
    except OSError:
        return []


def container(session, error):
    """What is missing where the sandbox has no namespaces of its own."""
    from errno import EACCES, EAFNOSUPPORT, ENOSYS

    tmp = load("streams").TMP
    path = error.filename if type(error.filename) is str else ""
    if error.errno == EAFNOSUPPORT:
        return no_network() + ("; nor is there a loopback: processes here talk by pipes, socket.socketpair() or Unix "
                               "stream sockets below the working directory")
    if error.errno == ENOSYS:
        return "this call is not there in this grade of the sandbox; in place of memfd_create a file below %s does" % tmp
    if error.errno != EACCES:
        return None
    if path.startswith("/proc"):
        return "there is no /proc in this grade of the sandbox"
    if path.startswith(("/tmp", "/var/tmp", "/dev/shm")):
        return "%s is the container's; the folder for temporary files is %s, which tempfile uses" % (path[:100], tmp)
    if path.startswith("/"):
        return "code can write below %s and %s, and read beyond them only programs and libraries" % (session.root, tmp)
    return None


def has_proxy():
    from os import environ

    return "https_proxy" in environ


def no_network():
    if not has_proxy():
        return "the sandbox has no network: nothing outside of it can be reached; write_file brings in data"
    return ("the sandbox has no network but the HTTP proxy that https_proxy names, which reaches the hosts that the user "
            "allowed: use a library that goes that way (urllib, requests, httpx), without looking names up itself")


def mib(size):
    """As the flags count; nothing where it is not known."""
    return " of %d MiB" % (size >> 20) if size else ""


def full_disk(session):
    """TMPDIR is on the sandbox's own disk; the working directory may be a folder of the user's."""
    from os import stat, statvfs

    tmp = load("streams").TMP
    own = statvfs(tmp)
    if own.f_ffree and own.f_bavail * own.f_frsize > own.f_blocks * own.f_frsize // 100:
        where = "/data" if stat(".").st_dev == stat(tmp).st_dev else "the working directory"
        return "the user's own disk below %s is full; remove files, or write below %s" % (where, tmp)
    if own.f_ffree == 0:
        return "the disk holds no more than %d files; remove some" % own.f_files
    size = own.f_blocks * own.f_frsize
    part_of_memory = session.memory_limit and size >= session.memory_limit * 3 // 4
    flag = "--memory, of which it has three quarters" if part_of_memory else "--disk"
    return "the disk%s is full; remove files, or the user can raise %s" % (mib(size), flag)


def file_limit():
    from resource import RLIMIT_FSIZE, getrlimit

    return max(getrlimit(RLIMIT_FSIZE)[0], 0)


def processes(session):
    number = " of %d" % session.process_limit if session.process_limit else ""
    return "the limit%s processes and threads is reached; end some, or the user can raise --pids" % number


def network(error):
    """A refused connection is often wrapped several times by the library that met it."""
    seen = 0
    if "the user can allow" in str(error) and has_proxy():
        return "this is the user's policy, not a fault of the code: do without this host, or ask the user to allow it"
    while error is not None and seen < 10:
        name = type(error).__name__
        if name in ("gaierror", "NameResolutionError", "NewConnectionError", "ConnectError", "ClientConnectorError"):
            return no_network()
        if isinstance(error, OSError) and error.errno in (101, 113):
            return no_network()
        error, seen = error.__cause__ or error.__context__, seen + 1
    return None


def hint_for(session, error, name, message):
    if isinstance(error, ModuleNotFoundError):
        return missing_module(session, error)
    if isinstance(error, SyntaxError):
        return syntax(session, error)
    if isinstance(error, MemoryError):
        return ("the memory limit%s is reached, or one value is too big for it; work in pieces, delete what is not "
                "needed, or the user can raise --memory") % mib(session.memory_limit)
    if isinstance(error, RecursionError):
        return "recursion deeper than sys.getrecursionlimit() = %d" % sys.getrecursionlimit()
    if name == "RuntimeError" and "can't start new thread" in message:
        return processes(session)
    if isinstance(error, OSError):
        return operating_system(session, error) or network(error)
    if name == "EOFError" and "container" in session.options and "multiprocessing.managers" in sys.modules:
        return "a manager of multiprocessing has no TCP address here: leave the address out, and it is a Unix socket"
    return network(error)
