"""Writes container images: one tar archive that is both an OCI image layout and what `docker load` takes.

Facts: OCI image-spec 1.0, image-layout.md, manifest.md, config.md, layer.md; Docker's image.spec v1.2 for manifest.json.
Docker reads index.json from version 25 on and manifest.json before; Podman and skopeo read both.
"""
import dataclasses
import gzip
import hashlib
import io
import json
import tarfile
import time

MEDIA = "application/vnd.oci.image."
COMPRESSION = 6  # of zlib; 9 takes twice the time for one per cent


@dataclasses.dataclass
class Layer:
    """data: compressed. diff_id: the digest of the uncompressed data, by which an engine identifies the layer."""

    data: bytes
    diff_id: str
    made_by: str


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def layer(archive, made_by):
    """archive: an uncompressed tar file's bytes."""
    return Layer(gzip.compress(archive, COMPRESSION, mtime=0), digest(archive), made_by)


def member(name, now, kind=tarfile.REGTYPE, mode=0o644, owner=0, target=""):
    made = tarfile.TarInfo(name)
    made.type, made.mode, made.mtime, made.linkname = kind, mode, now, target
    made.uid = made.gid = owner
    return made


def archive(entries):
    """The tar file of (member, bytes) pairs."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as packed:
        for entry, data in entries:
            entry.size = len(data)
            packed.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def as_json(value):
    return json.dumps(value, indent=1, sort_keys=True).encode()


def image(layers, arch, settings, reference, now):
    """The archive's bytes. settings: the `config` of the image, by config.md. now: seconds since 1970."""
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
    blobs = {}

    def blob(kind, data, **more):
        blobs[digest(data)] = data
        return {"mediaType": MEDIA + kind, "digest": digest(data), "size": len(data), **more}

    config = blob("config.v1+json", as_json({
        "architecture": arch, "os": "linux", "created": created, "config": settings,
        "rootfs": {"type": "layers", "diff_ids": [each.diff_id for each in layers]},
        "history": [{"created": created, "created_by": each.made_by} for each in layers]}))
    manifest = blob("manifest.v1+json", as_json({
        "schemaVersion": 2, "mediaType": MEDIA + "manifest.v1+json", "config": config,
        "layers": [blob("layer.v1.tar+gzip", each.data) for each in layers]}),
        platform={"architecture": arch, "os": "linux"},
        annotations={"org.opencontainers.image.ref.name": reference.rpartition(":")[2],
                     "io.containerd.image.name": reference})
    files = {f"blobs/{name.replace(':', '/')}": data for name, data in blobs.items()}
    path = {name: f"blobs/{name.replace(':', '/')}" for name in blobs}
    files["oci-layout"] = as_json({"imageLayoutVersion": "1.0.0"})
    files["index.json"] = as_json({"schemaVersion": 2, "manifests": [manifest]})
    files["manifest.json"] = as_json([{"Config": path[config["digest"]], "RepoTags": [reference],
                                       "Layers": [path[digest(each.data)] for each in layers]}])
    return archive((member(name, now), data) for name, data in sorted(files.items()))
