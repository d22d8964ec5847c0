# python.sh CACHE KEY VERSION PIP ATTEMPT KIND HOW WHY [BROUGHT RELEASE TARGET SHA256 BASE PATH]: makes a virtual environment.
#
# Its directory is new each time, and a stamp named by KEY points to the finished one: two programs on one node, or two
# nodes with one home directory, may make the same environment at once and neither sees the other's unfinished one. PIP
# is set if pip.sh comes next, which then writes the stamp. KIND is that of Image.Requirements, whose files the stdin
# writes. HOW is "fetch" if uv is to be fetched, "brought" if it was sent to the file BROUGHT, and "without" if uv cannot
# be had, for the reason WHY. The answer is "cached" and the directory; "made", the program of uv or "-", and the
# directory; or "send" and why this node cannot fetch uv.

cache=$1 key=$2 version=$3 pip=$4 attempt=$5 kind=$6 how=$7 why=$8
shift 8
stamp=$cache/phases/$key

if [ -s "$stamp" ]; then
	IFS= read -r venv <"$stamp" || :
	# A python that was upgraded or removed since leaves a broken environment.
	if "$venv/bin/python" -c '' 2>/dev/null; then
		printf 'cached\n%s\n' "$venv" >&3
		exit 0
	fi
fi

# What a killed attempt has left is removed after a day.
for old in "$cache"/venv-*.unfinished "$cache"/uv/*.part; do
	if [ -n "$(find "$old" -prune -mtime +1 2>/dev/null)" ]; then
		rm -rf "${old%.unfinished}" "${old%.unfinished}.from" "$old"
	fi
done

mkdir -p "$cache/phases"
venv=$cache/venv-$(printf %.16s "$key")-$attempt
from=$venv.from part=$cache/uv/$attempt.part
: >"$venv.unfinished"
trap 'rm -rf "$venv" "$from" "$venv.unfinished" "$part"' EXIT
trap 'exit 143' HUP INT TERM

# no_python ends the phase, and says what helps if the reason is that uv has no Python.
no_python() {
	echo "If uv could not get Python $version: it fetches it from github.com/astral-sh/python-build-standalone. Let the node reach that, name a mirror by UV_PYTHON_INSTALL_MIRROR in Image.Env, or install that Python by Image.Apt or Image.Before"
	exit 1
}

with_uv() {
	use_uv "$cache"
	if [ -n "$version" ]; then
		if ! "$uv" python find "$version" >/dev/null 2>&1; then
			export UV_PYTHON_INSTALL_DIR="${UV_PYTHON_INSTALL_DIR-$cache/uv/python}"
			"$uv" python install "$version" || no_python
		fi
		set -- --python "$version"
	elif [ "$kind" = project ]; then
		cd "$from" # uv takes a Python that the project accepts
	elif have python3; then
		set -- --python "$(command -v python3)"
	fi
	# With pip in it a Setup command's "pip install" finds this environment, not the system's. Getting pip needs an
	# index; without one, go on without pip.
	"$uv" venv "$@" --seed "$venv" && return 0
	rm -rf "$venv"
	"$uv" venv "$@" "$venv" && return 0
	if [ -n "$version" ]; then exit 1; fi
	no_python
}

# find_python prints the requested python.
find_python() {
	minor=$(printf %s "$version" | cut -d. -f1,2)
	for name in "python$minor" python3 python; do
		have "$name" || continue
		is=$("$name" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null) || continue
		case $is. in
		"${version:-3}."*) command -v "$name"; return 0 ;;
		esac
	done
	return 1
}

# fails MESSAGE: ends the phase, and says first why there is no uv. Lines are short: of a long one an error has the end.
fails() {
	printf 'without uv: %s\n' "$why"
	printf '%s\n' "$1"
	exit 1
}

with_venv() {
	if [ "$kind" = project ]; then
		fails "Image.Requirements is a pyproject.toml, whose lock only uv reads, and uv cannot be had: install uv on the node, or name what uv export --no-emit-project --output-file requirements.txt writes"
	fi
	python=$(find_python) || {
		if [ -n "$version" ]; then
			fails "no Python $version on this node, and no uv to get it: install uv, add the package that has python$version to Image.Apt, or leave Image.Python empty to use the node's python3"
		else
			fails "no python3 on this node, and no uv to get one: add python3 to Image.Apt, and on Debian and Ubuntu python3-venv"
		fi
	}
	if "$python" -c 'import venv, ensurepip' 2>/dev/null; then
		"$python" -m venv "$venv"
	elif have virtualenv; then
		virtualenv -q -p "$python" "$venv"
	elif "$python" -c 'import venv' 2>/dev/null && { [ -z "$pip" ] || "$python" -m pip --version >/dev/null 2>&1; }; then
		# pip.sh uses the pip beside this environment.
		"$python" -m venv --without-pip "$venv"
	else
		fails "$python cannot make a virtual environment (it lacks venv or ensurepip), and there is no uv, which needs neither: add python3-venv to Image.Apt on Debian and Ubuntu, py3-pip on Alpine, python3-pip on Fedora and its family"
	fi
}

if find_uv "${1-}"; then :
elif [ "$how" = fetch ]; then
	offline=
	if get_uv "$1" "$2" "$3" "$4" "${UV_INSTALLER_GITHUB_BASE_URL:-$5}$6" "$part"; then :
	elif [ -n "$3" ] && [ -z "$offline" ] && [ ! -e "$1" ]; then
		printf 'send\n%s\n' "$why" >&3
		exit 0
	else uv=-
	fi
else
	if [ "$how" = brought ]; then why="uv $2 does not run here"; fi
	uv=-
fi
if [ -n "$kind" ]; then
	mkdir -p "$from"
	( cd "$from" && sh -e )
fi
if [ "$uv" = - ]; then with_venv; else ( with_uv ); fi
"$venv/bin/python" --version

if [ -z "$pip" ]; then
	printf '%s\n' "$venv" >"$stamp.$attempt"
	mv -f "$stamp.$attempt" "$stamp"
	rm -f "$venv.unfinished"
fi
trap - EXIT
printf 'made\n%s\n%s\n' "$uv" "$venv" >&3
