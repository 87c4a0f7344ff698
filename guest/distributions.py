"""Modules whose distribution has another name. The installer imports this file too."""
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
tables tables|pytables tables|odf odfpy
"""
for entry in TABLE.replace("\n", "|").split("|"):
    if entry:
        import_name, _, distribution = entry.partition(" ")
        DISTRIBUTIONS[import_name] = distribution


KNOWN = {*DISTRIBUTIONS.values(), *DISTRIBUTIONS}
# The table has a distribution with one of these, and its name is a module too.
MORE_MODULES = ("attr", "caffe2", "distutils", "dot_parser", "fbprophet", "mpl_toolkits", "np", "nx", "past", "pd", "pkg_resources", "playhouse",
                "plt", "pylab", "sns", "tf", "tlz", "uno", "vtkmodules", "zoneinfo_data")
