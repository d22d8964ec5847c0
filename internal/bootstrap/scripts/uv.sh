# uv.sh precedes python.sh and pip.sh: it finds uv, or fetches it, and sets it up.

have() { command -v "$1" >/dev/null 2>&1; }

PATH=$PATH:$HOME/.local/bin:$HOME/.cargo/bin

# suits UV: it runs here, and is 0.5 or newer, which knows every option used here.
suits() {
	is=$("$1" --version 2>/dev/null) || return 1
	is=${is#uv } is=${is%% *}
	major=${is%%.*} minor=${is#*.}
	minor=${minor%%.*}
	case $major in '' | *[!0-9]*) return 1 ;; esac
	case $minor in '' | *[!0-9]*) return 1 ;; esac
	[ "$major" -gt 0 ] || [ "$minor" -ge 5 ]
}

# find_uv BROUGHT: sets uv to the program, which is the node's own or the one that was brought earlier.
find_uv() {
	uv=$(command -v uv) && suits "$uv" && return 0
	uv=$1
	[ -n "$uv" ] && [ -x "$uv" ] && suits "$uv"
}

# use_uv CACHE: has uv take the settings for pip, too, and put nothing into the user's folders that was not there. A uv of
# the node's own keeps its cache and its Pythons.
use_uv() {
	export UV_NO_PROGRESS=1 UV_PYTHON_INSTALL_BIN=0
	case $uv in
	"$1"/*)
		export UV_CACHE_DIR="${UV_CACHE_DIR-$1/uv/cache}" UV_PYTHON_INSTALL_DIR="${UV_PYTHON_INSTALL_DIR-$1/uv/python}" ;;
	esac
	# Addresses are not passed as arguments: one may hold a password.
	if [ -n "${PIP_INDEX_URL-}" ] && [ -z "${UV_DEFAULT_INDEX-}${UV_INDEX_URL-}" ]; then
		export UV_DEFAULT_INDEX="$PIP_INDEX_URL"
	fi
	if [ -n "${PIP_EXTRA_INDEX_URL-}" ] && [ -z "${UV_EXTRA_INDEX_URL-}" ]; then
		export UV_EXTRA_INDEX_URL="$PIP_EXTRA_INDEX_URL"
	fi
	if [ -n "${PIP_FIND_LINKS-}" ] && [ -z "${UV_FIND_LINKS-}" ]; then
		UV_FIND_LINKS=$(printf %s "$PIP_FIND_LINKS" | tr ' ' ,)
		export UV_FIND_LINKS
	fi
}

# fetch FILE: downloads $url. It sets no option that an old program lacks, and no argument holds the address, since that
# may hold a password: other users see arguments.
fetch() {
	if have curl; then
		printf 'url = "%s"\n' "$url" | curl -K - -fsSL --connect-timeout 10 --speed-limit 50000 --speed-time 20 -o "$1"
	elif have wget && [ "$url" = "$shown" ]; then
		if wget -V >/dev/null 2>&1; then wget -nv --tries=1 --timeout=20 -O "$1" "$url"
		else # busybox's, which tries once, and of which some versions crash with -T
			status=0
			wget -q -T 20 -O "$1" "$url" || status=$?
			if [ "$status" -ge 128 ]; then wget -q -O "$1" "$url"; else return "$status"; fi
		fi
	elif have python3; then
		url=$url python3 -c '
import os, shutil, sys, urllib.request
try:
    with urllib.request.urlopen(os.environ["url"], timeout=20) as r, open(sys.argv[1], "wb") as f:
        shutil.copyfileobj(r, f)
except Exception as e:
    sys.exit(str(e))' "$1"
	elif have perl && url=$url perl -MHTTP::Tiny -e 'exit !($ENV{url} =~ /^http:/ || HTTP::Tiny->can_ssl)' 2>/dev/null; then
		url=$url perl -MHTTP::Tiny -e 'my $r = HTTP::Tiny->new(timeout => 20)->mirror($ENV{url}, $ARGV[0]);
			print "$r->{status} $r->{reason}\n" unless $r->{success}; exit !$r->{success}' "$1"
	else
		echo "there is no curl, wget or python3"
		return 1
	fi
}

# sum FILE: prints its SHA-256.
sum() {
	if have sha256sum; then sha256sum <"$1"
	elif have shasum; then shasum -a 256 <"$1"
	elif have openssl; then openssl dgst -sha256 -r <"$1"
	elif have python3; then python3 -c 'import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())' <"$1"
	elif have perl; then perl -MDigest::SHA -e 'print Digest::SHA->new(256)->addfile(*STDIN)->hexdigest' <"$1"
	else return 1
	fi | cut -c1-64
}

# unpack FILE NAME: extracts one file of an archive into the current directory.
unpack() {
	if have tar && have gzip; then gzip -dc <"$1" | tar -xf - "$2"
	elif have python3; then python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extract(sys.argv[2])' "$1" "$2"
	else
		echo "there is no tar"
		return 1
	fi
}

# get_uv BROUGHT VERSION TARGET SHA256 ADDRESS PART: fetches uv to the file BROUGHT, and sets uv. If it cannot, it sets
# why. PART is a folder of this attempt alone. TARGET is empty if there is no build for this platform.
get_uv() {
	url=$5
	case $url in *@*) shown="a mirror" ;; *) shown=$url ;; esac
	if [ -z "$3" ]; then
		why="there is no build of it for this node"
		return 1
	fi
	case ${UV_OFFLINE-} in
	'' | 0 | [Ff]alse) ;;
	*) why="UV_OFFLINE is set" offline=1
		return 1 ;;
	esac
	have curl || have wget || have python3 || have perl || {
		why="it has no curl, wget or python3"
		return 1
	}
	mkdir -p "$6"
	: >"$6/empty"
	if [ -z "$(sum "$6/empty" 2>/dev/null)" ]; then
		why="the node has no program that computes a SHA-256"
		return 1
	fi
	try=1
	while :; do
		rm -f "$6/archive"
		if why=$(fetch "$6/archive" 2>&1); then
			is=$(sum "$6/archive") || :
			if [ "$is" = "$4" ]; then break; fi
			why="what came from $shown has the SHA-256 $is, not $4, and is not used"
		else
			why="$shown: $why"
			if [ ! -s "$6/archive" ]; then return 1; fi # nothing comes through
		fi
		echo "uv $2: $why"
		if [ "$try" -ge 3 ]; then return 1; fi
		try=$((try + 1))
	done
	why=$(cd "$6" && unpack archive "$3/uv" 2>&1) && [ -f "$6/$3/uv" ] || {
		why="unpacking it: $why"
		return 1
	}
	chmod 755 "$6/$3/uv" && mkdir -p "${1%/*}" && mv -f "$6/$3/uv" "$1" || {
		why="it cannot be stored in ${1%/*}"
		return 1
	}
	rm -rf "$6"
	uv=$1
	suits "$uv" || {
		why="uv $2 does not run here"
		return 1
	}
}
