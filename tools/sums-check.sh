#!/bin/sh
# Fails when go list -m all would change the sums of the workspace in a folder, and leaves them as they were.
#
#	tools/sums-check.sh FOLDER COPY
#
# COPY is a file for the sums meanwhile.
set -eu
sums=$1/go.work.sum
cp "$sums" "$2"
trap 'cp "$2" "$sums"' EXIT
go -C "$1" list -m all >/dev/null
diff "$2" "$sums" || { echo "$sums is not as go list -m all leaves it: make tidy puts it right." >&2; exit 1; }
