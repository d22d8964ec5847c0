package local

import (
	"bufio"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// processes yields the number of every process.
func processes() iter.Seq[int] {
	return func(yield func(int) bool) {
		entries, _ := os.ReadDir("/proc")
		for _, e := range entries {
			if pid, err := strconv.Atoi(e.Name()); err == nil && !yield(pid) {
				return
			}
		}
	}
}

// processEnv returns the environment that a process was started with: nothing
// for another user's, and for one that has ended.
func processEnv(pid int) []byte {
	env, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	return env
}

// memoryGiB is the machine's memory, or 0 where it cannot be known.
func memoryGiB() float64 {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) == 3 && fields[0] == "MemTotal:" {
			kib, _ := strconv.ParseFloat(fields[1], 64)
			return kib / (1 << 20)
		}
	}
	return 0
}
