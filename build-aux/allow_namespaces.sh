#!/bin/sh
# For `make install` on Ubuntu 23.10 and newer: loads the AppArmor profile without which a program has no user
# namespaces, or prints the two commands that do. With "remove" instead of PROGRAM it takes ours away again.
# Usage: allow_namespaces.sh PROGRAM|remove [ROOT]   (ROOT: for tests)
set -eu

profile=$(realpath "$(dirname "$0")/../packaging/apparmor.d/sandpiper")
target=${2:-}/etc/apparmor.d/sandpiper
rule=${2:-}/proc/sys/kernel/apparmor_restrict_unprivileged_userns

if [ "$1" = remove ]; then
    # Another program that it is for, such as the .deb's, still needs it; a symlink is the .deb's own.
    if [ ! -L "$target" ] && [ ! -e "${2:-}/usr/bin/sandpiper" ] && [ ! -e "${2:-}/usr/local/bin/sandpiper" ] &&
        cmp -s "$profile" "$target"; then
        apparmor_parser -R "$target" || true
        rm "$target"
    fi
    exit 0
fi
[ "$(cat "$rule" 2>/dev/null)" = 1 ] || exit 0
case $1 in
/usr/bin/sandpiper | /usr/local/bin/sandpiper) ;;
*)
    echo "AppArmor allows this program no user namespaces yet. This prints the commands: $1 doctor"
    exit 0
    ;;
esac
if cmp -s "$profile" "$target" || { [ "$(id -u)" = 0 ] && [ ! -e "$target" ]; }; then
    { [ -L "$target" ] || install -m 644 "$profile" "$target" 2>/dev/null; } && apparmor_parser -r "$target" &&
        echo "AppArmor's profile $target is loaded, without which Ubuntu allows no user namespaces" && exit 0
fi
echo "AppArmor allows this program no user namespaces yet. Run:"
echo "    sudo install -m 644 $profile $target"
echo "    sudo apparmor_parser -r $target"
