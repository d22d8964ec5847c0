//go:build unix

package sim

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// rounds bounds how often processes are looked for that others have started meanwhile.
const rounds = 100

// killProcesses kills what this user runs in any of the homes. All processes are looked at
// once for all homes. Only Linux shows them.
func killProcesses(homes map[string]bool) {
	for range rounds {
		hit := false
		all, _ := filepath.Glob("/proc/[0-9]*")
		for _, dir := range all {
			pid, err := strconv.Atoi(filepath.Base(dir))
			if err != nil || pid == os.Getpid() || !isIn(dir, homes) {
				continue
			}
			p, err := os.FindProcess(pid) // from here on it is no other process
			if err != nil {
				continue
			}
			if isIn(dir, homes) && p.Kill() == nil {
				hit = true
			}
			p.Release()
		}
		if !hit {
			return
		}
	}
}

// isIn reports whether a process is this user's and in one of the homes.
func isIn(dir string, homes map[string]bool) bool {
	file := filepath.Join(dir, "environ")
	info, err := os.Stat(file)
	if err != nil {
		return false
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != os.Geteuid() {
		return false
	}
	env, err := os.ReadFile(file)
	if err != nil {
		return false
	}
	for v := range bytes.SplitSeq(env, []byte{0}) {
		if home, ok := bytes.CutPrefix(v, []byte(homeEnv+"=")); ok && homes[string(home)] {
			return true
		}
	}
	return false
}
