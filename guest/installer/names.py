"""Names near to one that does not exist. Never lists the index: that is tens of megabytes."""
import difflib

from distributions import DISTRIBUTIONS
from pip._vendor.packaging.utils import canonicalize_name

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
"""


def by_import(name):
    """The distributions that have the module of this name."""
    return [found for module, found in DISTRIBUTIONS.items()
            if canonicalize_name(module) == canonicalize_name(name) != canonicalize_name(found)]


def near(name, wheels, only_wheels):
    """At most three names: that of the distribution with this import, then those spelled alike. wheels: the names in a
    directory of wheels; only_wheels: no other can be installed."""
    wanted = canonicalize_name(name)
    known = {canonicalize_name(word): word for word in [*DISTRIBUTIONS.values(), *COMMON.split()]}
    known = {**({} if only_wheels else known), **{word: known.get(word, word) for word in wheels}}
    modules = [found for found in by_import(name) if canonicalize_name(found) in known]
    alike = [known[found] for found in difflib.get_close_matches(wanted, known, n=3, cutoff=0.75)]
    found = dict.fromkeys(word for word in modules + alike if canonicalize_name(word) != wanted)
    return list(found)[:3]
