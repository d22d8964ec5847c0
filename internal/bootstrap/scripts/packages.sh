# packages.sh NAME...: installs missing system packages.
#
# A name may have a version, in the package manager's syntax: foo=1.2. If all packages are installed no mirror is
# needed, so that an image which brings them works offline.

have() { command -v "$1" >/dev/null 2>&1; }

if have apt-get; then manager=apt
elif have apk; then manager=apk
elif have dnf; then manager=dnf
elif have microdnf; then manager=microdnf
elif have yum; then manager=yum
else
	echo "this node has none of apt-get, apk, dnf, microdnf and yum; leave Image.Apt empty and install what is needed in Image.Setup"
	exit 1
fi

# there NAME: the package, or one that provides it, is installed.
there() {
	case $manager in
	apt) there_apt "$1" ;;
	apk) apk info -e "$1" >/dev/null 2>&1 ;;
	*) rpm -q --whatprovides "$1" >/dev/null 2>&1 || rpm -q "$1" >/dev/null 2>&1 ;;
	esac
}

there_apt() {
	package=${1%%=*}
	found=$(dpkg-query -W -f='${db:Status-Status} ${Version}\n' "$package" 2>/dev/null) || found=
	case $1 in
	*=*)
		# Unquoted, so that apt's foo=1.2* is a pattern here too.
		case $found in "installed "${1#*=}) return 0 ;; esac
		return 1 ;;
	esac
	case $found in "installed "*) return 0 ;; esac
	# Not a package: perhaps a name that an installed one provides, like awk.
	dpkg-query -W -f='${db:Status-Status}, ${Provides},\n' 2>/dev/null |
		sed -n -e 's/ ([^)]*)//g' -e 's/^installed,/,/p' | grep -qF ", $package,"
}

missing=
for name; do
	there "$name" || missing="$missing $name"
done
if [ -z "$missing" ]; then
	echo cached >&3
	exit 0
fi
echo "not installed yet:$missing"

# as_root COMMAND...: runs it as root, with settings that keep a package manager from asking questions. env sets them
# behind sudo, which drops unknown variables; -E keeps a proxy's variables if the rules allow it.
if [ "$(id -u)" = 0 ]; then
	as_root() { env DEBIAN_FRONTEND=noninteractive LC_ALL=C "$@"; }
elif have sudo && sudo -n -E true 2>/dev/null; then
	as_root() { sudo -n -E env DEBIAN_FRONTEND=noninteractive LC_ALL=C "$@"; }
elif have sudo && sudo -n true 2>/dev/null; then
	as_root() { sudo -n env DEBIAN_FRONTEND=noninteractive LC_ALL=C "$@"; }
elif have doas && doas -n true 2>/dev/null; then
	as_root() { doas -n env DEBIAN_FRONTEND=noninteractive LC_ALL=C "$@"; }
else
	echo "installing$missing needs root, and $(id -un) is not root and has no sudo without a password; install them beforehand, or allow it"
	exit 1
fi

# update_apt reads the package lists. Another apt may be running, as on a cloud machine's first boot; apt waits for
# dpkg's lock but not for this one. The phase's own time limit ends the wait.
update_apt() {
	while :; do
		failed=
		{ said=$(as_root apt-get $options update 2>&1 >&4) || failed=$?; } 4>&1
		if [ -n "$said" ]; then printf '%s\n' "$said"; fi
		if [ -z "$failed" ]; then return 0; fi
		case $said in
		*"Could not get lock"* | *"Unable to lock"*) sleep 2 ;;
		*) return "$failed" ;;
		esac
	done
}

case $manager in
apt)
	options='-q -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=1200 -o Acquire::Retries=3'
	update_apt
	as_root apt-get $options install -y --no-install-recommends "$@" ;;
apk) as_root apk add --no-cache --wait 1200 "$@" ;;
*) as_root $manager install -y "$@" ;;
esac
