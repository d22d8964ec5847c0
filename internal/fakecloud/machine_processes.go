package fakecloud

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// killTimeout bounds how long killed processes may take to vanish.
const killTimeout = 10 * time.Second

// endProcesses kills the processes that have mark in their environment, however
// they detached themselves, until two looks in a row find none: one that is
// becoming another program is overlooked once.
func endProcesses(mark string) error {
	until := time.Now().Add(killTimeout)
	for quiet := 0; quiet < 2; {
		left := marked(mark)
		if quiet++; len(left) == 0 {
			continue
		}
		quiet = 0
		if time.Now().After(until) {
			return fmt.Errorf("processes %v do not end", left)
		}
		for _, pid := range left {
			kill(pid, mark)
		}
		time.Sleep(5 * time.Millisecond) // others' children cannot be waited for
	}
	return nil
}

// kill ends a process if it is still the one that was found: the handle is
// taken first, so that its number cannot have passed to another.
func kill(pid int, mark string) {
	handle, err := os.FindProcess(pid)
	if err != nil {
		return
	}
	defer handle.Release()
	if hasMark(pid, mark) {
		handle.Kill()
	}
}

func marked(mark string) []int {
	var pids []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && pid != os.Getpid() && hasMark(pid, mark) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func hasMark(pid int, mark string) bool {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && slices.ContainsFunc(bytes.Split(env, []byte{0}), func(v []byte) bool { return string(v) == mark })
}
