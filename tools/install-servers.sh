#!/bin/sh
# Installs what the check needs beside Go, through the system's package manager, and only what is missing:
#
#	sh tools/install-servers.sh redis gcc
#
# To add a program, add how to see that it is there to is_there, and its packages to packages_of.
set -eu

is_there() {
	case $1 in
	redis) command -v redis-server ;;
	postgresql) command -v postgres || ls /usr/lib/postgresql/*/bin/postgres /usr/libexec/postgresql*/postgres ;;
	mariadb) command -v mariadbd || ls /usr/sbin/mariadbd ;;
	pgbouncer) command -v pgbouncer || ls /usr/sbin/pgbouncer ;;
	chromium) command -v chromium || command -v chromium-browser || command -v google-chrome ;;
	gcc) echo '#include <stdlib.h>' | "$(go env CC)" -E - ;; # a compiler without its headers is of no use
	make) command -v make ;;
	spin) command -v spin ;;
	nginx) command -v nginx || ls /usr/sbin/nginx ;;
	haproxy) command -v haproxy || ls /usr/sbin/haproxy ;;
	prometheus) command -v promtool ;;
	patroni | etcd | rsync) command -v "$1" ;;
	galera) ls /usr/lib/galera/libgalera_smm.so || ls /usr/lib64/galera-4/libgalera_smm.so ;;
	npm) command -v npm ;; # fetches axe-core and redocly
	*) false ;;
	esac >/dev/null 2>&1
}

packages_of() {
	case $1/$2 in
	redis/apt-get) echo redis-server ;;
	redis/*) echo redis ;;
	postgresql/dnf) echo postgresql-server postgresql-contrib ;;
	postgresql/*) echo postgresql ;;
	mariadb/brew) echo mariadb ;;
	mariadb/apk) echo mariadb mariadb-client ;;
	mariadb/*) echo mariadb-server ;;
	galera/apt-get | galera/dnf) echo galera-4 ;;
	etcd/apt-get) echo etcd-server ;;
	prometheus/dnf) echo golang-github-prometheus ;;
	# The compiler's headers are a recommendation of its package, and recommendations are not installed.
	gcc/apt-get) echo gcc libc6-dev ;;
	gcc/dnf) echo gcc glibc-devel ;;
	gcc/apk) echo gcc musl-dev ;;
	*) echo "$1" ;;
	esac
}

# as_root runs a command as it is where that is enough, and asks sudo otherwise.
as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		echo "install-servers: neither root nor sudo: run this yourself: $*" >&2
		return 1
	fi
}

install_with() {
	manager=$1
	shift
	case $manager in
	apt-get)
		# One repository that cannot be reached need not be the one that has our packages.
		as_root apt-get update || echo "install-servers: going on with the package lists that are there" >&2
		as_root env DEBIAN_FRONTEND=noninteractive \
			apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=300 "$@"
		;;
	dnf) as_root dnf install -y "$@" ;;
	apk) as_root apk add "$@" ;;
	brew) brew install "$@" ;;
	esac
}

missing=
for program in "$@"; do
	if ! is_there "$program"; then
		missing="$missing $program"
	fi
done
if [ -z "$missing" ]; then
	echo "nothing to install, all there: $*"
	exit 0
fi

for manager in apt-get dnf apk brew ''; do
	if [ -n "$manager" ] && command -v "$manager" >/dev/null; then
		break
	fi
done
if [ -z "$manager" ]; then
	echo "install-servers: no package manager known here (apt-get, dnf, apk, brew). Please install:$missing" >&2
	exit 1
fi

packages=
for program in $missing; do
	packages="$packages $(packages_of "$program" "$manager")"
done
echo "installing with $manager:$packages"
# shellcheck disable=SC2086 # the packages are words
install_with "$manager" $packages </dev/null

for program in $missing; do
	if ! is_there "$program"; then
		echo "install-servers: $program is still missing after the installation of$packages" >&2
		exit 1
	fi
done
