package gputrain_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/local"
)

func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop() // the first Ctrl-C, or a closed terminal, ends the pool and all its nodes

	pool, err := gputrain.Open(ctx, local.Config{}, gputrain.Spec{Nodes: 4})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	var tasks []gputrain.Task
	for seed := range 3 {
		tasks = append(tasks, gputrain.Cmd("echo", "seed", fmt.Sprint(seed)))
	}
	results, err := pool.Gather(tasks...)
	for _, r := range results {
		fmt.Printf("%s", r.Stdout)
	}
	fmt.Println(err)
	// Output:
	// seed 0
	// seed 1
	// seed 2
	// <nil>
}

// start opens the pool of the examples below: nodes of this machine.
func start(nodes int, opts ...gputrain.Option) *gputrain.Compute {
	pool, err := gputrain.Open(context.Background(), local.Config{}, gputrain.Spec{Nodes: nodes}, opts...)
	if err != nil {
		log.Fatal(err)
	}
	return pool
}

func ExampleOpen() {
	spec := gputrain.Spec{
		Nodes:    3,
		MinReady: 2,             // Open returns when two nodes are ready; the third joins later
		TTL:      8 * time.Hour, // no node lives longer in any case
	}
	pool, err := gputrain.Open(context.Background(), local.Config{}, spec, gputrain.WithName("digits"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	fmt.Println(len(pool.Nodes()), "nodes")
	// Output: 3 nodes
}

// With closes the pool before it returns, even after a panic in the body.
func ExampleWith() {
	err := gputrain.With(context.Background(), local.Config{}, gputrain.Spec{Nodes: 2},
		func(ctx context.Context, pool *gputrain.Compute) error {
			_, err := pool.Broadcast(gputrain.Cmd("test", "-d", "."))
			return err
		})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleCompute() {
	pool := start(2)
	defer pool.Close()

	// Two calls at the same time share the nodes' slots.
	background := pool.Start(gputrain.Cmd("echo", "in the background"))
	front, _ := pool.Run(gputrain.Cmd("echo", "in front"))
	back, _ := background.Wait()
	fmt.Printf("%s%s", front.Stdout, back.Stdout)
	// Output:
	// in front
	// in the background
}

func ExampleCompute_Run() {
	pool := start(1)
	defer pool.Close()

	r, err := pool.Run(gputrain.Cmd("printf", "%s|", "no shell", "reads $this"))
	fmt.Printf("%s %d %v\n", r.Stdout, r.ExitCode, err)
	// Output: no shell|reads $this| 0 <nil>
}

// Results are in the order of the tasks. A task that fails does not affect the others.
func ExampleCompute_Gather() {
	pool := start(2)
	defer pool.Close()

	results, err := pool.Gather(
		gputrain.Cmd("echo", "one"),
		gputrain.Script("echo out of paper >&2; exit 3"),
		gputrain.Cmd("echo", "three"),
	)
	for _, r := range results {
		fmt.Printf("%d %d %q\n", r.Index, r.ExitCode, r.Stdout)
	}
	fmt.Println(err != nil)
	// Output:
	// 0 0 "one\n"
	// 1 3 ""
	// 2 0 "three\n"
	// true
}

func ExampleCompute_Broadcast() {
	pool := start(3)
	defer pool.Close()

	results, err := pool.Broadcast(gputrain.Script(`echo "rank $GPUTRAIN_RANK of $GPUTRAIN_NODES, master $GPUTRAIN_MASTER_ADDR"`))
	for _, r := range results {
		fmt.Printf("%s", r.Stdout)
	}
	fmt.Println(err)
	// Output:
	// rank 0 of 3, master 127.0.0.1
	// rank 1 of 3, master 127.0.0.1
	// rank 2 of 3, master 127.0.0.1
	// <nil>
}

// Leaving the loop cancels what has not finished, on the nodes too.
func ExampleCompute_Stream() {
	pool := start(2)
	defer pool.Close()

	for r, err := range pool.Stream(gputrain.Cmd("sleep", "600"), gputrain.Cmd("echo", "found it")) {
		fmt.Printf("task %d: %s%v\n", r.Index, r.Stdout, err)
		break
	}
	// Output:
	// task 1: found it
	// <nil>
}

// A slow loop slows the tasks down, so that not all of their results need be in memory.
func ExampleCompute_Stream_slow() {
	pool := start(2)
	defer pool.Close()
	tasks := make([]gputrain.Task, 6)
	for i := range tasks {
		tasks[i] = gputrain.Cmd("head", "-c", "1000000", "/dev/zero") // of many such tasks, at most 64 MiB wait unread
	}
	sum := int64(0)
	for r, err := range pool.Stream(tasks...) {
		if err != nil {
			log.Fatal(err)
		}
		time.Sleep(time.Millisecond) // stands for the use of the results
		sum += r.StdoutBytes
	}
	fmt.Println(sum, "bytes")
	// Output: 6000000 bytes
}

func ExampleCompute_Start() {
	pool := start(1)
	defer pool.Close()

	job := pool.Start(gputrain.Cmd("echo", "done"))
	// ... other work ...
	r, err := job.Wait()
	fmt.Printf("%s%v\n", r.Stdout, err)
	// Output:
	// done
	// <nil>
}

func ExampleJob() {
	pool := start(1)
	defer pool.Close()

	job := pool.Start(gputrain.Script("echo it runs; sleep 600"))
	line, _ := bufio.NewReader(job.Stdout()).ReadString('\n')
	fmt.Print(line)
	job.Cancel()
	<-job.Done() // the process on the node has ended too
	_, err := job.Wait()
	fmt.Println(err)
	// Output:
	// it runs
	// task 0 on node 0: cancelled
}

// This sets a deadline for some calls; the pool goes on.
func ExampleCompute_WithContext() {
	pool := start(1)
	defer pool.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := pool.WithContext(ctx).Run(gputrain.Cmd("sleep", "600"))
	fmt.Println(err != nil)

	r, err := pool.Run(gputrain.Cmd("echo", "still here"))
	fmt.Printf("%s%v\n", r.Stdout, err)
	// Output:
	// true
	// still here
	// <nil>
}

func ExampleCompute_Nodes() {
	pool := start(2)
	defer pool.Close()

	for _, n := range pool.Nodes() {
		fmt.Println(n.Rank, n.Provider, n.State, n.PrivateAddr)
	}
	// Output:
	// 0 local ready 127.0.0.1
	// 1 local ready 127.0.0.1
}

func ExampleCompute_Upload() {
	pool := start(2)
	defer pool.Close()

	here, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(here)
	os.WriteFile(filepath.Join(here, "rates.csv"), []byte("0.1,0.3\n"), 0o644)

	if err := pool.Upload(filepath.Join(here, "rates.csv"), "data/rates.csv"); err != nil {
		log.Fatal(err)
	}
	r, _ := pool.Run(gputrain.Cmd("cat", "data/rates.csv"))
	fmt.Printf("%s", r.Stdout)
	// Output: 0.1,0.3
}

// Each node's copy arrives in a folder of its own.
func ExampleCompute_Download() {
	pool := start(2)
	defer pool.Close()

	here, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(here)
	pool.Broadcast(gputrain.Script("mkdir out; echo $GPUTRAIN_NODE_RANK >out/rank"))

	if err := pool.Download("out", here); err != nil {
		log.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(here, "*", "out", "rank"))
	for _, f := range slices.Sorted(slices.Values(files)) {
		name, _ := filepath.Rel(here, f)
		fmt.Println(filepath.ToSlash(name))
	}
	// Output:
	// 0/out/rank
	// 1/out/rank
}

// A link to a file outside the folder is neither followed nor sent.
func ExampleSkipOutsideLinks() {
	pool := start(1)
	defer pool.Close()

	here, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(here)
	os.WriteFile(filepath.Join(here, "token"), []byte("secret"), 0o600)
	os.MkdirAll(filepath.Join(here, "src"), 0o755)
	os.WriteFile(filepath.Join(here, "src", "main.py"), nil, 0o644)
	os.Symlink("../token", filepath.Join(here, "src", "token"))

	err := pool.Upload(filepath.Join(here, "src"), "src")
	fmt.Println(errors.Is(err, gputrain.ErrOutsideLink))
	err = pool.Upload(filepath.Join(here, "src"), "src", gputrain.SkipOutsideLinks())
	r, _ := pool.Run(gputrain.Cmd("ls", "src"))
	fmt.Printf("%v %s", err, r.Stdout)
	// Output:
	// true
	// <nil> main.py
}

// Shared data sets are often links in a project's folder.
func ExampleFollowOutsideLinks() {
	pool := start(1)
	defer pool.Close()

	here, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(here)
	os.WriteFile(filepath.Join(here, "shared.csv"), []byte("1,2,3\n"), 0o644)
	os.MkdirAll(filepath.Join(here, "src"), 0o755)
	os.Symlink("../shared.csv", filepath.Join(here, "src", "data.csv"))

	if err := pool.Upload(filepath.Join(here, "src"), "src", gputrain.FollowOutsideLinks()); err != nil {
		log.Fatal(err)
	}
	r, _ := pool.Run(gputrain.Cmd("cat", "src/data.csv"))
	fmt.Printf("%s", r.Stdout)
	// Output: 1,2,3
}

// A link is copied as text; its target on the node is not read.
func ExampleKeepOutsideLinks() {
	pool := start(1)
	defer pool.Close()

	here, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(here)
	pool.Run(gputrain.Script("mkdir out; ln -s /opt/model out/model"))

	fmt.Println(errors.Is(pool.Download("out", here), gputrain.ErrOutsideLink))
	if err := pool.Download("out", here, gputrain.KeepOutsideLinks()); err != nil {
		log.Fatal(err)
	}
	fmt.Println(os.Readlink(filepath.Join(here, "0", "out", "model")))
	// Output:
	// true
	// /opt/model <nil>
}

func ExampleCompute_CostUSD() {
	pool := start(1)
	defer pool.Close()
	fmt.Printf("$%.2f\n", pool.CostUSD())
	// Output: $0.00
}

// The ID is the pool's name and a random part. It tags everything made for the pool.
func ExampleCompute_ID() {
	pool := start(1, gputrain.WithName("digits"))
	defer pool.Close()
	fmt.Println(pool.ID()[:len("digits-")])
	// Output: digits-
}

// Close reports a machine that it could not end. In a pool that costs money, check that error.
func ExampleCompute_Close() {
	pool := start(1)
	if err := pool.Close(); err != nil {
		log.Fatal(err)
	}
	_, err := pool.Run(gputrain.Cmd("true"))
	fmt.Println(errors.Is(err, gputrain.ErrClosed))
	// Output: true
}
