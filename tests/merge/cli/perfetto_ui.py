#!/usr/bin/env python3
"""perfetto_ui.py TRAPLINE RECORDING: `report --open=perfetto` serves the export once, to Perfetto's UI alone.

With chromium, a page that is served as https://ui.perfetto.dev reads it, and one of another name can't.
"""
import hashlib
import http.client
import http.server
import os
import pathlib
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading

TRAPLINE, RECORDING = sys.argv[1:3]
UI = "https://ui.perfetto.dev"
CHROMIUM = shutil.which("chromium")
PAGE = b"""<body><script>
const url = location.hash.slice("#!/?url=".length);
fetch(url).then(answer => answer.arrayBuffer()).then(bytes => crypto.subtle.digest("SHA-256", bytes))
  .then(hash => [...new Uint8Array(hash)].map(byte => byte.toString(16).padStart(2, "0")).join(""))
  .catch(error => "refused").then(text => { document.body.textContent = "read: " + text; });
</script>"""


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_):
        pass


def serve_pages(folder):
    """An https server with a certificate of its own; returns its port."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=ui.perfetto.dev",
                    "-keyout", folder / "key", "-out", folder / "certificate"], check=True, stderr=subprocess.DEVNULL)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate", folder / "key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


def browse(address, port, folder):
    done = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--ignore-certificate-errors", f"--user-data-dir={folder}/profile",
         f"--host-resolver-rules=MAP *.dev 127.0.0.1:{port}, MAP *.example 127.0.0.1:{port}", "--virtual-time-budget=20000",
         "--dump-dom", address], capture_output=True, text=True, timeout=120, check=False)
    return done.stdout


def ask(host, port, method, path, headers):
    connection = http.client.HTTPConnection(host, port, timeout=10)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    return answer.status, dict(answer.getheaders()), answer.read()


def main():
    work = pathlib.Path(tempfile.mkdtemp())
    (work / "tmp").mkdir()
    environment = {**os.environ, "TMPDIR": str(work / "tmp")}
    environment.pop("DISPLAY", None)
    environment.pop("WAYLAND_DISPLAY", None)
    want = subprocess.run([TRAPLINE, "export", "--format", "perfetto", "-o", "-", RECORDING], stdout=subprocess.PIPE,
                          check=True).stdout
    command = [TRAPLINE, "report", "--open=perfetto", RECORDING]
    shown = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        page = shown.stdout.readline().strip()
        assert page.startswith(UI + "/#!/?url=http://127.0.0.1:9001/"), (page, shown.stderr.read())
        host, _, path = page.partition("url=http://")[2].partition("/")
        port = int(host.partition(":")[2])
        path = "/" + path
        assert not list((work / "tmp").iterdir()), "the file has a name while it is served"
        # A second one finds the port taken, and leaves nothing.
        second = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert second.returncode == 1 and "port 9001" in second.stderr, second
        assert not list((work / "tmp").iterdir()), list((work / "tmp").iterdir())
        assert ask("127.0.0.1", port, "GET", "/trapline.pftrace", {})[0] == 404
        assert ask("127.0.0.1", port, "GET", path, {"Host": "elsewhere.example:9001"})[0] == 404
        assert ask("127.0.0.1", port, "POST", path, {})[0] == 405
        status, headers, _ = ask("127.0.0.1", port, "OPTIONS", path, {"Origin": UI})
        assert (status, headers["Access-Control-Allow-Origin"], headers["Access-Control-Allow-Private-Network"]) == (
            204, UI, "true"), headers
        if CHROMIUM:
            pages = serve_pages(work)
            got = browse(page, pages, work)
            assert "read: " + hashlib.sha256(want).hexdigest() in got, got
        else:
            status, headers, got = ask("127.0.0.1", port, "GET", path, {"Origin": UI})
            assert status == 200 and got == want and headers["Access-Control-Allow-Origin"] == UI, headers
        assert shown.wait(timeout=60) == 0, shown.stderr.read()
    finally:
        shown.kill()
        shown.wait()
    if CHROMIUM:  # a page of another name gets nothing, though it knows the address
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as shown:
            page = shown.stdout.readline().strip()
            got = browse(page.replace(UI, "https://other.example"), pages, work)
            shown.kill()
            assert "read: refused" in got, got
    wrong = subprocess.run([TRAPLINE, "report", "--open=firefox", RECORDING], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2 and "--open=perfetto" in wrong.stderr, wrong
    shutil.rmtree(work)


main()
