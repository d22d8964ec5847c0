package simnode

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/gputrain/gputrain/internal/sshd"
)

// Config describes a node.
type Config struct {
	// Exec runs a task. Its result is the exit status; -n means that signal n ended the task. ctx ends when the task is
	// to end: an Exec that goes on is ignored after the task's grace.
	Exec func(ctx context.Context, cmd Command) int
	// Lapsed is called once when the lease or the TTL has run out, and everything that ran has ended. selfDestruct is
	// the pool's shell text for that.
	Lapsed func(selfDestruct string)
	// Addr is its address in the network that it shares with others.
	Addr string
	// CPUs, MemoryBytes and DiskBytes are the node's resources. Zero means unknown.
	CPUs                   int
	MemoryBytes, DiskBytes int64
	// GPUs are the devices that nvidia-smi lists.
	GPUs []GPU
	// Load returns how busy a device is, in percent. A negative load is that of a device that has vanished. Nil means that devices
	// work while a task runs.
	Load func(device int) float64
	// Clock is that of a device's processors, in MHz. Nil means 1410.
	Clock func(device int) float64
}

// A Command is one task.
type Command struct {
	// ID names the attempt.
	ID   string
	Args []string
	// Env is the whole environment, as "NAME=value".
	Env            []string
	Dir            string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// A Node is a machine. Its places, by the node's name, are the pools' parts of it.
type Node struct {
	cfg Config
	wg  sync.WaitGroup

	mu       sync.Mutex
	over     bool
	places   map[string]*place
	samplers map[chan string]bool // which get the lines of the kernel's log
}

// New returns a node on which nothing runs.
func New(cfg Config) *Node {
	return &Node{cfg: cfg, places: map[string]*place{}, samplers: map[chan string]bool{}}
}

// End ends everything on the node at once, as when its power is cut.
func (n *Node) End() {
	n.mu.Lock()
	n.over = true
	var all []*place
	for _, p := range n.places {
		all = append(all, p)
	}
	clear(n.places)
	n.mu.Unlock()
	for _, p := range all {
		p.cut()
	}
}

// Wait returns when no task's function runs any more. Call it after End.
func (n *Node) Wait() { n.wg.Wait() }

// Run is the node's sshd.Config.Run.
func (n *Node) Run(ctx context.Context, p sshd.Program) int {
	if n.training(p) {
		return 0
	}
	words, err := split(p.Command)
	if err != nil {
		return refuse(p, err.Error())
	}
	if len(words) == 4 && words[0] == "exec" && words[1] == "sh" && words[2] == "-c" {
		if s, ok := stored(words[3]); ok {
			return n.store(p, s)
		}
	}
	switch {
	case strings.Contains(p.Command, "\nlist() ( # what to look in"): // there are no outputs
		return 0
	case len(words) == 5 && words[4] == "gputrain-keys": // no user logs in to it
		return 0
	case len(words) == 6 && words[4] == "gputrain-usage":
		return n.usage(p, words[5] == "once")
	case len(words) == 6 && words[4] == "gputrain-shell":
		return n.login(ctx, p, words[5])
	case len(words) > 1 && words[0] == "exec" && !strings.Contains(p.Command, "exec perl"):
		return n.shell(p)
	case len(words) > 1 && words[0] == "nvidia-smi":
		return n.smi(p, words[1])
	}
	return refuse(p, "it runs tasks and nothing else")
}

// A GPU is a device of a node.
type GPU struct {
	Name      string // the driver's name of the device
	UUID      string
	MemoryMiB int // zero means that the driver does not report it
}

// smi answers a query of nvidia-smi.
func (n *Node) smi(p sshd.Program, ask string) int {
	for _, g := range n.cfg.GPUs {
		memory := "[N/A]"
		if g.MemoryMiB > 0 {
			memory = strconv.Itoa(g.MemoryMiB)
		}
		switch ask {
		case "--query-gpu=name,memory.total":
			fmt.Fprintf(p.Stdout, "%s, %s\n", g.Name, memory)
		default:
			return refuse(p, "nvidia-smi does not know "+ask)
		}
	}
	return 0
}

// refuse rejects what such a node cannot do: copying files, and a worker for functions.
func refuse(p sshd.Program, why string) int {
	io.WriteString(p.Stderr, "a simulated node has no shell and no files: "+why+"\n")
	return 127
}

// login runs a user's shell. Each line is a command, and "exit" ends it. The shell text before the first, of so many bytes,
// has the environment.
func (n *Node) login(ctx context.Context, p sshd.Program, size string) int {
	length, err := strconv.Atoi(size)
	if err != nil || length < 0 || length > 1<<20 {
		return refuse(p, "it knows no such shell")
	}
	io.WriteString(p.Stdout, "\x01gputrain\x02")
	text := make([]byte, length)
	if _, err := io.ReadFull(p.Stdin, text); err != nil {
		return 255
	}
	var env []string
	for in := (&input{r: strings.NewReader(""), b: text}); ; {
		words, err := in.line()
		if err != nil {
			break
		}
		if len(words) == 2 && words[0] == "export" && strings.Contains(words[1], "=") {
			env = append(env, words[1])
		}
	}
	code := 0
	for in := (&input{r: p.Stdin}); ; {
		words, err := in.line()
		switch {
		case err != nil: // the end, or a quote that does not end
			return code
		case len(words) == 0:
		case words[0] == "exit":
			if len(words) > 1 {
				code, _ = strconv.Atoi(words[1])
			}
			return code
		default:
			code = n.cfg.Exec(ctx, Command{ID: "shell", Args: words, Env: env, Stdin: strings.NewReader(""), Stdout: p.Stdout, Stderr: p.Stderr})
			if code < 0 { // a signal
				code = 128 - code
			}
		}
	}
}

// place returns the place of a name, and makes it if create is set.
func (n *Node) place(name string, create bool) *place {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.places[name]
	if p == nil && create && !n.over {
		p = newPlace(n, name)
		n.places[name] = p
	}
	return p
}

// forget removes a place from the node.
func (n *Node) forget(p *place) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.places[p.name] == p {
		delete(n.places, p.name)
	}
}
