#!/bin/sh
# deps.sh GROUP... - install the missing Debian packages for building, testing or measuring. Quick when none is missing;
# without Debian, root or sudo it only lists them.
set -eu

wanted=""
for group in "$@"; do
    case $group in
    build)
        wanted="$wanted meson ninja-build gcc libjansson-dev libseccomp-dev libcap-dev
            libc6-dev python3 scdoc"
        # The package's name depends on the release.
        command -v pkg-config >/dev/null 2>&1 || wanted="$wanted pkg-config"
        ;;
    check)
        wanted="$wanted libcmocka-dev clang libclang-rt-dev clang-format clang-tidy git util-linux
            python3-venv python3-dev python3-pip python3-numpy python3-pandas python3-matplotlib python3-scipy
            python3-sklearn python3-pil python3-docx python3-openpyxl python3-pypdf python3-jsonschema openssl
            python3-nbformat python3-nbclient python3-ipykernel python3-pytest fish zsh bubblewrap e2fsprogs xfsprogs btrfs-progs"
        # Often installed from elsewhere: any node and npm on the PATH suffice.
        command -v node >/dev/null 2>&1 || wanted="$wanted nodejs"
        command -v npm >/dev/null 2>&1 || wanted="$wanted npm"
        ;;
    view) # the page of results, as a client shows it
        wanted="$wanted chromium"
        ;;
    bench)
        wanted="$wanted bubblewrap python3-ipykernel python3-jupyter-client python3-matplotlib
            python3-numpy python3-pandas"
        ;;
    cpython)
        # Debian 12 has no package without the version.
        wanted="$wanted libpython$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')-testsuite"
        ;;
    release) # for make deb, dist and image
        wanted="$wanted build-essential debhelper git libcmocka-dev"
        ;;
    image)
        wanted="$wanted mmdebstrap debian-archive-keyring uidmap"
        command -v npm >/dev/null 2>&1 || wanted="$wanted npm"
        ;;
    packaging) # containers; an emulated machine
        wanted="$wanted lintian netcat-openbsd socat crun skopeo golang-github-containers-common
            python3-yaml python3-jsonschema qemu-system-arm"
        # gVisor, where the release has it.
        ! apt-cache show runsc >/dev/null 2>&1 || wanted="$wanted runsc"
        ;;
    aarch64) # for a cross build; adds the architecture to dpkg
        wanted="$wanted gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static libcmocka-dev:arm64
            libjansson-dev:arm64 libseccomp-dev:arm64 libcap-dev:arm64"
        ;;
    *)
        echo "usage: deps.sh build|check|view|bench|cpython|release|image|packaging|aarch64..." >&2
        exit 2
        ;;
    esac
done

if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "deps.sh: not a Debian system; needed are:" $wanted >&2
    exit 0
fi

find_missing() {
    missing=""
    for package in $wanted; do
        # One line for each architecture. dpkg also knows packages that are not-installed.
        dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
            missing="$missing $package"
    done
}
find_missing
[ -n "$missing" ] || exit 0

as_root=""
if [ "$(id -u)" -ne 0 ]; then
    # Asks for a password only where somebody can type one.
    as_root="sudo"
    if ! sudo -n true 2>/dev/null && ! { command -v sudo >/dev/null && [ -t 0 ] && [ -t 2 ]; }; then
        echo "deps.sh: packages are missing; as root: apt-get install$missing" >&2
        exit 0
    fi
fi
echo "deps.sh: installing$missing"
case $missing in *:arm64*) $as_root dpkg --add-architecture arm64 ;; esac
# Another program may hold apt's or dpkg's lock, as the upgrades of a new machine do. apt itself waits for dpkg's only.
apt="$as_root env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=900"
echo "deps.sh: updating the list of packages"
tries=180
while ! said=$($apt update -qq 2>&1); do
    tries=$((tries - 1))
    case $said in
    *"Could not get lock"*) [ "$tries" -gt 0 ] && echo "deps.sh: waiting for another apt to end" && sleep 5 && continue ;;
    esac
    echo "deps.sh: apt-get update failed: $said" >&2
    exit 1
done
# A line for each package, because they may take minutes. What is installed then is the status.
$apt install -y --no-install-recommends -o Dpkg::Use-Pty=0 $missing |
    sed -un 's/^Get:\([0-9]*\) [^ ]* [^ ]* [^ ]* \([^ ]*\) .*/  \1 downloading \2/p; s/^\(Need to get .*\|Setting up .*\|Waiting for .*\)/  \1/p'
find_missing
if [ -n "$missing" ]; then
    echo "deps.sh: apt-get could not install$missing: see its message above" >&2
    exit 1
fi
