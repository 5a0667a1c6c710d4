from __future__ import annotations

import os

from django.core.asgi import get_asgi_application

from project import roles

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
os.environ.setdefault("THREADWORK_ROLE", "web")
application = get_asgi_application()
roles.require_servers("web")
