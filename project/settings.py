"""Every setting, top to bottom, read once from the environment."""

from __future__ import annotations

import sys
from pathlib import Path

from project import env, local, queues

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = local.data_dir()  # embedded servers, workspaces, the local key

# The house
DEBUG = env.flag("DEBUG")
SECRET_KEY = env.text("SECRET_KEY") or local.local_key(DATA_DIR)
ALLOWED_HOSTS = env.words("ALLOWED_HOSTS", ("localhost", "127.0.0.1", "[::1]"))
CSRF_TRUSTED_ORIGINS = env.words("CSRF_TRUSTED_ORIGINS")
PUBLIC_URL = env.text("PUBLIC_URL", "http://127.0.0.1:8000")  # links in mail
NAMESPACE = env.text("NAMESPACE", "default")  # work of one stack, never another's
ROLE = env.text("THREADWORK_ROLE")  # what this process is: web, conductor, worker-…

INSTALLED_APPS = [
    "project",
    "threads",
    "workflows",
    "django_celery_beat",
    "django_htmx",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    *env.words("APPS"),  # a shop's own, whose functions and tasks `call` steps name
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "project.headers.ContentSecurityPolicy",
    "project.headers.RefuseNul",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]
ROOT_URLCONF = "project.urls"
ASGI_APPLICATION = "project.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
STATIC_URL = "static/"
STATIC_ROOT = env.text("STATIC_ROOT") or None
WHITENOISE_USE_FINDERS = STATIC_ROOT is None
LOGIN_URL = "sign-in"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "sign-in"
LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
DATA_UPLOAD_MAX_MEMORY_SIZE = 2_621_440

# The database: the only truth
DATABASE_URL = env.text("DATABASE_URL")
DATABASES = {
    "default": {
        **env.database(DATABASE_URL),
        # Each request of an ASGI server has a thread of its own, so that a connection
        # kept there would serve nobody again; workers keep theirs.
        "CONN_MAX_AGE": env.whole("CONN_MAX_AGE", 0 if ROLE == "web" else 600),
        "CONN_HEALTH_CHECKS": True,
        # Workers stay off prepared statements where a pooler stands in between.
        "DISABLE_SERVER_SIDE_CURSORS": env.flag("DATABASE_POOLER"),
    }
}
DATABASE_DIRECT_URL = env.text("DATABASE_DIRECT_URL") or DATABASE_URL  # sessions
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# Celery: a message is a ticket, never the truth
BROKER_URL = env.text("BROKER_URL")
CELERY_BROKER_URL = BROKER_URL or None
CELERY_TASK_ACKS_LATE = False  # the row decides what is done again
CELERY_TASK_ALWAYS_EAGER = False
CELERY_WORKER_DISABLE_PREFETCH = BROKER_URL.startswith(("redis", "unix"))
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_TASK_REJECT_ON_WORKER_LOST = False  # a poison message must not loop
CELERY_TASK_IGNORE_RESULT = True
CELERY_RESULT_BACKEND = None
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_PUBLISH_RETRY = False  # tried once; the conductor tops up
CELERY_TASK_QUEUES = queues.declared(NAMESPACE)
CELERY_TASK_DEFAULT_QUEUE = queues.own("steps", NAMESPACE)
CELERY_CONTROL_EXCHANGE = queues.own("celery", NAMESPACE)  # `celery control`, `inspect`
CELERY_EVENT_EXCHANGE = queues.own("celeryev", NAMESPACE)
# Celery closes the connection around each ticket unless told after how many; ours are
# looked at when a ticket begins (threads/tasks.py) and end at CONN_MAX_AGE.
CELERY_DB_REUSE_MAX = 10**9
CELERY_TASK_CREATE_MISSING_QUEUES = True
CELERY_WORKER_MAX_TASKS_PER_CHILD = env.whole("WORKER_MAX_TICKETS", 5000)
CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT = env.number("DRAIN_SECONDS", 10.0)
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = False
CELERY_WORKER_ETA_TASK_LIMIT = 100
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # never give up
CELERY_BROKER_CHANNEL_ERROR_RETRY = True  # a full server refuses; that ends no worker
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 900,
    "unacked_restore_interval": 10,
    "unacked_restore_throttle": 1,
    "socket_timeout": 3,  # a hung server must not hang a post
    "socket_connect_timeout": 2,
    "socket_keepalive": True,
    "health_check_interval": 15,
    "global_keyprefix": f"threadwork:{NAMESPACE}:",
}
CELERY_WORKER_SEND_TASK_EVENTS = False
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TIMEZONE = "UTC"
CELERY_ENABLE_UTC = True
CELERY_BEAT_SCHEDULER = "django_celery_beat.schedulers:DatabaseScheduler"
CELERY_BEAT_MAX_LOOP_INTERVAL = 5
CELERY_BEAT_SYNC_EVERY = 1
CELERY_BEAT_CRON_STARTING_DEADLINE = 3600  # no late fire hours after the slot
DJANGO_CELERY_BEAT_TZ_AWARE = True

# The engine
LEASE_SECONDS = env.number("LEASE_SECONDS", 60.0)  # the last resort for a lost host
BEAT_SECONDS = env.number("BEAT_SECONDS", 10.0)  # a holder extends what it holds
SLICE_SECONDS = env.number("SLICE_SECONDS", 1.0)  # then others have their turn
DRAIN_SECONDS = env.number("DRAIN_SECONDS", 10.0)  # a command's time on shutdown
CANCEL_SECONDS = env.number("CANCEL_SECONDS", 5.0)  # from TERM to KILL
SWEEP_SECONDS = env.number("SWEEP_SECONDS", 300.0)
TURN_SECONDS = env.number("TURN_SECONDS", 600.0)  # a turn's limit where none is said
TURN_CALLS = env.whole("TURN_CALLS", 100)  # tools used in a turn; a loop is no answer
MODELS = env.words("MODELS")  # providers beside the known: name=shape@url#SECRET
MODEL_SECONDS = env.number("MODEL_SECONDS", 120.0)  # a model may be silent so long
TURN_RETRIES = 2  # for faults a retry can mend
TURN_RECLAIMS = 5  # for workers that died
CALLS = env.calls("CALLS")  # what a `call` step may name, and how it is called
CALL_RESULT_LIMIT = env.whole("CALL_RESULT_LIMIT", 1_000_000)  # bytes of JSON
CALL_MEMORY = env.whole("CALL_MEMORY", 4 * 1024**3)  # of a call that has a timeout

# Queries: databases that are not ours, each query in a process of its own
QUERY_SECONDS = env.number("QUERY_SECONDS", 300.0)  # where the step names no timeout
QUERY_ROWS = env.whole("QUERY_ROWS", 1000)  # kept in the step's result
QUERY_CELL_LIMIT = env.whole("QUERY_CELL_LIMIT", 10_000)  # characters of one value
QUERY_RESULT_LIMIT = env.whole("QUERY_RESULT_LIMIT", 1_000_000)  # bytes of JSON
QUERY_FILE_LIMIT = env.whole("QUERY_FILE_LIMIT", 50_000_000)  # bytes of CSV
QUERY_MEMORY = env.whole("QUERY_MEMORY", 1024**3)
QUERY_FOLDERS = env.words("QUERY_FOLDERS", (str(DATA_DIR / "databases"),))  # of SQLite

# Commands
SANDBOX = env.text("SANDBOX", "auto")  # auto, bubblewrap, process or a dotted path
SANDBOX_READ_ONLY = env.words("SANDBOX_READ_ONLY", (sys.prefix, sys.base_prefix))
WORKSPACES = Path(env.text("WORKSPACES") or DATA_DIR / "workspaces")
SOURCES_DIR = Path(env.text("SOURCES_DIR") or DATA_DIR / "sources")
SOURCES = env.words(
    "SOURCES", ("demo", "demo-flaky")
)  # folders and archives in it `source:` may name
OUTPUT_LIMIT = env.whole("OUTPUT_LIMIT", 20_000)  # bytes of output kept, ends first
COMMAND_MEMORY = env.whole("COMMAND_MEMORY", 4 * 1024**3)
COMMAND_FILE_SIZE = env.whole("COMMAND_FILE_SIZE", 1024**3)
COMMAND_PROCESSES = env.whole("COMMAND_PROCESSES", 512)

# Files that steps keep: beside the rows, where every role sees them
ARTIFACTS = Path(env.text("ARTIFACTS") or DATA_DIR / "artifacts")
ARTIFACT_SIZE = env.whole("ARTIFACT_SIZE", 100_000_000)  # bytes of one
ARTIFACTS_COUNT = env.whole("ARTIFACTS_COUNT", 100)  # of one step
ARTIFACTS_SIZE = env.whole("ARTIFACTS_SIZE", 1_000_000_000)  # bytes of one run

# Mail: the console or files until a server is named
EMAIL_URL = env.text("EMAIL_HOST")
EMAIL_BACKEND = env.text(
    "EMAIL_BACKEND",
    "django.core.mail.backends.smtp.EmailBackend"
    if EMAIL_URL
    else "django.core.mail.backends.filebased.EmailBackend",
)
EMAIL_FILE_PATH = DATA_DIR / "mail"
EMAIL_HOST = EMAIL_URL or "localhost"
EMAIL_PORT = env.whole("EMAIL_PORT", 25)
EMAIL_HOST_USER = env.text("EMAIL_HOST_USER")
EMAIL_HOST_PASSWORD = env.text("EMAIL_HOST_PASSWORD")
EMAIL_USE_TLS = env.flag("EMAIL_USE_TLS")
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = env.text("DEFAULT_FROM_EMAIL", "threadwork@localhost")

# Safety
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = PUBLIC_URL.startswith("https://")
SESSION_COOKIE_HTTPONLY = True
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SECRETS_KEY = env.text("SECRETS_KEY") or SECRET_KEY

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": env.text("LOG_LEVEL", "INFO")},
    "loggers": {
        "httpx2": {"level": "WARNING"},
        "kombu": {"level": "WARNING"},
        "celery.worker.strategy": {"level": "WARNING"},
        "celery.app.trace": {"level": "WARNING"},
        "celery.beat": {"level": "WARNING"},
        "django_celery_beat": {"level": "WARNING"},
        "django.server": {"level": "WARNING"},
        "django.request": {"level": "ERROR"},  # a refusal is an answer, not trouble
    },
}
