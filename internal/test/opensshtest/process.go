package opensshtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// A process is the server of one connection. Its start time distinguishes it from a later process with the same number.
type process struct {
	pid, parent int
	name, start string
}

func (p process) kill() {
	for _, now := range processes() {
		if now == (process{p.pid, now.parent, p.name, p.start}) {
			if target, err := os.FindProcess(p.pid); err == nil {
				target.Kill()
			}
		}
	}
}

// children lists the sshd processes below the process pid: each serves a connection. Processes of the logged-in users
// are not included.
func children(pid int) []process {
	below := map[int]bool{pid: true}
	all := processes()
	var found []process
	for changed := true; changed; {
		changed = false
		for _, p := range all {
			if below[p.parent] && !below[p.pid] && strings.HasPrefix(p.name, "sshd") {
				below[p.pid] = true
				found = append(found, p)
				changed = true
			}
		}
	}
	return found
}

// processes lists all processes, from /proc, or from ps if there is no /proc.
func processes() []process {
	var all []process
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended
		}
		// "12 (name, maybe with spaces) S 1 ..."; the 22nd field is the start time.
		head, tail, ok := cutLast(string(text), ") ")
		fields := strings.Fields(tail)
		if !ok || len(fields) < 20 {
			continue
		}
		number, name, _ := strings.Cut(head, " (")
		pid, _ := strconv.Atoi(number)
		parent, _ := strconv.Atoi(fields[1])
		all = append(all, process{pid, parent, name, fields[19]})
	}
	if len(stats) > 0 {
		return all
	}
	out, _ := exec.Command("ps", "-axo", "pid=,ppid=,lstart=,comm=").Output()
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 8 {
			continue
		}
		var p process
		if _, err := fmt.Sscan(fields[0]+" "+fields[1], &p.pid, &p.parent); err != nil {
			continue
		}
		p.start = strings.Join(fields[2:7], " ")
		p.name = filepath.Base(strings.TrimSuffix(fields[7], ":"))
		all = append(all, p)
	}
	return all
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
