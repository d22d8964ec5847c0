package supervisor

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Facts are what one look at the node told.
type Facts struct {
	// OS and Arch are in Go's words: "linux", "amd64".
	OS, Arch string
	// UID is the numeric user id of the login.
	UID int
	// Home is the login's home folder, and Path its PATH.
	Home, Path string
	// Root is the pool's folder, WorkDir the tasks' own below it, and CacheDir
	// where what outlives a pool may be kept. CacheDir need not exist yet.
	Root, WorkDir, CacheDir string
	// Lease is how long the node goes on without hearing from a client, as the first
	// one wanted it.
	Lease time.Duration
	// CPUs is how many the login may use, and MemoryBytes how much memory: the
	// machine's, or its container's limit. Zero means not known.
	CPUs        int
	MemoryBytes int64
	// DiskFreeBytes is what is free where WorkDir is. Zero means not known, as
	// without Config.Disk.
	DiskFreeBytes int64
	// Tools has true for each program that the node has, of those that node.sh
	// looks for: "tar", "python3". "head -c" is there where head knows -c.
	Tools map[string]bool
	// NVIDIA are the lines of "nvidia-smi -L", as it prints them, where the node has that.
	NVIDIA []string
	// AMD is how many of AMD's accelerators the kernel's compute driver has.
	AMD int
}

// add takes one 'F' frame: a key and its value.
func (f *Facts) add(key, value string) {
	number := func() int64 {
		n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		if err != nil || n < 0 {
			return 0
		}
		return n
	}
	switch key {
	case "os":
		f.OS = strings.ToLower(value)
	case "arch":
		f.Arch = GoArch(value)
	case "uid":
		f.UID = int(number())
	case "home":
		f.Home = value
	case "path":
		f.Path = value
	case "root":
		f.Root, f.WorkDir = value, value+"/work"
	case "cache":
		f.CacheDir = value
	case "lease":
		f.Lease = time.Duration(min(number(), maxSize/int64(time.Second))) * time.Second
	case "cpus":
		f.CPUs = int(number())
	case "memory":
		f.MemoryBytes = number()
	case "limit": // "max" where there is none
		if n := number(); n > 0 && (f.MemoryBytes == 0 || n < f.MemoryBytes) {
			f.MemoryBytes = n
		}
	case "df":
		if n, ok := available(value); ok {
			f.DiskFreeBytes = n
		}
	case "nvidia":
		f.NVIDIA = append(f.NVIDIA, value)
	case "amd":
		f.AMD = int(min(number(), math.MaxInt32))
	case "tool":
		if f.Tools == nil {
			f.Tools = map[string]bool{}
		}
		f.Tools[value] = true
	}
}

// check reports what is missing among the facts that nothing works without.
func (f *Facts) check() error {
	for _, s := range []struct{ name, value string }{{"uname", f.OS}, {"uname -m", f.Arch}, {"its folder", f.Root}} {
		if s.value == "" {
			return fmt.Errorf("%w: it does not tell %s", errFrame, s.name)
		}
	}
	return nil
}

// GoArch returns Go's name for what uname -m says.
func GoArch(machine string) string {
	switch machine {
	case "x86_64", "amd64":
		return "amd64"
	case "aarch64", "arm64":
		return "arm64"
	case "i386", "i486", "i586", "i686":
		return "386"
	case "loongarch64":
		return "loong64"
	}
	if strings.HasPrefix(machine, "armv") {
		return "arm"
	}
	return machine
}

// available reads the free bytes from a line of df -Pk, whose last columns are
// size, used and available KiB, percentage, mount point.
func available(line string) (int64, bool) {
	w := strings.Fields(line)
	for i, s := range w {
		if i >= 3 && strings.HasSuffix(s, "%") {
			n, err := strconv.ParseInt(w[i-1], 10, 64)
			if err == nil && n >= 0 && n <= maxSize>>10 {
				return n << 10, true
			}
		}
	}
	return 0, false
}
