# python.sh CACHE KEY VERSION PIP ATTEMPT: makes a virtual environment.
#
# Its directory is new each time, and a stamp named by KEY points to the finished one: two programs on one node, or two
# nodes with one home directory, may make the same environment at once and neither sees the other's unfinished one. PIP
# is set if pip.sh comes next, which then writes the stamp.

cache=$1 key=$2 version=$3 pip=$4 attempt=$5
stamp=$cache/phases/$key

if [ -s "$stamp" ]; then
	IFS= read -r venv <"$stamp" || :
	# A python that was upgraded or removed since leaves a broken environment.
	if "$venv/bin/python" -c '' 2>/dev/null; then
		printf 'cached %s\n' "$venv" >&3
		exit 0
	fi
fi

have() { command -v "$1" >/dev/null 2>&1; }

# What a killed attempt has left is removed after a day.
for old in "$cache"/venv-*.unfinished; do
	if [ -n "$(find "$old" -prune -mtime +1 2>/dev/null)" ]; then
		rm -rf "${old%.unfinished}" "$old"
	fi
done

mkdir -p "$cache/phases"
venv=$cache/venv-$(printf %.16s "$key")-$attempt
: >"$venv.unfinished"
trap 'rm -rf "$venv" "$venv.unfinished"' EXIT
trap 'exit 143' HUP INT TERM

with_uv() {
	if [ -n "$version" ]; then
		uv python find "$version" >/dev/null 2>&1 || uv python install "$version"
		set -- --python "$version"
	elif have python3; then
		set -- --python "$(command -v python3)"
	fi
	# With pip in it a Setup command's "pip install" finds this environment, not the system's. Getting pip needs an
	# index; without one, go on without pip.
	uv venv "$@" --seed "$venv" || uv venv "$@" "$venv"
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

with_venv() {
	python=$(find_python) || {
		if [ -n "$version" ]; then
			echo "no Python $version on this node, and no uv to get it: install uv, add the package that has python$version to Image.Apt, or leave Image.Python empty to use the node's python3"
		else
			echo "no python3 on this node: add python3 to Image.Apt, and on Debian and Ubuntu python3-venv"
		fi
		exit 1
	}
	if "$python" -c 'import venv, ensurepip' 2>/dev/null; then
		"$python" -m venv "$venv"
	elif have virtualenv; then
		virtualenv -q -p "$python" "$venv"
	elif "$python" -c 'import venv' 2>/dev/null && { [ -z "$pip" ] || "$python" -m pip --version >/dev/null 2>&1; }; then
		# pip.sh uses the pip beside this environment.
		"$python" -m venv --without-pip "$venv"
	else
		echo "$python cannot make a virtual environment (it lacks venv or ensurepip): add python3-venv to Image.Apt on Debian and Ubuntu, py3-pip on Alpine, python3-pip on Fedora and its family"
		exit 1
	fi
}

PATH=$PATH:$HOME/.local/bin:$HOME/.cargo/bin
if have uv; then with_uv; else with_venv; fi
"$venv/bin/python" --version

if [ -z "$pip" ]; then
	printf '%s\n' "$venv" >"$stamp.$attempt"
	mv -f "$stamp.$attempt" "$stamp"
	rm -f "$venv.unfinished"
fi
trap - EXIT
printf 'made %s\n' "$venv" >&3
