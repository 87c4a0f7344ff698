"""A certificate authority for tests: of a company, or of a proxy that reads TLS.

    office = Authority(directory, "office")
    context = office.context("web.example")
    ... --ca-cert office.file
"""
import pathlib
import ssl
import subprocess
import threading


def openssl(*words):
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


class Authority:
    def __init__(self, directory, name):
        self.directory, self.name, self.made, self.lock = pathlib.Path(directory), name, {}, threading.Lock()
        self.file, self.key = self.directory / f"{name}.pem", self.directory / f"{name}.key"
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3650", "-subj", f"/CN={name} authority",
                "-keyout", self.key, "-out", self.file)

    def context(self, *hosts):
        """For a server that has these names; made once."""
        with self.lock:
            if hosts not in self.made:
                self.made[hosts] = self.sign(hosts)
            return self.made[hosts]

    def sign(self, hosts):
        key, request, made, extension = (self.directory / f"{self.name}-{hosts[0]}.{ending}" for ending in ("key", "csr", "crt", "ext"))
        extension.write_text(f"subjectAltName={','.join('DNS:' + host for host in hosts)}\nbasicConstraints=CA:FALSE\n")
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={hosts[0]}", "-keyout", key, "-out", request)
        openssl("x509", "-req", "-in", request, "-CA", self.file, "-CAkey", self.key, "-CAcreateserial", "-days", "3650",
                "-extfile", extension, "-out", made)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(made, key)
        return context
