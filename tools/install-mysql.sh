#!/bin/sh
# Fetches Oracle's MySQL server for the tests into build/mysql, where the machine has none of version 8.0 or newer:
#
#	sh tools/install-mysql.sh
#
# MySQL's packages conflict with MariaDB's, which the tests need too. So the script downloads the server and its libraries
# from the distribution, installs no package, and keeps only the files that a server needs. build/mysql/mysqld runs them.
# Debian has MySQL in its unstable suite alone. There apt verifies the signatures as for every other package.
#
# MySQL is under the GPL-2.0. It is a program that tests run, and no part of any module. Where no package manager has it,
# the script says so, and the tests are skipped or fail as ONCEKEY_REQUIRE_SERVERS demands.
set -eu

folder=build/mysql

fail() {
	echo "install-mysql: $*" >&2
	exit 1
}

# by_hand is the end where the script cannot help.
by_hand() {
	echo "install-mysql: $1. The tests over MySQL need its mysqld 8.0 or newer on the PATH" >&2
	exit 0
}

# is_mysql refuses MariaDB, which installs a mysqld too.
is_mysql() {
	banner=$("$1" --no-defaults --version 2>/dev/null) || return 1
	case $banner in
	*MariaDB*) return 1 ;;
	*Ver\ [89].* | *Ver\ [1-9][0-9].*) ;;
	*) return 1 ;;
	esac
}

for program in "$folder/mysqld" mysqld /usr/sbin/mysqld /opt/homebrew/opt/mysql*/bin/mysqld /usr/local/opt/mysql*/bin/mysqld; do
	if is_mysql "$program"; then
		echo "MySQL is there: $program,${banner#*  }"
		exit 0
	fi
done

if command -v brew >/dev/null; then
	brew install mysql@8.4 </dev/null # keg-only, so that it does not conflict with MariaDB
	exit 0
fi
if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
	by_hand "neither apt-get nor brew is here, and the packages of other managers conflict with MariaDB"
fi

mkdir -p build
work=$(mktemp -d "$PWD/build/mysql.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/apt/state/lists/partial" "$work/apt/cache/archives/partial" "$work/apt/empty" "$work/unpacked" "$work/mysql"
: >"$work/apt/status" # no package counts as installed, so all libraries are downloaded

# private runs apt with lists, caches and a status of its own. Their folder may have a space in its name.
private() { "$@" -c "$work/apt/conf"; }
cat >"$work/apt/conf" <<CONF
Dir::State "$work/apt/state";
Dir::State::status "$work/apt/status";
Dir::Cache "$work/apt/cache";
APT::Install-Recommends "false";
APT::Sandbox::User "$(id -un)";
CONF

# shellcheck disable=SC1091 # the file describes the system
case $(. /etc/os-release && echo "$ID") in
debian)
	mirror=$(apt-get indextargets --format '$(SITE)' 'Origin: Debian' 'Label: Debian' | sort -u | head -n 1)
	keyring=/usr/share/keyrings/debian-archive-keyring.gpg
	test -s "$keyring" || fail "$keyring is missing (apt-get install debian-archive-keyring)"
	echo "deb [signed-by=$keyring] ${mirror:-https://deb.debian.org/debian} sid main" >"$work/apt/sources.list"
	cat >>"$work/apt/conf" <<CONF
Dir::Etc::sourcelist "$work/apt/sources.list";
Dir::Etc::sourceparts "$work/apt/empty";
Dir::Etc::preferencesparts "$work/apt/empty";
Dir::Etc::preferences "$work/apt/empty/none";
CONF
	;;
esac # Ubuntu's own suites have it
private apt-get update -qq || fail "apt-get update failed, see above"

package=
for candidate in mysql-server-core mysql-server-core-8.4 mysql-server-core-8.0; do
	if private apt-cache show "$candidate" 2>/dev/null | grep -q '^Filename:'; then
		package=$candidate
		break
	fi
done
test -n "$package" || by_hand "no suite of this system has mysql-server-core"
echo "downloading $package"
private apt-get install -qq -y --download-only "$package" </dev/null >/dev/null || fail "$package could not be downloaded, see above"
for archive in "$work"/apt/cache/archives/*.deb; do
	case ${archive##*/} in
	perl* | libperl*) ;; # for scripts that the server does not need
	*) dpkg-deb -x "$archive" "$work/unpacked" ;;
	esac
done

# The server, its messages, and the libraries that it loads. The distribution's own loader goes with them, because the
# libraries may be newer than the system's.
unpacked=$work/unpacked
server=$unpacked/usr/sbin/mysqld
loader=$(find "$unpacked" -type f -name 'ld*.so.[0-9]' | head -n 1)
libraries=$(find "$unpacked" -name libc.so.6 -exec dirname {} \; | head -n 1)
if ! test -x "$server" || test -z "$loader" || test -z "$libraries"; then
	fail "$package has another layout than expected: $server, loader $loader, libraries $libraries"
fi
plugin=lib/mysql/plugin/component_reference_cache.so # every server loads it
mkdir -p "$work/mysql/${plugin%/*}" "$work/mysql/share"
cp "$unpacked/usr/$plugin" "$work/mysql/$plugin" 2>/dev/null || rmdir "$work/mysql/${plugin%/*}"
cp "$server" "$work/mysql/server"
cp -L "$loader" "$work/mysql/loader"
"$loader" --library-path "$libraries" --list "$server" | sed -n 's/.* => \(\/.*\) (0x[0-9a-f]*)$/\1/p' | while read -r library; do
	cp -L "$library" "$work/mysql/lib/"
done
cp -R "$unpacked/usr/share/mysql/english" "$unpacked/usr/share/mysql/charsets" "$work/mysql/share/"
cp "$unpacked"/usr/share/doc/"$package"/copyright "$work/mysql/"
cat >"$work/mysql/mysqld" <<'WRAPPER'
#!/bin/sh
here=$(cd "$(dirname "$0")" && pwd)
exec "$here/loader" --library-path "$here/lib" "$here/server" "$@" --basedir="$here" --lc-messages-dir="$here/share" \
	--character-sets-dir="$here/share/charsets"
WRAPPER
chmod 755 "$work/mysql" "$work/mysql/mysqld"
is_mysql "$work/mysql/mysqld" || fail "the downloaded server does not run: $("$work/mysql/mysqld" --version 2>&1 | head -n 3)"
rm -rf "$folder"
mv "$work/mysql" "$folder"
echo "installed $folder/mysqld,${banner#*  }"
