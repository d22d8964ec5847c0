package e2etest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FakeGPUs makes a folder, for a machine's PATH, with an nvidia-smi that lists so many A100s.
func FakeGPUs(t testing.TB, gpus int) (dir string) {
	t.Helper()
	var list, full, short strings.Builder
	for i := range gpus {
		fmt.Fprintf(&list, "GPU %d: NVIDIA A100-SXM4-80GB (UUID: GPU-%d000)\n", i, i)
		fmt.Fprintf(&full, "%d, GPU-%d000, NVIDIA A100-SXM4-80GB, 81920, Disabled\n", i, i)
		fmt.Fprintln(&short, "NVIDIA A100-SXM4-80GB, 81920")
	}
	dir = t.TempDir()
	writeProgram(t, filepath.Join(dir, "nvidia-smi"), `case "$*" in
-L) printf '%s' '`+list.String()+`' ;;
*query-gpu=index,*) printf '%s' '`+full.String()+`' ;;
*) printf '%s' '`+short.String()+`' ;;
esac`)
	return dir
}

// FakeMPS adds a control daemon of MPS to a folder of FakeGPUs. It writes what becomes of it to the file that FakeMPS
// returns, and fails while there is a file with ".broken" after that one's name.
func FakeMPS(t testing.TB, dir string) (log string) {
	t.Helper()
	log = filepath.Join(t.TempDir(), "log")
	writeProgram(t, filepath.Join(dir, "nvidia-cuda-mps-control"), `p=$CUDA_MPS_PIPE_DIRECTORY
case $1 in
-f)
	[ -d "$p" ] && [ -d "$CUDA_MPS_LOG_DIRECTORY" ] || { echo "no folders" >&2; exit 3; }
	echo "begins ${CUDA_VISIBLE_DEVICES-all} $CUDA_DEVICE_ORDER" >>'`+log+`'
	until [ -e "$p/quit" ]; do
		[ ! -e '`+log+`.broken' ] || { echo "no such device" >&2; exit 9; }
		: >"$p/control"; sleep 0.05
	done
	echo quits >>'`+log+`' ;;
*)
	[ -e "$p/control" ] || exit 1
	read -r command
	case $command in quit*) : >"$p/quit" ;; esac ;;
esac`)
	return log
}

func writeProgram(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// OnPath puts a folder first in the PATH of this program, and so of local nodes.
func OnPath(t *testing.T, dir string) {
	t.Helper()
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// ShortDir returns a new folder whose path is short enough for sockets below a node's folder in it.
func ShortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "g")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// HoldsDevices returns shell text that fails if another task has one of the devices of this one, or its slot, at the
// same time, by what it makes in a folder. Of a task with all devices, which it is not told, these are the names. The text
// runs another one meanwhile.
func HoldsDevices(dir, all, meanwhile string) string {
	return `mine="$GPUTRAIN_NODE.s$GPUTRAIN_SLOT"; for d in $(echo "${CUDA_VISIBLE_DEVICES-` + all + `}" | tr , ' '); do mine="$mine $GPUTRAIN_NODE.$d"; done
for d in $mine; do mkdir "` + dir + `/$d" || exit 7; done
` + meanwhile + `
for d in $mine; do rmdir "` + dir + `/$d"; done`
}
