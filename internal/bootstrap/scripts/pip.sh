# pip.sh CACHE KEY ATTEMPT VENV [OPTION...] -- REQUIREMENT...: installs Python packages into the environment made by
# python.sh, and stamps it.

cache=$1 key=$2 attempt=$3 venv=$4
shift 4
stamp=$cache/phases/$key

trap 'rm -rf "$venv" "$venv.unfinished"' EXIT
trap 'exit 143' HUP INT TERM

PATH=$PATH:$HOME/.local/bin:$HOME/.cargo/bin
if command -v uv >/dev/null 2>&1; then
	# Env's settings for pip count for uv too. Addresses are not passed as arguments: one may hold a password.
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
	if [ -n "${PIP_NO_INDEX-}" ]; then set -- --no-index "$@"; fi
	# Like pip, uv must take a package from whichever index has the best version.
	UV_NO_PROGRESS=1 uv pip install --python "$venv/bin/python" --index-strategy unsafe-best-match "$@"
else
	set -- --disable-pip-version-check --no-input --progress-bar off "$@"
	if "$venv/bin/python" -c 'import pip' 2>/dev/null; then
		"$venv/bin/python" -m pip install "$@"
	else
		beside=$("$venv/bin/python" -c 'import sys; print(sys._base_executable)')
		"$beside" -m pip --python "$venv/bin/python" install "$@"
	fi
fi

mkdir -p "$cache/phases"
printf '%s\n' "$venv" >"$stamp.$attempt"
mv -f "$stamp.$attempt" "$stamp"
rm -f "$venv.unfinished"
trap - EXIT
