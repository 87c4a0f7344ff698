"""Turns pip's exceptions and the index's responses into one class and one sentence.

Checks types and attributes, never pip's messages: those change from release to release.
"""
import errno
import ssl
import urllib.parse
import zipfile


class Failure(Exception):
    """kind: the class in the reply. more: its further keys (near, available)."""

    def __init__(self, kind, message, **more):
        super().__init__(message)
        self.kind, self.message, self.more = kind, message, more

    def answer(self):
        return {"ok": False, "class": self.kind, "message": self.message, **self.more}


def of(error):
    """The Failure for any exception. candidates.py, which knows what the index offers, checks those of the resolver."""
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
    return Failure("bad_hash", "the file downloaded for %s does not match the hash in the index; it was not "
                   "installed" % (name or "a package"))


def of_disk(error):
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return Failure("disk", "the package disk is full; the user can raise --package-disk")
    return None


def of_network(error, url=None):
    """The Failure for an error of the network, None for any other."""
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
        # http.client reports a proxy's response to CONNECT only as text.
        if type(one) is OSError and str(one).startswith("Tunnel connection failed: "):
            code, _, reason = str(one).partition(": ")[2].partition(" ")
            return of_proxy(host, code, reason)
    if any(isinstance(one, requests.exceptions.SSLError) for one in errors):
        return of_tls(host, next((one for one in errors if isinstance(one, ssl.SSLCertVerificationError)), None))
    if any(isinstance(one, requests.exceptions.Timeout) or type(one).__name__.endswith("TimeoutError")
           for one in errors):
        return Failure("timeout", "%s did not respond in time" % host)
    if any(type(one).__name__ in ("IncompleteDownloadError", "IncompleteRead") for one in errors):
        return cut_off("a download from %s" % host)
    if any(isinstance(one, (requests.exceptions.RequestException, NetworkConnectionError)) for one in errors) or \
            type(error).__module__.startswith("pip._vendor.urllib3"):
        return Failure("unreachable", "%s could not be reached" % host)
    return None


# X509_V_ERR of OpenSSL: self-signed, self-signed in the chain, no issuer, an unverifiable first one.
UNKNOWN_ISSUER = (18, 19, 20, 21)


def of_tls(host, error):
    """error: of the verification; None: something else failed."""
    if error is None:
        return Failure("unreachable", "the TLS connection to %s failed: it was closed, or is no TLS" % host)
    if error.verify_code in UNKNOWN_ISSUER:
        return Failure("unreachable", "the certificate of %s was not accepted, as its issuer is unknown; the user can add "
                       "that with --ca-cert" % host)
    return Failure("unreachable", "the certificate of %s was not accepted: %s" % (host, error.verify_message))


def cut_off(what):
    return Failure("unreachable", "%s was cut off before its end; repeat the call" % what)


def of_status(response):
    host, code = host_of(response.url), response.status_code
    if response.headers.get("Proxy-Status", "").startswith("sandpiper"):
        return of_proxy(host, str(code), response.reason)
    if code in (401, 403, 407):
        return Failure("auth", "%s requires credentials (status %d); the user can add them to --index-url"
                       % (host, code))
    if code in (408, 504):
        return Failure("timeout", "%s did not respond in time (status %d)" % (host, code))
    return Failure("unreachable", "%s responded with status %d" % (host, code))


def of_proxy(host, code, reason):
    """The egress proxy's refusal: 403 and a sentence; 502 and 504 if it could not connect."""
    for name in ("Forbidden: ", "Bad Gateway: ", "Gateway Timeout: "):
        reason = reason[len(name):] if reason.startswith(name) else reason
    if " the upstream proxy " in reason:
        return Failure("proxy", reason)
    if code == "403":
        return Failure("blocked", reason or "%s is not allowed" % host)
    return Failure("timeout" if code == "504" else "unreachable", reason or "%s could not be reached" % host)


def patient(retry):
    """Such a rule for repetitions, but for what the egress proxy has refused: that says the same again, and a password that is
    refused often locks an account."""
    class Patient(type(retry)):
        def increment(self, method=None, url=None, response=None, error=None, *rest, **more):
            if error is not None and any(str(one).startswith("Tunnel connection failed: ") for one in chain(error)):
                raise error
            return super().increment(method, url, response, error, *rest, **more)

    made = retry.new()
    made.__class__ = Patient
    return made


def chain(error):
    """The error and its causes: HTTP libraries wrap it several times."""
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
