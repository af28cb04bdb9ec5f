#!/bin/sh
# Fetches axe-core, which judges the inspector's pages in the browser, from the npm registry into build/axe-core:
#
#	sh tools/install-axe.sh
#
# axe-core is under the MPL-2.0. It is used by tests only, and is no part of any module. npm checks the integrity of its
# archive. Without npm the script says so, and the test is skipped or fails as ONCEKEY_REQUIRE_SERVERS demands.
set -eu

version=4.14.1
folder=build/axe-core
file=$folder/axe-$version.min.js

if [ -s "$file" ]; then
	echo "axe-core $version is there"
	exit 0
fi
if ! command -v npm >/dev/null; then
	echo "install-axe: npm is missing, and fetches axe-core (Debian: apt-get install npm)" >&2
	exit 0
fi
rm -rf "$folder"
mkdir -p "$folder"
archive=$(npm pack --silent --pack-destination "$folder" "axe-core@$version")
tar -xzf "$folder/$archive" -C "$folder" package/axe.min.js package/LICENSE
mv "$folder/package/axe.min.js" "$file"
rm "$folder/$archive"
