"""From pip's exceptions and the index's answers to one class and one sentence.

Types and attributes are judged, never pip's messages: those change from release to release.
"""
import errno
import urllib.parse
import zipfile


class Failure(Exception):
    """kind: the class in the reply. more: its further keys (names, near, available)."""

    def __init__(self, kind, message, **more):
        super().__init__(message)
        self.kind, self.message, self.more = kind, message, more

    def answer(self):
        return {"ok": False, "class": self.kind, "message": self.message, **self.more}


def of(error):
    """What any exception comes to. Those of the resolver are judged in candidates.py, which knows the links."""
    if isinstance(error, Failure):
        return error
    for one in chain(error):
        found = of_hash(one) or of_disk(one)
        if found:
            return found
    return of_network(error) or Failure("other", first_line(error))


def of_hash(error):
    from pip._internal.exceptions import HashError

    if isinstance(error, zipfile.BadZipFile):
        return wrong_hash(None)
    if not isinstance(error, HashError):
        return None
    return wrong_hash(getattr(error.req, "name", None))


def wrong_hash(name):
    return Failure("bad_hash", "the file that was downloaded for %s is not the one that the index describes (wrong "
                   "hash): it was not installed" % (name or "a package"), names=[name] if name else [])


def of_disk(error):
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Failure("disk", "the disk for packages is full; the user can raise --package-disk")
    return None


def of_network(error, url=None):
    """None when the error is not of the network."""
    from pip._vendor import requests
    from pip._internal.exceptions import NetworkConnectionError

    errors = list(chain(error))
    for one in errors:
        response = getattr(one, "response", None)
        if response is not None:
            return of_status(response)
    request = next((one.request for one in errors if getattr(one, "request", None) is not None), None)
    host = host_of(url or getattr(request, "url", None))
    for one in errors:
        # http.client tells a proxy's answer to CONNECT in words only.
        if type(one) is OSError and str(one).startswith("Tunnel connection failed: "):
            code, _, reason = str(one).partition(": ")[2].partition(" ")
            return of_proxy(host, code, reason)
    if any(isinstance(one, requests.exceptions.SSLError) for one in errors):
        return Failure("unreachable", "the certificate of %s was not accepted; the user can name the right one with "
                       "--index-cert" % host)
    if any(isinstance(one, requests.exceptions.Timeout) or type(one).__name__.endswith("TimeoutError")
           for one in errors):
        return Failure("timeout", "%s did not answer in time" % host)
    if any(type(one).__name__ == "IncompleteDownloadError" for one in errors):
        return Failure("unreachable", "a download stopped in the middle; the same call may work")
    if any(isinstance(one, (requests.exceptions.RequestException, NetworkConnectionError)) for one in errors) or \
            type(error).__module__.startswith("pip._vendor.urllib3"):
        return Failure("unreachable", "%s could not be reached" % host)
    return None


def of_status(response):
    host, code = host_of(response.url), response.status_code
    if response.headers.get("Proxy-Status", "").startswith("sandpiper"):
        return of_proxy(host, str(code), response.reason)
    if code in (401, 403, 407):
        return Failure("auth", "%s does not let us in (status %d); the user can give credentials in --index-url"
                       % (host, code))
    if code in (408, 504):
        return Failure("timeout", "%s did not answer in time (status %d)" % (host, code))
    return Failure("unreachable", "%s answered with status %d" % (host, code))


def of_proxy(host, code, reason):
    """The broker's refusal: 403 and a sentence; 502 and 504 where there was no connection to be had."""
    if code == "403":
        return Failure("blocked", reason or "%s is not allowed" % host)
    return Failure("timeout" if code == "504" else "unreachable", reason or "%s could not be reached" % host)


def chain(error):
    """The error, and what it came from: libraries of HTTP wrap it several times."""
    found, waiting = [], [error]
    while waiting and len(found) < 20:
        one = waiting.pop(0)
        if isinstance(one, BaseException) and one not in found:
            found.append(one)
            waiting += [one.__cause__, one.__context__, getattr(one, "reason", None), *one.args]
    return found


def host_of(url):
    return urllib.parse.urlsplit(url or "").hostname or "the index"


def first_line(error):
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)[:500]
