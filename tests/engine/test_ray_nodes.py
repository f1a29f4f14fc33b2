import socket
import socketserver
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler

import pytest

from superarm.engine import ray_nodes
from superarm.engine.local import create_engine
from superarm.errors import ClusterError


class Mute(socketserver.BaseRequestHandler):
    """A server that listens and says nothing."""

    def handle(self):
        self.request.recv(1000)
        time.sleep(1.0)


class Web(BaseHTTPRequestHandler):
    """A server of another kind."""

    def log_message(self, *_):
        pass


class SixServer(socketserver.ThreadingTCPServer):
    """A server at an IPv6 address."""

    address_family = socket.AF_INET6


def test_an_address_of_ipv6():
    assert ray_nodes.resolve_address("[::1]:6379", "10.0.0.1") == ("10.0.0.1", "6379")
    assert ray_nodes.resolve_address("[fd00::7]:6379", "10.0.0.1") == ("fd00::7", "6379")
    try:
        server = SixServer(("::1", 0), Web)
    except OSError:
        pytest.skip("this machine has no IPv6")
    with server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(ClusterError, match="is not Ray"):
            ray_nodes.require_reachable(f"[::1]:{server.server_address[1]}")
        server.shutdown()


@pytest.mark.parametrize("handler", [Mute, Web])
def test_what_answers_but_is_no_ray_is_refused(handler, monkeypatch):
    monkeypatch.setattr(ray_nodes, "CONNECT_TIMEOUT", 0.3)
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{server.server_address[1]}"
        with pytest.raises(ClusterError, match="is not Ray"):
            ray_nodes.require_reachable(address)
        server.shutdown()


@pytest.mark.parametrize("host", ["host..x", "x" * 70])
def test_names_that_no_machine_can_have(host):
    with pytest.raises(ClusterError, match="nothing answers at"):
        ray_nodes.require_reachable(f"{host}:6379")


def test_without_ray_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ClusterError, match=r"pip install 'superarm\[cluster\]'"):
        create_engine("ray")
