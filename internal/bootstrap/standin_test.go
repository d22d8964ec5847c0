//go:build unix

package bootstrap

import (
	"testing"

	"github.com/gputrain/gputrain/internal/test/uvtest"
)

// standIn does what uv does for the calls of this package, with the node's python3 and its pip, and records its calls.
const standIn = `#!/bin/sh
case $HOME in */Test*) printf '%s\n' "uv $*" >>"$HOME/calls" ;; esac
set -e
python=
# A python3 of a PATH may be a script of pyenv, which does more than to start Python.
beside() { "$1" -c 'import sys; print(sys._base_executable)'; }
case "$1 $2" in
"--version ") echo "uv ` + uvtest.Version + ` (a stand-in)" ;;
"python find")
	[ -x "$UV_PYTHON_INSTALL_DIR/$3/bin/python" ] || {
		is=$(python3 -c 'import sys; print("%d.%d.%d." % sys.version_info[:3])') && case $is in "$3."*) ;; *) exit 2 ;; esac
	} ;;
"python install")
	[ -n "$UV_PYTHON_INSTALL_MIRROR" ] || { echo "error: Failed to download Python $3" >&2; exit 2; }
	mkdir -p "$UV_PYTHON_INSTALL_DIR/$3/bin"
	printf '#!/bin/sh\necho "Python %s"\n' "$3" >"$UV_PYTHON_INSTALL_DIR/$3/bin/python"
	chmod +x "$UV_PYTHON_INSTALL_DIR/$3/bin/python" ;;
"venv "*)
	managed=
	shift
	while [ $# -gt 1 ]; do
		case $1 in
		--python) managed=$UV_PYTHON_INSTALL_DIR/$2/bin/python; shift ;;
		esac
		shift
	done
	if [ -x "$managed" ]; then mkdir -p "$1/bin"; cp "$managed" "$1/bin/python"
	else python3 -m venv --without-pip "$1"
	fi ;;
"pip install")
	shift 2
	[ "$1" = --python ] && python=$2
	shift 4
	# A container here has no pip: what would be installed is written down.
	[ -z "$STAND_IN" ] || { cat "$2" "${2%/*}"/*-* | tr '\n' ' ' | sed 's/ $//' >installed; echo >>installed; exit; }
	[ -z "$UV_DEFAULT_INDEX" ] || export PIP_INDEX_URL="$UV_DEFAULT_INDEX"
	"$(beside "$python")" -m pip --python "$python" install --disable-pip-version-check --no-input "$@" ;;
"sync "*)
	[ -f pyproject.toml ] && [ -f uv.lock ]
	cat .python-version 2>/dev/null || :
	set -- $(sed -n -e 's/^name = "\(.*\)"$/\1/p' -e 's/^version = "\(.*\)"$/==\1/p' uv.lock | tr -d '\n')
	python=$UV_PROJECT_ENVIRONMENT/bin/python
	"$(beside "$python")" -m pip --python "$python" install --disable-pip-version-check "$@" ;;
*) exit 64 ;;
esac
`

// released serves the stand-in as a release of uv.
func released(t *testing.T) *uvtest.Server {
	t.Helper()
	return uvtest.Serve(t, []byte(standIn))
}
