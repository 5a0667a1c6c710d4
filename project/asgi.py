from __future__ import annotations

import os
import warnings

from django.core.asgi import get_asgi_application

from project import roles

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
os.environ.setdefault("THREADWORK_ROLE", "web")
# Static files are read by plain iterators, which is as fast as they need to be.
warnings.filterwarnings("ignore", message="StreamingHttpResponse must consume")
application = get_asgi_application()
roles.require_servers("web")
