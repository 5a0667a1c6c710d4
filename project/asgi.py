from __future__ import annotations

import os

from django.core.asgi import get_asgi_application

from project import roles

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
application = get_asgi_application()
roles.require_servers("web")
