package ssh_test

import (
	"context"
	"fmt"
	"log"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/ssh"
)

// Open reports everything that is wrong before it contacts anything.
func ExampleConfig_Open() {
	_, err := ssh.Config{}.Open(context.Background())
	fmt.Println(err)
	// Output:
	// ssh: open: invalid: no hosts; name at least one: ssh.Config{Hosts: []ssh.Host{{Addr: "gpu1.lab"}}}
}

// Adopt machines of a lab, and leave them as they were found.
func ExampleConfig() {
	lab := ssh.Config{Hosts: []ssh.Host{
		{Addr: "gpu1.lab", HostKey: "SHA256:jOzoyCtCFEPeHYjYxxSFFzvBt4yhpyTHtSmlQKkqrF8"},
		{Addr: "gpu2.lab:2222", User: "me", KeyFile: "~/.ssh/lab"}, // host key from known_hosts
	}}
	pool, err := gputrain.Open(context.Background(), lab, gputrain.Spec{Nodes: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	results, err := pool.Broadcast(gputrain.Cmd("hostname"))
	for _, r := range results {
		fmt.Printf("%d %s", r.Node.Rank, r.Stdout)
	}
	if err != nil {
		log.Print(err)
	}
}

// Open names each fault of each host.
func ExampleHost() {
	lab := ssh.Config{Hosts: []ssh.Host{{Addr: "gpu1.lab", KeyFile: "/no/such/key"}, {}}}
	_, err := lab.Open(context.Background())
	fmt.Println(err)
	// Output:
	// ssh: open: invalid: host 0 of Hosts, "gpu1.lab": KeyFile: there is no file /no/such/key; name the private key that the host lets in
	// ssh: open: invalid: host 1 of Hosts, "": Addr is empty; write "gpu1.lab", "gpu1.lab:2222" or "[2001:db8::1]:22"
}

func ExampleConfig_Name() {
	fmt.Println(ssh.Config{}.Name())
	// Output: ssh
}

// Another provider can reach its machines through a host, such as a cluster's login node.
func ExampleHost_Route() {
	_, err := ssh.Host{Addr: "me@login.lab"}.Route()
	fmt.Println(err)
	// Output: invalid: Addr holds a user name; write the part before the @ into User
}
