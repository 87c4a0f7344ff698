"""A minimal npm registry on loopback that serves packages from files."""
import base64
import contextlib
import hashlib
import http.server
import json
import tarfile
import threading


def described(path, address):
    with tarfile.open(path) as archive:
        package = json.load(archive.extractfile("package/package.json"))
    digest = base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()
    package["dist"] = {"tarball": f"{address}/-/{path.name}", "integrity": "sha512-" + digest}
    return package


@contextlib.contextmanager
def serve(*paths):
    """Yields the address. The last path's version is the latest. File names must be unique."""
    files = {f"/-/{path.name}": path for path in paths}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            data = files[self.path].read_bytes() if self.path in files else packument(self.path[1:])
            self.send_response(200 if data else 404)
            self.send_header("Content-Length", len(data))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    address = f"http://127.0.0.1:{server.server_port}"
    packages = [described(path, address) for path in paths]

    def packument(name):
        versions = {package["version"]: package for package in packages if package["name"] == name}
        if not versions:
            return b""
        return json.dumps({"name": name, "versions": versions, "dist-tags": {"latest": list(versions)[-1]}}).encode()

    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield address
    finally:
        server.shutdown()
        server.server_close()
