"""Django's settings, made of the process settings; nothing else reads the environment."""

from pathlib import Path
from typing import Any

from csp.constants import NONE, SELF
from redis.backoff import NoBackoff
from redis.retry import Retry

from controlplane.bridge.database import bounded_connections
from controlplane.environment import CACHE_DATABASE, CHANNEL_DATABASE, ProcessSettings
from controlplane.logs import configure_structlog, logging_settings

BASE_DIR = Path(__file__).resolve().parent.parent
HEADWORKS = ProcessSettings.load()

STORE_TIMEOUT_S = 0.5
"""How long a page waits for the state store: a store that accepts and never answers is down."""

DEBUG = False
SECRET_KEY = HEADWORKS.secret_key.get_secret_value()
ALLOWED_HOSTS = list(HEADWORKS.hosts)
CSRF_TRUSTED_ORIGINS = list(HEADWORKS.trusted_origins)

INSTALLED_APPS = [
    "controlplane",
    "dashboards",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "django.contrib.postgres",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_filters",
    "django_tables2",
    "allauth",
    "allauth.account",
    "channels",
    "django_htmx",
    "csp",
    "servestatic",
]

MIDDLEWARE = [
    "controlplane.middleware.request_identity",
    "django.middleware.security.SecurityMiddleware",
    "servestatic.middleware.ServeStaticMiddleware",
    "csp.middleware.CSPMiddleware",
    "controlplane.middleware.privacy",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "controlplane.middleware.outages",
]

ROOT_URLCONF = "controlplane.urls"
ASGI_APPLICATION = "controlplane.asgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]

_CONNECTION = dict(HEADWORKS.connection)
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _CONNECTION.pop("dbname"),
        "USER": _CONNECTION.pop("user", ""),
        "PASSWORD": _CONNECTION.pop("password", ""),
        "HOST": _CONNECTION.pop("host", ""),
        "PORT": _CONNECTION.pop("port", ""),
        "CONN_MAX_AGE": 0,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {
            "connect_timeout": 3,
            # a server that vanished from the network is noticed, not waited for
            "keepalives_idle": 5,
            "keepalives_interval": 2,
            "keepalives_count": 3,
            "tcp_user_timeout": 10_000,
            "application_name": "headworks",
            "options": (
                f"-c statement_timeout={HEADWORKS.statement_timeout_ms}"
                " -c lock_timeout=10000 -c idle_in_transaction_session_timeout=60000"
            ),
            "pool": {
                "min_size": 0,
                "max_size": HEADWORKS.database_pool_size,
                "connection_class": bounded_connections(HEADWORKS.statement_timeout_ms),
                # a page may wait this long for a connection, then the database counts as down
                "timeout": 3,
                # given up and begun anew, or the back-off outlasts the database's absence
                "reconnect_timeout": 2,
            },
            **_CONNECTION,
        },
    }
}

CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": HEADWORKS.state_database(CACHE_DATABASE),
        "KEY_PREFIX": "hw",
        "OPTIONS": {
            "serializer": "controlplane.sessions.JsonSerializer",
            "socket_timeout": STORE_TIMEOUT_S,
            "socket_connect_timeout": STORE_TIMEOUT_S,
            # once, for a connection the store has dropped meanwhile
            "retry": Retry(NoBackoff(), 1),
        },
    }
}
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [HEADWORKS.state_database(CHANNEL_DATABASE)]},
    }
}

CELERY_BROKER_URL = HEADWORKS.broker
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_SERIALIZER = "json"
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_TIME_LIMIT = 120
CELERY_TASK_SOFT_TIME_LIMIT = 100
CELERY_TASK_ACKS_LATE = True
CELERY_ENABLE_UTC = True
CELERY_TIMEZONE = "UTC"
CELERY_WORKER_CONCURRENCY = 2
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_SEND_TASK_EVENTS = False
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = True
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "socket_timeout": 5,
    "socket_connect_timeout": 2,
    "socket_keepalive": True,
    # longer than the longest task, or it would be handed out twice
    "visibility_timeout": 600,
}

AUTH_USER_MODEL = "controlplane.User"
AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "/"
ACCOUNT_ADAPTER = "controlplane.accounts.ClosedAccountAdapter"
ACCOUNT_LOGIN_METHODS = {"username", "email"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "email*", "password1*", "password2*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_LOGOUT_REDIRECT_URL = "account_login"

SESSION_ENGINE = "controlplane.sessions"
# cookies ignore ports, and two installations may stand side by side on one host
SESSION_COOKIE_NAME = f"headworks_session_{HEADWORKS.console_port}"
SESSION_COOKIE_AGE = 12 * 3600
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = HEADWORKS.https
CSRF_COOKIE_NAME = f"headworks_csrf_{HEADWORKS.console_port}"
CSRF_COOKIE_SECURE = HEADWORKS.https
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"
SECURE_SSL_REDIRECT = HEADWORKS.https
SECURE_HSTS_SECONDS = HEADWORKS.hsts_s if HEADWORKS.https else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = HEADWORKS.https
SECURE_HSTS_PRELOAD = HEADWORKS.https
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        # the hash is that of the empty style element charts insert and then fill by script
        "style-src": [SELF, "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"],
        "img-src": [SELF, "data:", "blob:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "manifest-src": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "base-uri": [NONE],
        "object-src": [NONE],
    }
}
DATA_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024
DATA_UPLOAD_MAX_NUMBER_FIELDS = 1_000

LANGUAGE_CODE = "en"
USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"

SERVESTATIC_ALLOW_ALL_ORIGINS = False
STATIC_URL = "/static/"
STATIC_ROOT = HEADWORKS.var / "static"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "dashboards.static_files.StaticFiles"},
}
EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
EMAIL_FILE_PATH = HEADWORKS.var / "mail"

REST_FRAMEWORK: dict[str, Any] = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "controlplane.api.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["controlplane.api.permissions.RolePermission"],
    "DEFAULT_PARSER_CLASSES": ["controlplane.api.parsers.StrictJSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PAGINATION_CLASS": "controlplane.api.pagination.NewestFirst",
    "DEFAULT_FILTER_BACKENDS": ["controlplane.api.filters.StrictFilterBackend"],
    "DEFAULT_SCHEMA_CLASS": "controlplane.api.schema.OperationSchema",
    "EXCEPTION_HANDLER": "controlplane.api.error_responses.respond_to_exception",
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Headworks",
    "DESCRIPTION": "Routes, pools, models, prices, keys and the ledger of an LLM fleet.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SCHEMA_PATH_PREFIX": "/api/v1/",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
    "SERVE_AUTHENTICATION": [],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    # of more than some hundred and twenty open at once the page shows the first few for ever
    "SWAGGER_UI_SETTINGS": {"deepLinking": True, "docExpansion": "none", "filter": True},
    "COMPONENT_SPLIT_REQUEST": True,
    # `task` is what a model is for on one object, and what kind of answer is wanted on another;
    # a route's accounting and a limit's enforcement are strict or lenient alike
    "ENUM_NAME_OVERRIDES": {
        "PriorityClassEnum": "controlplane.models.kinds.priorities",
        "TaskClassEnum": "controlplane.models.kinds.task_classes",
        "StrictnessEnum": "controlplane.models.kinds.enforcements",
        "AlertScopeEnum": "controlplane.models.kinds.alert_scopes",
        "NoDataEnum": "controlplane.models.kinds.no_data_policies",
        "AlertKindEnum": "controlplane.models.kinds.alert_kinds",
        "AlertSeverityEnum": "controlplane.models.kinds.severities",
        "AlertStateEnum": "controlplane.models.kinds.episode_states",
        "ChannelKindEnum": "controlplane.models.kinds.channel_kinds",
        "DeliveryKindEnum": "controlplane.models.kinds.delivery_kinds",
        "DeliveryStateEnum": "controlplane.models.kinds.delivery_states",
        "ActionEnum": "controlplane.api.serializers.bulk.ACTIONS",
        "OutcomeEnum": "controlplane.models.kinds.outcomes",
        "CacheOutcomeEnum": "controlplane.models.kinds.cache_outcomes",
        "CacheTierEnum": "controlplane.models.kinds.cache_tiers",
        "CacheScopeEnum": "controlplane.models.kinds.cache_scopes",
        "PurgeKindEnum": "controlplane.models.kinds.purge_kinds",
        "BudgetActionEnum": "controlplane.models.kinds.budget_actions",
        "BudgetStateEnum": "controlplane.models.kinds.budget_states",
        "TooLongEnum": "controlplane.models.kinds.too_long_policies",
        "BudgetSubjectEnum": "controlplane.models.kinds.budget_subjects",
        "LimitSubjectEnum": "controlplane.models.kinds.limit_subjects",
        "SwitchSubjectEnum": "controlplane.models.kinds.switch_subjects",
    },
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "controlplane.api.schema.tell_conventions",
    ],
}

configure_structlog()
LOGGING = logging_settings(HEADWORKS.log_level.upper(), HEADWORKS.known_secrets)
