#!/bin/sh
# Runs a command as a container would, in a mount namespace of its own:
#   as_container.sh ROOT USER "PATH ..." "FOLDER:PATH ..." COMMAND ...
# ROOT is an empty folder. The PATHs of this machine are seen where they are, the FOLDERs where the
# volumes are mounted, all read-only; a FOLDER `memory` is an emptyDir, the only thing that can be
# written to. The command has no capabilities, and can gain none. Needs the right to mount.
set -eu
root=$1 user=$2 seen=$3 volumes=$4
shift 4

show() {
    mkdir -p "$root$2"
    mount --bind "$1" "$root$2"
    mount -o remount,bind,ro "$root$2"
}

mount -t tmpfs tmpfs "$root"
mkdir "$root/tmp" "$root/proc" "$root/dev"
for path in /bin /sbin /lib /lib64; do
    if [ -L "$path" ]; then cp -P "$path" "$root$path"; elif [ -d "$path" ]; then show "$path" "$path"; fi
done
for pair in $volumes; do
    case $pair in
        memory:*) mkdir -p "$root${pair#*:}" && mount -t tmpfs -o size=16m,mode=1777 tmpfs "$root${pair#*:}" ;;
        *) show "${pair%%:*}" "${pair#*:}" ;;
    esac
done
# After the volumes: a checkout below /tmp would be hidden by the pod's own /tmp.
for path in $seen; do show "$path" "$path"; done
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -o remount,ro "$root"
exec chroot "$root" setpriv --reuid="$user" --regid="$user" --clear-groups \
    --inh-caps=-all --bounding-set=-all --no-new-privs "$@"
