#!/bin/sh
# deps.sh build|check|bench|cpython|packaging|image|aarch64... - install the Debian packages that building, testing or
# measuring needs and that are missing. Quick when nothing is; without Debian, root or sudo it only says what is
# missing.
set -eu

wanted=""
for group in "$@"; do
    case $group in
    build)
        wanted="$wanted meson ninja-build gcc pkg-config libjansson-dev libseccomp-dev libcap-dev
            libc6-dev python3"
        ;;
    check)
        wanted="$wanted libcmocka-dev scdoc clang clang-format clang-tidy git util-linux
            python3-venv python3-dev python3-pip python3-numpy python3-pandas python3-matplotlib python3-scipy
            python3-sklearn python3-pil python3-jsonschema openssl"
        # Often installed from elsewhere: any node and npm on the PATH will do.
        command -v node >/dev/null 2>&1 || wanted="$wanted nodejs"
        command -v npm >/dev/null 2>&1 || wanted="$wanted npm"
        ;;
    bench)
        wanted="$wanted bubblewrap python3-ipykernel python3-jupyter-client python3-matplotlib
            python3-numpy python3-pandas"
        ;;
    cpython)
        wanted="$wanted libpython3-testsuite"
        ;;
    packaging) # the shells judge their completions; an emulated machine
        wanted="$wanted debhelper libcmocka-dev scdoc lintian fish zsh netcat-openbsd socat mmdebstrap qemu-system-arm"
        ;;
    aarch64) # for a cross build; adds the architecture to dpkg
        wanted="$wanted gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static libcmocka-dev:arm64
            libjansson-dev:arm64 libseccomp-dev:arm64 libcap-dev:arm64"
        ;;
    image) # and for its tests
        wanted="$wanted mmdebstrap debian-archive-keyring crun skopeo golang-github-containers-common python3-yaml"
        command -v npm >/dev/null 2>&1 || wanted="$wanted npm"
        ;;
    *)
        echo "usage: deps.sh build|check|bench|cpython|packaging|image|aarch64..." >&2
        exit 2
        ;;
    esac
done

if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "deps.sh: not a Debian system; needed are:" $wanted >&2
    exit 0
fi

missing=""
for package in $wanted; do
    # A package that another one provides (pkgconf for pkg-config) counts as well.
    state=$(dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null || true)
    case $state in *installed*) ;; *) missing="$missing $package" ;; esac
done
[ -n "$missing" ] || exit 0

as_root=""
if [ "$(id -u)" -ne 0 ]; then
    if ! sudo -n true 2>/dev/null; then
        echo "deps.sh: missing, and neither root nor sudo to install them:$missing" >&2
        exit 0
    fi
    as_root="sudo -n"
fi
echo "installing:$missing"
case $missing in *:arm64*) $as_root dpkg --add-architecture arm64 ;; esac
$as_root apt-get update -qq
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing \
    >/dev/null
