#!/bin/sh
# Fetches Redocly's linter, which judges the OpenAPI documents, from the npm registry into build/redocly:
#
#	sh tools/install-redocly.sh
#
# Redocly CLI is under the MIT licence, and used by a test only. Without npm the script says so, and the test is skipped or
# fails as ONCEKEY_REQUIRE_SERVERS demands.
set -eu

version=2.77.0
folder=build/redocly

if [ -e "$folder/$version" ]; then
	echo "redocly $version is there"
	exit 0
fi
if ! command -v npm >/dev/null; then
	echo "install-redocly: npm is missing, and fetches redocly (Debian: apt-get install npm)" >&2
	exit 0
fi
rm -rf "$folder"
mkdir -p "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" "@redocly/cli@$version"
touch "$folder/$version"
