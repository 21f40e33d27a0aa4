"""Paths of the pages; nouns in the plural, as everywhere."""

from django.urls import path
from django.views.generic import RedirectView

from controlplane.console.views.requests import request_detail, request_list

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="requests"), name="home"),
    path("requests/", request_list, name="requests"),
    path("requests/<str:event_id>/", request_detail, name="request"),
]
