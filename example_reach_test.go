package gputrain_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/local"
)

// dashboard starts a server on a local node, which is this machine, and returns its address there. A
// task may start TensorBoard instead, at port 6006.
func dashboard() (addr string, stop func()) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "loss 0.25") }))
	return s.Listener.Addr().String(), s.Close
}

func ExampleCompute_Dial() {
	pool := start(1)
	defer pool.Close()
	addr, stop := dashboard()
	defer stop()

	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			return pool.Dial(ctx, 0, addr) // addresses are those of node 0
		},
	}}
	r, err := client.Get("http://" + addr)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	fmt.Println(string(text), err)

	_, err = pool.Dial(context.Background(), 1, addr)
	fmt.Println(errors.Is(err, gputrain.ErrInvalid)) // there is one node
	// Output:
	// loss 0.25 <nil>
	// true
}

func ExampleCompute_Forward() {
	pool := start(1)
	defer pool.Close()
	addr, stop := dashboard()
	defer stop()

	board, err := pool.Forward(context.Background(), "127.0.0.1:0", 0, addr)
	if err != nil {
		log.Fatal(err)
	}
	defer board.Close()
	r, err := http.Get("http://" + board.Addr().String()) // a browser shows it, too
	if err != nil {
		log.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	fmt.Println(string(text), err)
	// Output: loss 0.25 <nil>
}

func ExampleCompute_Shell() {
	pool := start(1)
	defer pool.Close()

	// With os.Stdin, os.Stdout and os.Stderr of a terminal this is an interactive shell.
	script := strings.NewReader("echo in $(basename $PWD)\nexit 3\n")
	err := pool.Shell(context.Background(), 0, script, os.Stdout, os.Stderr)
	var failed *gputrain.TaskError
	if errors.As(err, &failed) {
		fmt.Println(failed.Cause, failed.ExitCode)
	}
	// Output:
	// in work
	// exit 3
}

func ExampleCompute_WriteSSHConfig() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	pool := start(2)
	defer pool.Close()

	path := filepath.Join(dir, "pool.ssh")
	if err := pool.WriteSSHConfig(path); err != nil {
		log.Fatal(err)
	}
	text, err := os.ReadFile(path) // ssh -F pool.ssh node-0
	for line := range strings.Lines(string(text)) {
		if host, ok := strings.CutPrefix(line, "Host "); ok {
			fmt.Println(strings.Fields(host)[0])
		}
	}
	fmt.Println(err)

	pool.Close()
	_, err = os.Stat(path)
	fmt.Println(errors.Is(err, os.ErrNotExist))
	// Output:
	// node-0
	// node-1
	// <nil>
	// true
}

func ExampleSpec_authorizedKeys() {
	spec := gputrain.Spec{
		// From ~/.ssh/id_ed25519.pub: ssh -i ~/.ssh/id_ed25519 reaches the node, too.
		AuthorizedKeys: []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEjM47rJIh9Q5Ph8KX4XVDFZSCgkaPtAoQvdmunNCWoP me@laptop"},
	}
	pool, err := gputrain.Open(context.Background(), local.Config{}, spec)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	r, err := pool.Run(gputrain.Script("grep -c '^ssh-ed25519 ' ~/.ssh/authorized_keys"))
	fmt.Printf("%s%v\n", r.Stdout, err)
	// Output:
	// 1
	// <nil>
}
