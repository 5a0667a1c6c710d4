from __future__ import annotations

from django.urls import path

from threads import views

app_name = "threads"
urlpatterns = [
    path("threads/<uuid:code>/", views.thread, name="thread"),
    path("threads/<uuid:code>/reply/", views.reply, name="reply"),
    path("threads/<uuid:code>/decide/", views.decide, name="decide"),
    path("artifacts/<uuid:code>/", views.artifact, name="artifact"),
]
