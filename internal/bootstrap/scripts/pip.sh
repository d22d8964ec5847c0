# pip.sh CACHE KEY ATTEMPT VENV UV KIND HASHES VERSION [OPTION...] -- [REQUIREMENT...]: installs Python packages into the
# environment made by python.sh, and stamps it. UV is the program, or "-" for pip. KIND is that of Image.Requirements,
# whose files python.sh has written. HASHES is set if they have hashes.

cache=$1 key=$2 attempt=$3 venv=$4 uv=$5 kind=$6 hashes=$7 version=$8
shift 8
stamp=$cache/phases/$key
from=$venv.from

trap 'rm -rf "$venv" "$from" "$venv.unfinished"' EXIT
trap 'exit 143' HUP INT TERM

if [ "$uv" = - ]; then
	if "$venv/bin/python" -c 'import pip' 2>/dev/null; then
		install() { "$venv/bin/python" -m pip install --disable-pip-version-check --no-input --progress-bar off "$@"; }
	else
		beside=$("$venv/bin/python" -c 'import sys; print(sys._base_executable)')
		install() { "$beside" -m pip --python "$venv/bin/python" install --disable-pip-version-check --no-input --progress-bar off "$@"; }
	fi
else
	use_uv "$cache"
	if [ -n "${PIP_NO_INDEX-}" ]; then set -- --no-index "$@"; fi
	# Like pip, uv must take a package from whichever index has the best version.
	install() { "$uv" pip install --python "$venv/bin/python" --index-strategy unsafe-best-match "$@"; }
fi

# packages OPTION... -- [REQUIREMENT...]: installs what Image.Pip has, if it has any.
packages() {
	for last; do :; done
	if [ "$last" != -- ]; then install "$@"; fi
}

# hashed OPTION... -- [REQUIREMENT...]: installs the files' packages, which have hashes, with these options.
hashed() {
	count=$# ended=
	for argument; do
		if [ "$argument" = -- ]; then ended=1; fi
		if [ -z "$ended" ]; then set -- "$@" "$argument"; fi
	done
	shift "$count"
	install --require-hashes -r "$from/requirements.txt" "$@"
}

case $kind in
'') packages "$@" ;;
project)
	(
		cd "$from"
		export UV_PROJECT_ENVIRONMENT="$venv"
		set -- ${version:+--python "$version"}
		"$uv" sync --frozen --no-install-project --inexact "$@"
	)
	packages "$@" ;;
*)
	if [ -n "$hashes" ]; then
		# Image.Pip has no hashes, and pip wants all or none in one call.
		hashed "$@"
		packages "$@"
	else
		install -r "$from/requirements.txt" "$@" # together, so that the versions suit each other
	fi ;;
esac

rm -rf "$from"
mkdir -p "$cache/phases"
printf '%s\n' "$venv" >"$stamp.$attempt"
mv -f "$stamp.$attempt" "$stamp"
rm -f "$venv.unfinished"
trap - EXIT
