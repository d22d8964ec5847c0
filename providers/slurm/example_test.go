package slurm_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/local"
	"github.com/gputrain/gputrain/providers/slurm"
	"github.com/gputrain/gputrain/providers/ssh"
)

// Two nodes with four A100 each, for eight hours at most.
func ExampleConfig() {
	lab := slurm.Config{Login: ssh.Host{Addr: "login.lab"}, Partitions: []string{"gpu"}}
	pool, err := gputrain.Open(context.Background(), lab, gputrain.Spec{
		Accelerator: accelerators.A100(accelerators.Count(4)), Nodes: 2, TTL: 8 * time.Hour,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Broadcast(gputrain.Cmd("nvidia-smi", "-L")); err != nil {
		log.Print(err)
	}
}

// The own cluster first, and another provider if a job has waited for ten minutes: a cloud or, as here, this computer.
func ExampleConfig_firstOf() {
	lab := slurm.Config{Login: ssh.Host{Addr: "login.lab"}, Partitions: []string{"gpu"}, QueueTimeout: 10 * time.Minute}
	pool, err := gputrain.Open(context.Background(), gputrain.FirstOf(lab, local.Config{}), gputrain.Spec{})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	fmt.Println(pool.Nodes()[0].Provider)
}

// Open reports everything that is wrong before it contacts anything.
func ExampleConfig_Open() {
	_, err := slurm.Config{Ports: [2]int{1, 2}}.Open(context.Background())
	fmt.Println(err)
	// Output:
	// slurm: open: invalid: Login names no host; write slurm.Config{Login: ssh.Host{Addr: "login.lab"}}, or set Local on the login node itself
	// slurm: open: invalid: Ports are 1 to 2; give the first and the last one, from 1024 to 65535
}

func ExampleConfig_Name() {
	fmt.Println(slurm.Config{}.Name())
	// Output: slurm
}

// A login node that forbids forwarding is known, so steps are used at once.
func ExampleReach() {
	lab := slurm.Config{Login: ssh.Host{Addr: "login.lab"}, Reach: slurm.ReachStep}
	fmt.Println(lab.Reach, slurm.ReachAuto, slurm.ReachForward)
	// Output: step auto forward
}
