from __future__ import annotations

from django.urls import path

from workflows import moves, views

app_name = "workflows"
urlpatterns = [
    path("", views.inbox, name="inbox"),
    path("runs/", views.runs, name="runs"),
    path("runs/of/<uuid:thread>/", views.run_of, name="run-of"),
    path("runs/<uuid:code>/", views.run_page, name="run"),
    path("runs/<uuid:code>/body/", views.run_body, name="run-body"),
    path("runs/<uuid:code>/decide/", views.decide, name="decide"),
    path("runs/<uuid:code>/reply/", views.reply, name="reply"),
    path("runs/<uuid:code>/cancel/", moves.cancel, name="cancel"),
    path("runs/<uuid:code>/retry/", moves.retry, name="retry"),
    path("runs/<uuid:code>/again/", moves.again, name="again"),
    path("runs/<uuid:code>/pause/", moves.pause, name="pause"),
    path("runs/<uuid:code>/resume/", moves.resume, name="resume"),
    path("runs/<uuid:code>/skip/", moves.skip, name="skip"),
    path("runs/<uuid:code>/set/", moves.set_result, name="set"),
    path("workflows/", views.workflows, name="workflows"),
    path("workflows/<str:slug>/start/", views.start, name="start"),
]
