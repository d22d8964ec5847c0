package supervisor

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Facts are the node's report about itself at the time when it was taken over.
type Facts struct {
	// OS and Arch are Go's names: "linux", "amd64".
	OS, Arch string
	// UID is the numeric user id of the login.
	UID int
	// Home is the login's home folder, and Path its PATH.
	Home, Path string
	// Root is the pool's folder, WorkDir the tasks' own below it, and CacheDir the folder for files that outlive a
	// pool. CacheDir need not exist yet.
	Root, WorkDir, CacheDir string
	// Lease is how long the node goes on without hearing from a client, as the first client set it.
	Lease time.Duration
	// CPUs is how many processors the login may use, and MemoryBytes how much memory: the machine's, or its container's
	// limit. Zero means unknown.
	CPUs        int
	MemoryBytes int64
	// DiskFreeBytes is the free space of WorkDir's disk. Zero means unknown, as without Config.Disk.
	DiskFreeBytes int64
	// Tools has true for each program that the node has, of those that node.sh looks for: "tar", "python3". "head -c"
	// is among them if head supports -c.
	Tools map[string]bool
	// NVIDIA are the lines of "nvidia-smi -L", if the node has that.
	NVIDIA []string
	// Visible are the names of the only NVIDIA accelerators that the login may use, as CUDA_VISIBLE_DEVICES has them in
	// its environment. Nil means all.
	Visible []string
	// AMD is how many of AMD's accelerators the kernel's compute driver reports.
	AMD int
}

// add adds an 'F' frame: a key and its value.
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
	case "visible":
		f.Visible = strings.Split(value, ",")
	case "amd":
		f.AMD = int(min(number(), math.MaxInt32))
	case "tool":
		if f.Tools == nil {
			f.Tools = map[string]bool{}
		}
		f.Tools[value] = true
	}
}

// check reports a missing fact without which nothing works.
func (f *Facts) check() error {
	for _, s := range []struct{ name, value string }{{"uname", f.OS}, {"uname -m", f.Arch}, {"its folder", f.Root}} {
		if s.value == "" {
			return fmt.Errorf("%w: it does not report %s", errFrame, s.name)
		}
	}
	return nil
}

// GoArch returns Go's name for a machine of uname -m.
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

// available parses the free bytes from a line of df -Pk, whose last columns are size, used and available KiB,
// percentage, mount point.
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
