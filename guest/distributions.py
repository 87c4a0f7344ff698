"""Modules and their distributions, which are named where they have another name. The installer imports this file too."""
DISTRIBUTIONS = {}
TABLE = """
attr attrs|Bio biopython|bs4 beautifulsoup4|cairo pycairo|cairosvg CairoSVG|Crypto pycryptodome|Cryptodome pycryptodomex
cv2 opencv-python|dateutil python-dateutil|dotenv python-dotenv|docx python-docx|pptx python-pptx|fitz PyMuPDF|pymupdf PyMuPDF
git GitPython|github PyGithub|gitlab python-gitlab|google.protobuf protobuf|google.cloud.storage google-cloud-storage
google.cloud.bigquery google-cloud-bigquery|google.generativeai google-generativeai|google.genai google-genai
google.auth google-auth|googleapiclient google-api-python-client|grpc grpcio|grpc_tools grpcio-tools|igraph python-igraph
jose python-jose|jwt PyJWT|kafka kafka-python|ldap python-ldap|ldap3|lxml_html_clean lxml-html-clean|magic python-magic
markdown Markdown|markupsafe MarkupSafe|memcache python-memcached|mpl_toolkits matplotlib|pylab matplotlib|MySQLdb mysqlclient
mysql.connector mysql-connector-python|nacl PyNaCl|OpenGL PyOpenGL|OpenSSL pyOpenSSL|osgeo GDAL|gdal GDAL|PIL Pillow
pkg_resources setuptools|psycopg2 psycopg2-binary|pyaudio PyAudio|pycurl|pylibmc|PyPDF2|pypdfium2|PyQt5|PyQt6|pysam
pythoncom pywin32|win32com pywin32|win32api pywin32|pywt PyWavelets|serial pyserial|sklearn scikit-learn|skimage scikit-image
skopt scikit-optimize|sksurv scikit-survival|skbio scikit-bio|skfuzzy scikit-fuzzy|slugify python-slugify|snappy python-snappy
socks PySocks|sounddevice|soundfile|speech_recognition SpeechRecognition|sqlalchemy SQLAlchemy|sqlite_utils sqlite-utils
telegram python-telegram-bot|telebot pyTelegramBotAPI|tree_sitter tree-sitter|usb pyusb|vlc python-vlc|webview pywebview
websocket websocket-client|werkzeug Werkzeug|wx wxPython|Xlib python-xlib|xlrd|yaml PyYAML|ruamel ruamel.yaml|zmq pyzmq|zipp
absl absl-py|aiohttp_socks aiohttp-socks|alpaca alpaca-py|ansible ansible-core|apiclient google-api-python-client
apt python-apt|arabic_reshaper arabic-reshaper|argon2 argon2-cffi|async_timeout async-timeout|audioread
azure.identity azure-identity|azure.storage.blob azure-storage-blob|barcode python-barcode|bidi python-bidi
binance python-binance|bitarray|bluetooth PyBluez|boto|braintree|caffe2 torch|cassandra cassandra-driver
charset_normalizer charset-normalizer|chess python-chess|chardet|clip openai-clip|cmd2|community python-louvain
consul python-consul|corner|Cython|dash_bootstrap_components dash-bootstrap-components|daemon python-daemon|dbus dbus-python
decouple python-decouple|deap|discord discord.py|distutils setuptools|django Django|dns dnspython|docker|docopt
dot_parser pydot|elasticsearch_dsl elasticsearch-dsl|email_validator email-validator|enchant pyenchant
engineio python-engineio|socketio python-socketio|ephem|erfa pyerfa|exifread ExifRead|faiss faiss-cpu
fake_useragent fake-useragent|faker Faker|ffmpeg ffmpeg-python|fiona Fiona|flask Flask|flask_cors Flask-Cors
flask_login Flask-Login|flask_sqlalchemy Flask-SQLAlchemy|flask_wtf Flask-WTF|flask_restful Flask-RESTful
frontmatter python-frontmatter|fuzzywuzzy|gi PyGObject|glfw|gmpy2|graph_tool graph-tool|graphviz|gym|h5py|hdbscan
haystack farm-haystack|headers_parser headers-parser|html2text|i18n python-i18n|iso639 iso-639|jinja2 Jinja2|jks pyjks
jpype JPype1|Levenshtein python-Levenshtein|librosa|lightgbm|lmdb|llama_cpp llama-cpp-python|llama_index llama-index
langchain_core langchain-core|langchain_community langchain-community|langchain_openai langchain-openai
linkedin python-linkedin|lz4|MeCab mecab-python3|mne|moviepy|msgpack|multipart python-multipart|nmap python-nmap|netCDF4
nx networkx|np numpy|oauth2client|OpenEXR|openai|openpyxl|orjson|paho paho-mqtt|past future|pd pandas|pdfminer pdfminer.six
pdf2image|peewee|phonenumbers|picamera|pil Pillow|pgvector|playhouse peewee|plt matplotlib|podcastparser|prettytable
psycopg psycopg[binary]|pyarrow|pycocotools|pydantic_settings pydantic-settings|pydub|pygame|pylsl|pymysql PyMySQL|pynput
pyproj|pyqtgraph|pyscreeze PyScreeze|pytesseract|pytorch_lightning pytorch-lightning|pytz|qdrant_client qdrant-client|qrcode
rapidfuzz RapidFuzz|rdkit|redis|rest_framework djangorestframework|rtree Rtree|sage sagemath|scapy|scrapy Scrapy|seaborn
sentence_transformers sentence-transformers|sentry_sdk sentry-sdk|setuptools_scm setuptools-scm|shapefile pyshp
shapely Shapely|simple_salesforce simple-salesforce|sgmllib sgmllib3k|smartcard pyscard|sns seaborn|SpeechRecognition
sphinx Sphinx|sortedcontainers|sqlalchemy_utils SQLAlchemy-Utils|stdnum python-stdnum|steam|suds suds-community
tabula tabula-py|talib TA-Lib|tf tensorflow|tlz toolz|tkinterdnd2|toml|torch_geometric torch-geometric
typing_extensions typing-extensions|tzlocal|umap umap-learn|unidecode Unidecode|uno unotools|vtkmodules vtk
weasyprint WeasyPrint|whisper openai-whisper|wordcloud|wikipediaapi Wikipedia-API|xgboost|xmlsec|yfinance
youtube_dl youtube-dl|yt_dlp yt-dlp|zstandard|zstd|zoneinfo_data tzdata|ccxt|dask_ml dask-ml
pandas_datareader pandas-datareader|pandas_ta pandas-ta|prophet|fbprophet prophet|statsmodels|sympy|wget|pyperclip
pyautogui PyAutoGUI|memory_profiler memory-profiler|line_profiler line-profiler|imblearn imbalanced-learn|mlxtend
category_encoders category-encoders|tensorflow_hub tensorflow-hub|tensorflow_datasets tensorflow-datasets
keras_tuner keras-tuner|huggingface_hub huggingface-hub|opentelemetry opentelemetry-api|prometheus_client prometheus-client
pythonjsonlogger python-json-logger|dateparser|mpi4py|numpy_financial numpy-financial|empyrical|markdown_it markdown-it-py
mistune|nbformat|tables|pytables tables|odf odfpy
"""
for entry in TABLE.replace("\n", "|").split("|"):
    if entry:
        import_name, _, distribution = entry.partition(" ")
        DISTRIBUTIONS[import_name] = distribution or import_name

# Popular distributions whose import has the same name.
COMMON = """
aiofiles aiohttp alembic altair anthropic anyio arrow asyncpg attrs authlib babel bcrypt beartype black bleach bokeh boto3 botocore
bottle cachetools cartopy catboost certifi cffi chromadb click cloudpickle colorama cryptography cvxpy cycler cymem dash dask datasets
diskcache duckdb einops et-xmlfile evaluate fastapi fastparquet filelock flake8 folium fonttools fsspec gensim geopandas gevent
greenlet gunicorn h11 holidays httpcore httpx hypothesis idna imageio importlib-metadata ipykernel ipython ipywidgets isort itsdangerous
jax jaxlib jedi jmespath joblib jsonpatch jsonpath-ng jsonschema jupyter jupyterlab kaleido keras kiwisolver langchain lark lightning
lifelines loguru lxml marshmallow matplotlib more-itertools mpmath multidict mypy narwhals nest-asyncio networkx nltk notebook numba
numexpr numpy nvidia-cublas-cu12 onnx onnxruntime optuna ortools oauthlib packaging pandas paramiko passlib patsy pendulum pikepdf pint
pip platformdirs plotly pluggy polars pooch ply psutil pyasn1 pydantic pyflakes pygments pymc pymongo pyparsing pyproject-hooks pytest
pytest-asyncio pytest-cov python-multipart rasterio referencing regex reportlab requests requests-oauthlib rich ruff s3fs safetensors
scikit-learn scipy selenium sentencepiece setuptools shap six smart-open snowballstemmer soupsieve spacy starlette statsforecast
streamlit structlog tabulate tenacity tensorboard tensorflow termcolor textblob textual threadpoolctl tiktoken tinycss2 tokenizers
tomli tomlkit toolz torch torchaudio torchvision tornado tqdm traitlets transformers trio typer tzdata ujson unstructured uritemplate
urllib3 uvicorn uvloop virtualenv wandb watchdog wcwidth websockets wheel wrapt xarray xlsxwriter xmltodict yarl zipp
""".split()
# Each module of another name may be anybody's distribution on the index.
KNOWN = {*DISTRIBUTIONS.values(), *COMMON}
# The table has a distribution with one of these, and its name is a module too.
MORE_MODULES = ("attr", "caffe2", "distutils", "dot_parser", "fbprophet", "mpl_toolkits", "np", "nx", "past", "pd", "pkg_resources", "playhouse",
                "plt", "pylab", "sns", "tf", "tlz", "uno", "vtkmodules", "zoneinfo_data")
