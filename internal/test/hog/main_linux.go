// Hog runs a command on a machine that is made busy: processes take its processors, and processes of the command are stopped
// for seconds at random. It is for tests, which must bear both.
//
//	go run ./internal/test/hog [-load 20] [-every 2s] [-stop 5s] [-seed 1] COMMAND [ARGUMENT...]
//
// Compilers and linkers are not stopped, which would only take longer, and nothing in a container is. It exits as the command does, and says how many
// processes it has stopped, and how busy the machine was.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	load := flag.Int("load", 20, "how many processes take a processor")
	every := flag.Duration("every", 2*time.Second, "how often a process is stopped, on average")
	stop := flag.Duration("stop", 5*time.Second, "for how long")
	seed := flag.Uint64("seed", 1, "which processes, and when")
	spin := flag.Bool("spin", false, "only take a processor")
	flag.Parse()
	if *spin {
		for os.Getppid() != 1 { // until the hog has ended
			for range 1 << 30 {
			}
		}
		return
	}
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	code, err := hog(*load, *every, *stop, rand.New(rand.NewPCG(*seed, 0)), flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "hog:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

// hog runs the command, and returns its exit status.
func hog(load int, every, stop time.Duration, random *rand.Rand, command []string) (code int, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	for range load {
		spin := exec.Command(self, "-spin")
		if err := spin.Start(); err != nil {
			return 0, err
		}
		defer func() { spin.Process.Kill(); spin.Wait() }()
	}
	signal.Notify(make(chan os.Signal, 1), os.Interrupt, syscall.SIGTERM) // they end the command, and then the hog
	mark := fmt.Sprintf("GPUTRAIN_HOG=%d-%d", os.Getpid(), time.Now().UnixNano())
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), mark)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended := make(chan struct{})
	var stopped sync.WaitGroup
	count, busiest := 0, 0.0
	stopped.Go(func() {
		for {
			select {
			case <-ended:
				return
			case <-time.After(time.Duration(random.Int64N(int64(2 * every)))):
			}
			busiest = max(busiest, loadAverage())
			if p := pick(of(mark), random); p.stop() {
				count++
				stopped.Go(func() {
					time.Sleep(stop)
					p.goOn()
				})
			}
		}
	})
	err = cmd.Wait()
	close(ended)
	stopped.Wait()
	fmt.Printf("hog: %d processes took the processors, and %d were stopped for %v; the load was up to %.0f\n", load, count, stop, busiest)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(exit.ExitCode(), 1), nil
	}
	return 0, err
}

// A process is one at an instant: its number may be another's later.
type process struct {
	pid, parent int
	name, began string
	state       string
}

// stop stops the process, and reports whether it did. One that is stopped already is left to whom has stopped it.
func (p process) stop() bool {
	now := look(p.pid)
	return now.began == p.began && p.began != "" && now.state != "T" && now.state != "Z" && syscall.Kill(p.pid, syscall.SIGSTOP) == nil
}

func (p process) goOn() {
	if look(p.pid).began == p.began {
		syscall.Kill(p.pid, syscall.SIGCONT)
	}
}

// look reads what the kernel says of a process.
func look(pid int) (p process) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return p
	}
	_, rest, _ := strings.Cut(string(b), "(")
	end := strings.LastIndexByte(rest, ')')
	fields := strings.Fields(rest[end+1:]) // from the third on
	if end < 0 || len(fields) < 20 {
		return p
	}
	parent, _ := strconv.Atoi(fields[1])
	return process{pid: pid, parent: parent, name: rest[:end], state: fields[0], began: fields[19]}
}

// of returns the processes that have the mark in their environment, and those below them. So it finds those whose parent has
// ended, and those of an SSH server's sessions.
func of(mark string) (found []process) {
	entries, _ := filepath.Glob("/proc/[0-9]*")
	children := map[int][]process{}
	var next []process
	for _, e := range entries {
		pid, _ := strconv.Atoi(filepath.Base(e))
		p := look(pid)
		if env, err := os.ReadFile(filepath.Join(e, "environ")); err == nil && bytes.Contains(env, []byte(mark)) {
			next = append(next, p)
		} else {
			children[p.parent] = append(children[p.parent], p)
		}
	}
	for ; len(next) > 0; next = next[1:] {
		found = append(found, next[0])
		next = append(next, children[next[0].pid]...)
	}
	return found
}

// tools are programs that are never stopped.
var tools = []string{"go", "compile", "link", "asm", "cgo", "vet", "testrun", "test", "gcc", "cc1", "as", "ld", "git", "docker"}

// pick picks one of the processes that are no tools.
func pick(all []process, random *rand.Rand) process {
	all = slices.DeleteFunc(all, func(p process) bool { return slices.Contains(tools, p.name) || p.pid == os.Getpid() })
	if len(all) == 0 {
		return process{}
	}
	return all[random.IntN(len(all))]
}

func loadAverage() float64 {
	b, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(b), " ")
	f, _ := strconv.ParseFloat(first, 64)
	return f
}
